"""Backups and restores made by the command itself, without a server: the same engines, a location by URL."""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from pinnace.api import labels
from pinnace.api.backup import Backup, BackupPhase, BackupProgress
from pinnace.api.codec import DecodeError, decode
from pinnace.api.pod_volume import PodVolumeBackup
from pinnace.api.restore import Restore, RestorePhase
from pinnace.api.times import utcnow
from pinnace.archive.runlog import RunLog
from pinnace.backup.gc_thresholds import raised_gc_thresholds
from pinnace.backup.request import ServerDefaults, prepare_backup
from pinnace.backup.runner import execute_backup
from pinnace.cli.build import newest
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import ExitCode, InvalidInput
from pinnace.cli.location_backend import LocationBackend
from pinnace.cli.names import check_metadata
from pinnace.cli.progress import ProgressView
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.plugins.builtin.backup import backup_actions
from pinnace.plugins.builtin.restore import restore_actions
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.plugins.registry import ActionRegistry
from pinnace.restore.engine import RestoreOptions
from pinnace.restore.errors import BackupLookupError
from pinnace.restore.runner import execute_restore
from pinnace.restore.validation import validate_and_complete
from pinnace.storage.backup_files import encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import (
    BackupExists,
    InvalidLocation,
    ObjectNotFound,
    StorageError,
    UnreadableObject,
)

_EXIT_CODES: Final[Mapping[str, ExitCode]] = {
    "Completed": ExitCode.OK,
    "PartiallyFailed": ExitCode.PARTIALLY_FAILED,
    "Failed": ExitCode.FAILED,
}


async def make_backup(settings: Settings, backup: Backup) -> int:
    """Make a backup and say how it went. Returns the exit code."""
    check_metadata(backup.metadata)
    assert settings.location is not None
    async with (
        LocationBackend.open(settings.location, namespace=settings.namespace) as place,
        open_cluster(settings) as client,
    ):
        await _check_location(place)
        discovery = await _discover(client, settings)
        prepared = _prepare(backup, place, discovery)
        if await place.store.exists(prepared.metadata.name):
            raise InvalidInput(f"{BackupExists(prepared.metadata.name)}; choose another name or delete it")
        finished = await _run_backup(prepared, place, client, discovery)
    progress = finished.status.progress
    _say_outcome("Backup", finished, progress.items_backed_up if progress else 0, "logs")
    return _EXIT_CODES[finished.status.phase]


async def _check_location(place: LocationBackend) -> None:
    """Refuse to write among foreign files. Raises InvalidInput."""
    try:
        await place.store.validate()
    except InvalidLocation as exc:
        raise InvalidInput(f"{place.title}: {exc}; name an empty folder or prefix") from exc


async def _discover(client: KubeClient, settings: Settings) -> Discovery:
    discovery = await Discovery.load(client, all_versions="EnableAPIGroupVersions" in settings.features)
    for warning in discovery.warnings:
        _say(f"WARNING: {warning}", err=True)
    return discovery


def _prepare(backup: Backup, place: LocationBackend, discovery: Discovery) -> Backup:
    """Fill in and validate, as a server would. Raises InvalidInput with all problems."""
    now = utcnow()
    backup = msgspec.structs.replace(
        backup, metadata=msgspec.structs.replace(backup.metadata, creation_timestamp=now)
    )
    assert discovery.server_version is not None
    prepared = prepare_backup(
        backup,
        defaults=ServerDefaults(),
        storage_locations=[place.location],
        snapshot_locations=[],
        server_version=discovery.server_version,
        now=now,
    )
    if prepared.status.validation_errors:
        raise InvalidInput("the backup is not valid:\n  " + "\n  ".join(prepared.status.validation_errors))
    return prepared


async def _run_backup(
    backup: Backup, place: LocationBackend, client: KubeClient, discovery: Discovery
) -> Backup:
    _say(f"Backing up to {place.title} as {backup.metadata.name}.")
    view = ProgressView("backup")
    registry = ActionRegistry(builtin_backup_actions=backup_actions(client, discovery))

    async def show(progress: BackupProgress) -> None:
        view.update(progress.items_backed_up, progress.total_items)

    with tempfile.TemporaryDirectory(prefix="pinnace-") as workdir:
        try:
            return await execute_backup(
                backup,
                place.store,
                client=client,
                discovery=discovery,
                actions=registry.backup_actions,
                workdir=Path(workdir),
                progress=show,
            )
        finally:
            view.close()


async def make_restore(settings: Settings, restore: Restore, *, allow_partially_failed: bool) -> int:
    """Make a restore and say how it went. Returns the exit code."""
    check_metadata(restore.metadata)
    with raised_gc_thresholds():
        return await _make_restore(settings, restore, allow_partially_failed)


async def _make_restore(settings: Settings, restore: Restore, allow_partially_failed: bool) -> int:
    assert settings.location is not None
    async with (
        LocationBackend.open(settings.location, namespace=settings.namespace) as place,
        open_cluster(settings) as client,
    ):
        name = restore.metadata.name
        if name in await place.store.list_restores():
            raise InvalidInput(f"a restore named {name} is in the location already; choose another name")
        if allow_partially_failed and restore.spec.schedule_name:
            restore = await _choose_backup(restore, place)
        completed = await validate_and_complete(restore, StoredBackups(place.store))
        if completed.errors or completed.backup is None:
            raise InvalidInput("the restore is not valid:\n  " + "\n  ".join(completed.errors))
        discovery = await _discover(client, settings)
        restore = _begun(completed.restore)
        finished = await _run_restore(restore, completed.backup, place, client, discovery, settings)
        recorded = await _record(finished, place)
    progress = finished.status.progress
    _say_outcome("Restore", finished, progress.items_restored if progress else 0, "describe")
    code = _EXIT_CODES[finished.status.phase]
    return code if recorded else max(code, ExitCode.PARTIALLY_FAILED)


