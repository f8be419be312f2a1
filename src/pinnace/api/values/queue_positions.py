"""When a queue position that has changed is worth a write. Pure. (docs/adr/015, docs/adr/046)

Each end moves all that wait behind it: written at once for each, a queue costs the square of its length.
"""

from typing import Final

NEAR: Final = 3
"""Up to this position what is shown is exact, but for the moment it takes to write it."""

FAR_FACTOR: Final = 3


def is_worth_showing(shown: int, position: int) -> bool:
    """Whether an object that shows one position is told of another that is lower.

    A near position is told at once. A far one is an estimate, and is told when it is a third of what is
    shown: so the whole way of an object through a line of hundreds costs a few writes.
    """
    return position < shown and (position <= NEAR or position * FAR_FACTOR <= shown)
