"""Restores that are resumed after their process ended: what their objects say of it. Pure. (docs/adr/131)"""

from typing import Final

import msgspec

from pinnace.api.labels import INTERRUPTED, RESUME_REQUESTED, RESUMED
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import RestorePhase
from pinnace.api.values.digits import is_digits
from pinnace.api.velero.restore import Restore

MOST_RESUMES: Final = 3
"""How often a server resumes a restore without being asked: one that kills each server must end."""


def times_resumed(obj: JSONObject) -> int:
    """How often a Restore was resumed so far."""
    given = text(obj, "metadata", "annotations", RESUMED)
    return int(given) if is_digits(given) and len(given) < 10 else 0


def is_requested(obj: JSONObject) -> bool:
    """Whether somebody asks for a Restore to be resumed."""
    return bool(text(obj, "metadata", "annotations", RESUME_REQUESTED))


def why_not_resumable(restore: JSONObject) -> str:
    """Why a Restore that has ended cannot be resumed; empty if it can be."""
    phase = text(restore, "status", "phase")
    if phase != RestorePhase.FAILED:
        return f"it was not interrupted; its phase is {phase or 'New'}"
    if text(restore, "metadata", "annotations", INTERRUPTED):
        return ""
    why = text(restore, "status", "failureReason")
    return f"it failed, and was not interrupted: {why}. Make a new restore of the backup"


def with_one_source(restore: Restore) -> Restore:
    """A Restore whose spec was completed, as it can be validated again: by the name of its backup alone."""
    if not restore.spec.backup_name:
        return restore
    return msgspec.structs.replace(restore, spec=msgspec.structs.replace(restore.spec, schedule_name=""))


def resumed(restore: Restore, before: Restore, times: int) -> Restore:
    """The Restore as it is when it goes on.

    Args:
        restore: as it is planned now.
        before: as it was when it was interrupted.
        times: how often it was resumed before.
    """
    annotations = {
        name: value
        for name, value in restore.metadata.annotations.items()
        if name not in (INTERRUPTED, RESUME_REQUESTED)
    }
    annotations[RESUMED] = str(times + 1)
    started = before.status.start_timestamp or restore.status.start_timestamp
    return msgspec.structs.replace(
        restore,
        metadata=msgspec.structs.replace(restore.metadata, annotations=annotations),
        spec=msgspec.structs.replace(restore.spec, schedule_name=before.spec.schedule_name),
        status=msgspec.structs.replace(restore.status, start_timestamp=started),
    )
