"""The outcome of each object of a restore, and the file that keeps it. Pure. (docs/spec: BEY 3.5)

Velero knows four actions (created, updated, skipped, failed), and its resource list names every object with
one of them. Our own file beside it has the finer outcome and the reason of every object that was not simply
created.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """The outcome of one object in a restore."""

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


def encode_counts(counts: Mapping[Outcome, int]) -> str:
    """The value of the annotation with how many objects had which outcome: `created=12,unchanged=3`."""
    return ",".join(f"{each}={counts[each]}" for each in Outcome if counts.get(each))


def counts_text(value: str) -> str:
    """Such a value for people: `1,204 created, 3 unchanged`; empty for any other text."""
    if not re.fullmatch(_COUNTS, value):
        return ""
    given = {name: int(number) for name, _, number in (part.partition("=") for part in value.split(","))}
    return ", ".join(f"{given[each]:,} {each}" for each in Outcome if given.get(each))


_COUNTS: Final = r"[a-z]{1,20}=[0-9]{1,9}(?:,[a-z]{1,20}=[0-9]{1,9}){0,20}"
