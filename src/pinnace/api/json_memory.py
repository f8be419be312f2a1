"""How much memory JSON takes once it is decoded. Pure.

Small JSON can be large in memory: an empty object is two bytes of JSON, and 80 bytes of memory. The figures
are those of CPython on a 64-bit machine, with the reserve that containers have while they grow.
"""

from typing import Final

OBJECT_BYTES: Final = 248
MEMBER_BYTES: Final = 104
"""One key and the place of its value; the key itself is a text."""

ARRAY_BYTES: Final = 104
ELEMENT_BYTES: Final = 10
TEXT_BYTES: Final = 61
"""One ASCII text, besides its characters."""

_NUMBER_BYTES: Final = 32
_HALF_TEXT_BYTES: Final = (TEXT_BYTES + 1) // 2


def most_memory(data: bytes) -> int:
    """The most bytes of memory that a decoded JSON text takes; honest objects take a quarter of it.

    Structure is counted wherever it stands, within texts too.
    """
    count = data.count
    return (
        len(data) * (1 if data.isascii() and b"\\u" not in data else 4)
        + _HALF_TEXT_BYTES * count(b'"')
        + OBJECT_BYTES * count(b"{")
        + ARRAY_BYTES * count(b"[")
        + MEMBER_BYTES * count(b":")
        + (_NUMBER_BYTES + ELEMENT_BYTES) * count(b",")
    )
