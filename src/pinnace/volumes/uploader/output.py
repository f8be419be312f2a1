"""What the outputs of a program are kept as, and how far it says it is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a backup or restore."""

    total_bytes: int
    bytes_done: int


class Tail:
    """Keeps the end of an output."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._data = bytearray()
        self.is_cut = False

    def feed(self, chunk: bytes) -> None:
        """Take a part of the output."""
        self._data += chunk
        if len(self._data) > self._limit_bytes:
            self.is_cut = True
            del self._data[: -self._limit_bytes]

    @property
    def data(self) -> bytes:
        """The kept end."""
        return bytes(self._data)

    @property
    def text(self) -> str:
        """The kept end for people."""
        text = self._data.decode("utf-8", "replace").strip()
        return f"…{text}" if self.is_cut else text
