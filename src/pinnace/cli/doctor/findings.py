"""The findings of the doctor: one line each, with its remedy. Pure."""

import enum
from dataclasses import dataclass

from pinnace.api.objects import JSONObject


class Level(enum.StrEnum):
    """How a check ended. Only PROBLEM changes the exit code."""

    OK = "OK"
    SKIPPED = "SKIPPED"
    WARNING = "WARNING"
    PROBLEM = "PROBLEM"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        check: the subject, one word or two.
        text: what was found, about which object.
        remedy: what to do; empty when all is well.
    """

    level: Level
    check: str
    text: str
    remedy: str = ""

    def as_json(self) -> JSONObject:
        """The finding as `-o json` prints it."""
        found = {"check": self.check, "level": str(self.level), "message": self.text}
        return {**found, "remedy": self.remedy} if self.remedy else found


def ok(check: str, text: str) -> Finding:
    """Nothing is wrong."""
    return Finding(Level.OK, check, text)


def skipped(check: str, text: str, remedy: str = "") -> Finding:
    """The check was not made, or does not concern this cluster; the text says why."""
    return Finding(Level.SKIPPED, check, text, remedy)


def warning(check: str, text: str, remedy: str) -> Finding:
    """It works now, but may fail or surprise later."""
    return Finding(Level.WARNING, check, text, remedy)


def problem(check: str, text: str, remedy: str) -> Finding:
    """A backup or a restore will fail or lack something."""
    return Finding(Level.PROBLEM, check, text, remedy)


def listed(names: list[str], most: int = 5) -> str:
    """The names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
