"""The findings of the doctor: one line each, with its remedy. Pure."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from pinnace.api.objects import JSONObject
from pinnace.api.values.counts import first_names
from pinnace.notices.codes import Code


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
        code: what was found, for programs.
        check: the subject, one word or two.
        text: the finding, with the name of its object.
        remedy: what to do; empty when all is well.
        refused: whether a right to read was missing, so that the check was not made.
    """

    level: Level
    code: Code
    check: str
    text: str
    remedy: str = ""
    refused: bool = False

    def as_json(self) -> JSONObject:
        """The finding as `-o json` prints it."""
        found = {
            "check": self.check,
            "level": str(self.level),
            "code": str(self.code),
            "message": self.text,
        }
        return {**found, "remedy": self.remedy} if self.remedy else found


def ok(check: str, text: str) -> Finding:
    """Nothing is wrong."""
    return Finding(Level.OK, Code.OK, check, text)


def skipped(check: str, text: str, remedy: str = "", *, code: Code = Code.NOT_APPLICABLE) -> Finding:
    """The check was not made, or does not concern this cluster; the text says why."""
    return Finding(Level.SKIPPED, code, check, text, remedy)


_NOT_CHECKED = "not checked: "


def refused(check: str, error: str) -> Finding:
    """The check was not made, as this user may not read what it needs."""
    remedy = "ask with an account that may read this"
    return Finding(Level.SKIPPED, Code.NOT_PERMITTED, check, f"{_NOT_CHECKED}{error}", remedy, refused=True)


def judge_refusals(
    found: Sequence[Finding], needed: Sequence[str], *, about: str, rights: str
) -> list[Finding]:
    """A problem if no needed check was made: without it, a user without rights would see no problem at all.

    Args:
        needed: one of these checks must have been made; the most useful one comes first.
        about: what they are about.
        rights: what the most useful one has to be allowed to do.
    """
    of_needed = [finding for finding in found if finding.check in needed]
    if not of_needed or not all(finding.refused for finding in of_needed):
        return []
    first = min(of_needed, key=lambda finding: needed.index(finding.check))
    return [
        problem(
            "access",
            f"nothing was checked about {about}: {first.text.removeprefix(_NOT_CHECKED)}",
            f"use an account with more rights; the check {first.check} alone needs to {rights}",
            code=Code.NOTHING_CHECKED,
        )
    ]


def warning(check: str, text: str, remedy: str, *, code: Code) -> Finding:
    """The subject works now, but may fail or surprise later."""
    return Finding(Level.WARNING, code, check, text, remedy)


def problem(check: str, text: str, remedy: str, *, code: Code) -> Finding:
    """A backup or a restore will fail or lack something."""
    return Finding(Level.PROBLEM, code, check, text, remedy)


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return first_names(names, 5)