def _begun(restore: Restore) -> Restore:
    now = utcnow()
    return msgspec.structs.replace(
        restore,
        metadata=msgspec.structs.replace(restore.metadata, creation_timestamp=now),
        status=msgspec.structs.replace(restore.status, phase=RestorePhase.IN_PROGRESS, start_timestamp=now),
    )


async def _choose_backup(restore: Restore, place: LocationBackend) -> Restore:
    """With --allow-partially-failed the newest of both phases is taken here. (docs/spec: CLI 5.1)"""
    of_schedule = [
        backup
        for backup in await place.backups()
        if (backup["metadata"].get("labels") or {}).get(labels.SCHEDULE_NAME) == restore.spec.schedule_name
    ]
    chosen = newest(of_schedule, (BackupPhase.COMPLETED, BackupPhase.PARTIALLY_FAILED))
    if chosen is None:
        return restore
    spec = msgspec.structs.replace(restore.spec, backup_name=chosen["metadata"]["name"], schedule_name="")
    return msgspec.structs.replace(restore, spec=spec)


async def _record(restore: Restore, place: LocationBackend) -> bool:
    """Keep the Restore object in the location; that it cannot be kept does not undo the restore."""
    try:
        await place.store.put_restore_metadata(restore.metadata.name, encode_metadata(restore))
    except StorageError as exc:
        _say(f"WARNING: the restore could not be recorded in {place.title}: {exc}", err=True)
        return False
    return True


class StoredBackups:
    """Finds the backups of a restore in the location itself."""

    def __init__(self, store: BackupStore) -> None:
        self._store = store

    async def backups_of_schedule(self, schedule: str) -> Sequence[Backup]:
        """All readable backups labelled with the schedule's name. Raises BackupLookupError."""
        try:
            names = await self._store.list_backups()
        except StorageError as exc:
            raise BackupLookupError(str(exc)) from exc
        found = []
        for name in names:
            try:
                backup = await self._store.read_backup(name)
            except (ObjectNotFound, UnreadableObject):
                continue  # what cannot be read cannot be restored from
            except StorageError as exc:
                raise BackupLookupError(str(exc)) from exc
            if backup.metadata.labels.get(labels.SCHEDULE_NAME) == schedule:
                backup.metadata.name = name
                found.append(backup)
        return found

    async def backup(self, name: str) -> Backup:
        """The backup. Raises BackupLookupError."""
        try:
            backup = await self._store.read_backup(name)
        except ObjectNotFound as exc:
            raise BackupLookupError(f'backup.velero.io "{name}" not found') from exc
        except StorageError as exc:
            raise BackupLookupError(str(exc)) from exc
        backup.metadata.name = name  # of the directory, whatever the file claims
        return backup


async def _run_restore(
    restore: Restore,
    backup: Backup,
    place: LocationBackend,
    client: KubeClient,
    discovery: Discovery,
    settings: Settings,
) -> Restore:
    _say(f"Restoring backup {backup.metadata.name} from {place.title} as {restore.metadata.name}.")
    view = _RestoreView()
    registry = ActionRegistry(builtin_restore_actions=restore_actions(client, discovery, settings.namespace))

    async def actions(_log: RunLog) -> Sequence[RestoreItemAction]:
        return registry.restore_actions

    async def pod_volume_backups() -> Sequence[PodVolumeBackup]:
        stored = await place.store.read_pod_volume_backups(backup.metadata.name)
        try:
            return [decode(PodVolumeBackup, obj) for obj in stored]
        except DecodeError as exc:
            raise StorageError(str(exc)) from exc

    async def reopen_store() -> BackupStore:
        return place.store

    with tempfile.TemporaryDirectory(prefix="pinnace-") as workdir:
        try:
            return await execute_restore(
                restore,
                backup,
                place.store,
                client=client,
                discovery=discovery,
                actions=actions,
                pod_volume_backups=pod_volume_backups,
                reopen_store=reopen_store,
                workdir=Path(workdir),
                progress=view,
                options=RestoreOptions(features=settings.features),
            )
        finally:
            view.close()


class _RestoreView:
    """Shows the numbers of a restore."""

    def __init__(self) -> None:
        self._view = ProgressView("restore")

    async def publish(self, total_items: int, items_restored: int) -> None:
        self._view.update(items_restored, total_items)

    def close(self) -> None:
        self._view.close()


def _say_outcome(what: str, run: Backup | Restore, items: int, command: str) -> None:
    name, status = run.metadata.name, run.status
    _say(
        f"{what} {name} {status.phase}: {items} items{_duration(run)}, "
        f"{status.errors} errors, {status.warnings} warnings."
    )
    if status.failure_reason:
        _say(f"Reason: {status.failure_reason}", err=True)
    if status.errors or status.warnings:
        _say(f"Run `pinnace {what.lower()} {command} {name}` with the same --location for the details.")


def _duration(run: Backup | Restore) -> str:
    start, end = run.status.start_timestamp, run.status.completion_timestamp
    return f" in {(end - start).total_seconds():.1f}s" if start is not None and end is not None else ""


def _say(text: str, *, err: bool = False) -> None:
    """Print a line. Nobody being there to read it changes nothing of the work or of its exit code."""
    try:
        click.echo(text, err=err)
    except BrokenPipeError:
        # What could not be written would be written again at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if err else sys.stdout).fileno())
