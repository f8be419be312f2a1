"""`restore create` without a server: the same engine, a location by URL."""

import msgspec

from pinnace.api import labels
from pinnace.api.codec import encode
from pinnace.api.velero.backup import BackupPhase
from pinnace.api.velero.restore import Restore
from pinnace.cli.backend.location import LocationBackend
from pinnace.cli.common.outcome import say_findings
from pinnace.cli.errors import ExitCode
from pinnace.cli.kinds import RESTORE
from pinnace.cli.local import EXIT_CODES, check_metadata, open_run, say_outcome
from pinnace.cli.restore.build import newest
from pinnace.cli.settings import Settings
from pinnace.operations import local_restore


async def make_restore(
    settings: Settings, restore: Restore, *, allow_partially_failed: bool, progress: str = "auto"
) -> int:
    """Make a restore and print how it ended. Returns the exit code."""
    check_metadata(restore.metadata)
    async with open_run(settings, "restore", progress=progress) as (run, view):
        if allow_partially_failed and restore.spec.schedule_name:
            restore = await _choose_backup(restore, LocationBackend(run.store, run.location))
        finished, recorded = await local_restore.make_restore(run, restore)
        counts = finished.status.progress
        items = counts.items_restored if counts else 0
        view.finish(items)
        say_outcome("Restore", finished, items)
        await say_findings(LocationBackend(run.store, run.location), settings, RESTORE, encode(finished))
    code = EXIT_CODES[finished.status.phase]
    return code if recorded else max(code, ExitCode.PARTIALLY_FAILED)


async def _choose_backup(restore: Restore, location: LocationBackend) -> Restore:
    """Name the newest backup of the schedule, Completed or PartiallyFailed, as source. (CLI 5.1)"""
    of_schedule = [
        backup
        for backup in await location.objects("backups")
        if (backup["metadata"].get("labels") or {}).get(labels.SCHEDULE_NAME) == restore.spec.schedule_name
    ]
    chosen = newest(of_schedule, (BackupPhase.COMPLETED, BackupPhase.PARTIALLY_FAILED))
    if chosen is None:
        return restore
    spec = msgspec.structs.replace(restore.spec, backup_name=chosen["metadata"]["name"], schedule_name="")
    return msgspec.structs.replace(restore, spec=spec)
