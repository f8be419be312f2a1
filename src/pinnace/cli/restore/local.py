"""`restore create` without a server: the same engine, a location by URL."""

from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec

from pinnace.api import labels, phases
from pinnace.api.codec import encode
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.api.velero.restore import Restore
from pinnace.cli.common.cluster import say_cluster, say_source
from pinnace.cli.common.outcome import EXIT_CODES, say_findings
from pinnace.cli.connect import caller
from pinnace.cli.errors import ExitCode, InvalidInput
from pinnace.cli.kinds import RESTORE
from pinnace.cli.local import open_run, say_outcome
from pinnace.cli.progress.view import ProgressView
from pinnace.cli.restore.build import newest
from pinnace.cli.restore.mapped import check_mapping
from pinnace.cli.settings import Settings
from pinnace.client.errors import ClientError, NoSuchObject
from pinnace.client.location import LocationBackend
from pinnace.operations import local_restore
from pinnace.operations.local import LocalRun
from pinnace.storage.errors import StorageError


async def make_restore(
    settings: Settings,
    restore: Restore,
    *,
    allow_partially_failed: bool,
    progress: str = "auto",
    other_names: Iterable[str] = (),
    ended: Callable[[Restore], None] | None = None,
) -> int:
    """Make a restore and print how it ended. Returns the exit code.

    Args:
        other_names: the names to try if the restore's own is taken, where nobody chose it.
        ended: called with the restore that was made, when it has ended.
    """
    async with open_run(settings, "restore", progress=progress) as (run, view):
        say_cluster(run.client, "Restoring into")
        location = LocationBackend(run.store, run.location, caller())
        if restore.spec.schedule_name:
            backups = await _of_schedule(restore, location)
            if allow_partially_failed:
                restore = _choose_backup(restore, backups)
            source = newest(backups, (BackupPhase.COMPLETED,))
        else:
            source = None
        if restore.spec.backup_name:
            try:
                source = await location.object("backups", restore.spec.backup_name)
            except NoSuchObject as error:
                raise InvalidInput(str(error)) from error
            except (ClientError, StorageError):
                source = None  # the restore says what is wrong
        if source is not None:
            await say_source(run.client, source)
            await check_mapping(location, source["metadata"]["name"], restore.spec.namespace_mapping)
        finished, recorded = await local_restore.make_restore(run, restore, other_names=other_names)
        if ended is not None:
            ended(finished)
        await _say_end(settings, run, view, finished)
    return _exit_code(finished, recorded=recorded)


async def resume_restore(
    settings: Settings,
    name: str,
    *,
    ended: Callable[[Restore], None],
    progress: str = "auto",
) -> int:
    """Continue a restore that was interrupted, and print how it ended. Returns the exit code.

    Args:
        ended: called with the restore when it has ended.
    """
    async with open_run(settings, "restore", progress=progress) as (run, view):
        say_cluster(run.client, "Restoring into")
        finished, recorded = await local_restore.resume_restore(run, name)
        ended(finished)
        await _say_end(settings, run, view, finished)
    return _exit_code(finished, recorded=recorded)


async def _say_end(settings: Settings, run: LocalRun, view: ProgressView, finished: Restore) -> None:
    counts = finished.status.progress
    items = counts.items_restored if counts else 0
    view.finish(items)
    say_outcome("Restore", finished, items)
    await say_findings(
        LocationBackend(run.store, run.location, caller()), settings, RESTORE, encode(finished)
    )


def _exit_code(finished: Restore, *, recorded: bool) -> int:
    code = EXIT_CODES[finished.status.phase]
    return code if recorded else max(code, ExitCode.PARTIALLY_FAILED)


async def _of_schedule(restore: Restore, location: LocationBackend) -> list[JSONObject]:
    """The backups of the schedule. Raises InvalidInput if there are none, with near names."""
    name, by_schedule = restore.spec.schedule_name, defaultdict[str, list[JSONObject]](list)
    for backup in await location.objects("backups"):
        label = (backup["metadata"].get("labels") or {}).get(labels.SCHEDULE_NAME)
        by_schedule[str(label or "")].append(backup)
    if labels.label_value(name) not in by_schedule:
        near = did_you_mean(near_names(name, sorted(by_schedule)))
        raise InvalidInput(f"No backups found for the schedule {name} in {location.title}{near}")
    return by_schedule[labels.label_value(name)]


def _choose_backup(restore: Restore, backups: list[JSONObject]) -> Restore:
    """Name the newest backup of the schedule, Completed or PartiallyFailed, as source. (CLI 5.1)"""
    chosen = newest(backups, phases.FINISHED)
    if chosen is None:
        return restore
    spec = msgspec.structs.replace(restore.spec, backup_name=chosen["metadata"]["name"], schedule_name="")
    return msgspec.structs.replace(restore, spec=spec)
