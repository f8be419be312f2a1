"""Decides whether a queue position that has changed is written. Pure. (docs/adr/015, docs/adr/046)

Each object that leaves a queue changes the positions of all objects behind it. Writing every change would
cost the square of the length of the queue.
"""

from typing import Final

NEAR: Final = 3
"""Every change of a position up to this one is written."""

FAR_FACTOR: Final = 3


def is_worth_showing(shown: int, position: int) -> bool:
    """Whether to write a position that is lower than the one shown.

    A near position is written at once. A far position is an estimate, and is written when it is at most a
    third of the one shown, so that an object in a queue of hundreds costs a few writes.
    """
    return position < shown and (position <= NEAR or is_much_lower(shown, position))


def is_much_lower(shown: int, position: int) -> bool:
    """Whether even an estimate is written again."""
    return position * FAR_FACTOR <= shown
