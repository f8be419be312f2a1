"""The result of a verification, for commands, controllers and Python programs. Loads no other module."""

from dataclasses import dataclass
from enum import StrEnum


class CheckResult(StrEnum):
    """How one check of a verification ended."""

    OK = "ok"
    BAD = "BAD"
    """The backup cannot be relied upon."""
    MISSING = "missing"
    """A file that not every backup has."""
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check of a verification.

    Attributes:
        name: what was checked, such as "tarball" or "kopia snapshots".
        details: what was found, or why it was not checked.
    """

    name: str
    result: CheckResult
    details: str = ""

    @property
    def is_problem(self) -> bool:
        """Whether the backup cannot be relied upon."""
        return self.result == CheckResult.BAD
