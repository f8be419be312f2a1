"""Checks how the last backups ended and what their verification found: a server that is well may have made
none that can be restored. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pinnace.api import labels, phases
from pinnace.api.objects import JSONObject, reasons, text
from pinnace.api.values.counts import counted
from pinnace.api.values.relative_times import past
from pinnace.api.values.shell_words import argument
from pinnace.api.verification_answer import Soundness
from pinnace.doctor.findings import Finding, listed, ok, problem, skipped, warning
from pinnace.notices.codes import Code

CHECK: Final = "backups"
_WITHOUT_LOG: Final = "FailedValidation"


def judge(backups: Sequence[JSONObject], now: datetime) -> list[Finding]:
    """A finding for each schedule whose last backup did not complete, and for those that no schedule made.

    One more names the backups whose last verification found damage, whatever their age: each is kept to be
    restored. Backups that have not ended, or are being deleted, say nothing.
    """
    ended = [
        backup for backup in sorted(backups, key=_begun) if text(backup, "status", "phase") in phases.FINAL
    ]
    groups = defaultdict[str, list[JSONObject]](list)
    for backup in ended:
        groups[text(backup, "metadata", "labels", labels.SCHEDULE_NAME)].append(backup)
    if not groups:
        return [skipped(CHECK, "none has ended yet", "`backup create NAME` makes one")]
    findings = [found for schedule, made in sorted(groups.items()) for found in _judge(schedule, made, now)]
    findings += _judge_soundness(ended, now)
    if findings:
        return findings
    newest = max((made[-1] for made in groups.values()), key=_begun)
    what = "the last one" if len(groups) == 1 else f"the last one of each of {len(groups)} groups"
    return [ok(CHECK, f"{what} completed, the newest is {_titled(newest, now)}")]


def _begun(backup: JSONObject) -> str:
    """The sort key of a backup: its start, or its creation, as the API writes times."""
    return text(backup, "status", "startTimestamp") or text(backup, "metadata", "creationTimestamp")


def _titled(backup: JSONObject, now: datetime) -> str:
    return f"{backup['metadata']['name']} ({past(_begun(backup), now)})"


def _judge(schedule: str, made: Sequence[JSONObject], now: datetime) -> list[Finding]:
    newest = made[-1]
    name, phase = newest["metadata"]["name"], text(newest, "status", "phase")
    if phase == "Completed":
        return []
    good = [
        position for position, backup in enumerate(made) if text(backup, "status", "phase") == "Completed"
    ]
    bad = made[good[-1] + 1 :] if good else made
    whose = f"of schedule {schedule}" if schedule else "made by hand"
    which = f"the last backup {whose}" if len(bad) == 1 else f"the last {counted(len(bad), 'backup')} {whose}"
    why = "; ".join(reasons(newest))
    last = f"the last that completed is {_titled(made[good[-1]], now)}" if good else "none has completed"
    said = f"{which} did not complete: {_titled(newest, now)} is {phase}{f' ({why})' if why else ''}; {last}"
    verb = "describe" if phase == _WITHOUT_LOG else "logs"
    remedy = f"`backup {verb} {argument(name)}` says why; make a new one when that is fixed"
    if phase in phases.FAILURES:
        return [problem(CHECK, said, remedy, code=Code.BACKUPS_FAILED)]
    return [warning(CHECK, said, remedy, code=Code.BACKUPS_PARTIALLY_FAILED)]


def _judge_soundness(ended: Sequence[JSONObject], now: datetime) -> list[Finding]:
    """A problem if a verification found backups unsound, with what it found in the newest of them."""
    unsound = [backup for backup in reversed(ended) if _verified(backup)[1] == Soundness.UNSOUND]
    if not unsound:
        return []
    names = [str(backup["metadata"]["name"]) for backup in unsound]
    when = past(_verified(unsound[0])[0], now)
    found = text(unsound[0], "metadata", "annotations", labels.VERIFICATION_FINDINGS)
    many = f"the verification of {counted(len(names), 'backup')} found damage: {listed(names)}; "
    said = f"{many if len(names) > 1 else ''}backup {names[0]} is unsound, verified {when}"
    return [
        problem(
            CHECK,
            f"{said}: {found}" if found else said,
            f"`backup verify {argument(names[0])}` checks it again; make a new backup, then delete it",
            code=Code.BACKUPS_UNSOUND,
        )
    ]


def _verified(backup: JSONObject) -> tuple[str, str]:
    """When the backup was last verified, and the result; empty if it never was. (docs/adr/067)"""
    when, _, result = text(backup, "metadata", "annotations", labels.VERIFIED).partition(" ")
    return when, result
