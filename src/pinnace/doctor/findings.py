"""The findings of the doctor: one line each, with its remedy. Pure."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from pinnace.api.objects import JSONObject
from pinnace.api.values.counts import first_names


class Level(enum.StrEnum):
    """How a check ended. Only PROBLEM changes the exit code."""

    OK = "OK"
    SKIPPED = "SKIPPED"
    WARNING = "WARNING"
    PROBLEM = "PROBLEM"


class Code(enum.StrEnum):
    """What was found, for programs: the text may change, the code does not. (docs/reference/doctor.md)"""

    OK = "ok"
    NOT_APPLICABLE = "not-applicable"
    NOT_PERMITTED = "not-permitted"
    NOT_SERVED = "not-served"
    CHECK_FAILED = "check-failed"
    NOTHING_CHECKED = "nothing-checked"
    KUBECONFIG_UNUSABLE = "kubeconfig-unusable"
    CLUSTER_UNREACHABLE = "cluster-unreachable"
    CREDENTIALS_EXPIRED = "credentials-expired"
    CREDENTIALS_EXPIRING = "credentials-expiring"
    CREDENTIALS_MISSING = "credentials-missing"
    CREDENTIALS_REFUSED = "credentials-refused"
    NAMESPACE_MISSING = "namespace-missing"
    RIGHTS_MISSING = "rights-missing"
    CLOCK_DIFFERS = "clock-differs"
    DEFINITIONS_MISSING = "definitions-missing"
    DEFINITIONS_OUTDATED = "definitions-outdated"
    DEFINITIONS_NARROW = "definitions-narrow"
    DEFINITIONS_NOT_ESTABLISHED = "definitions-not-established"
    DEFINITIONS_NOT_VELEROS = "definitions-not-veleros"
    SERVER_MISSING = "server-missing"
    SERVER_NOT_READY = "server-not-ready"
    SERVER_SILENT = "server-silent"
    SERVER_NOT_LEADING = "server-not-leading"
    SERVER_VERSION_DIFFERS = "server-version-differs"
    AGENTS_NOT_INSTALLED = "agents-not-installed"
    AGENTS_MISSING = "agents-missing"
    LOCATION_MISSING = "location-missing"
    LOCATION_DEFAULT = "location-default"
    LOCATION_UNAVAILABLE = "location-unavailable"
    LOCATION_UNUSABLE = "location-unusable"
    LOCATION_SECRET_MISSING = "location-secret-missing"  # noqa: S105 - a code
    LOCATION_NOT_CONFIRMED = "location-not-confirmed"
    LOCATION_UNREACHABLE_FROM_HERE = "location-unreachable-from-here"
    REPOSITORY_NOT_READY = "repository-not-ready"
    REPOSITORY_LOCKED = "repository-locked"
    SNAPSHOTS_NOT_SERVED = "snapshots-not-served"
    SNAPSHOT_CLASS = "snapshot-class"
    SCHEDULE_INVALID = "schedule-invalid"
    SCHEDULE_LOCATION_MISSING = "schedule-location-missing"
    SCHEDULE_PAUSED = "schedule-paused"
    SCHEDULE_AHEAD = "schedule-ahead"
    SCHEDULE_LATE = "schedule-late"
    SCHEDULE_NOT_VERIFIED = "schedule-not-verified"
    SCHEDULES_WITHOUT_SERVER = "schedules-without-server"
    BACKUPS_FAILED = "backups-failed"
    BACKUPS_PARTIALLY_FAILED = "backups-partially-failed"
    BACKUPS_UNSOUND = "backups-unsound"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        code: what was found, for programs.
        check: the subject, one word or two.
        text: what was found, about which object.
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
        needed: the checks of which one must have been made, the most useful first.
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
    """It works now, but may fail or surprise later."""
    return Finding(Level.WARNING, code, check, text, remedy)


def problem(check: str, text: str, remedy: str, *, code: Code) -> Finding:
    """A backup or a restore will fail or lack something."""
    return Finding(Level.PROBLEM, code, check, text, remedy)


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return first_names(names, 5)
