"""What became of each object of a restore, and the file that keeps it. Pure. (docs/spec: BEY 3.5)

Velero knows four actions (created, updated, skipped, failed), and its resource list names every object with
one of them. Our own file beside it has the finer outcome and the reason of every object that was not simply
created.
"""

from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """What a restore did with one object."""

    CREATED = "created"
    UPDATED = "updated"
    RECREATED = "recreated"
    UNCHANGED = "unchanged"
    DIFFERENT = "different"
    SKIPPED = "skipped"
    REFUSED = "refused"
    FAILED = "failed"


MEANINGS: Final = {
    Outcome.CREATED: "created",
    Outcome.UPDATED: "updated to the version in the backup",
    Outcome.RECREATED: "deleted and created again",
    Outcome.UNCHANGED: "already there and the same",
    Outcome.DIFFERENT: "already there, different, and left unchanged",
    Outcome.SKIPPED: "left out",
    Outcome.REFUSED: "not restorable here",
    Outcome.FAILED: "failed",
}
"""How an outcome reads behind a number of objects."""

ACTIONS: Final = {
    Outcome.CREATED: "created",
    Outcome.UPDATED: "updated",
    Outcome.RECREATED: "updated",
    Outcome.UNCHANGED: "skipped",
    Outcome.DIFFERENT: "failed",
    Outcome.SKIPPED: "skipped",
    Outcome.REFUSED: "skipped",
    Outcome.FAILED: "failed",
}
"""The action in Velero's resource list; an object that differs and was left alone is `failed` there."""
