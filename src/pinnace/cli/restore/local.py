"""Restores made by the command itself, without a server: the same engine, a location by URL."""

from collections.abc import Sequence
from contextlib import closing
from functools import partial

import msgspec

from pinnace.aio.gc_thresholds import raised_gc_thresholds
from pinnace.api import labels
from pinnace.api.backup import Backup, BackupPhase
from pinnace.api.codec import DecodeError, decode
from pinnace.api.pod_volume import PodVolumeBackup
from pinnace.api.pod_volume_catalogue import with_uploaders
from pinnace.api.restore import Restore, RestorePhase
from pinnace.api.values.times import utcnow
from pinnace.cli.backend.location import LocationBackend
from pinnace.cli.build import newest
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import ExitCode, InvalidInput
from pinnace.cli.local import EXIT_CODES, discover, open_plugins, say, say_outcome
from pinnace.cli.names import check_metadata
from pinnace.cli.output.progress import ProgressView
from pinnace.cli.settings import Settings
from pinnace.context import RunContext
from pinnace.operations.restore import RestoreOperation
from pinnace.operations.workdir import work_directory
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.registry import ActionRegistry
from pinnace.restore.engine import RestoreOptions
from pinnace.restore.errors import BackupLookupError
from pinnace.restore.selection.validation import validate_and_complete
from pinnace.storage.backup_files import encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound, StorageError, UnreadableObject


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
        discovery = await discover(client, settings)
        restore = _begun(completed.restore)
        builtin = restore_actions(client, discovery, settings.namespace)
        ids = ActionRegistry(builtin_restore_actions=builtin).ids
        say(f"Restoring backup {completed.backup.metadata.name} from {place.title} as {name}.")
        async with (
            open_plugins(client, settings, builtin=ids) as plugins,
            work_directory(None) as workdir,
        ):
            view = ProgressView("restore")
            context = RunContext(
                client=client,
                discovery=discovery,
                store=place.store,
                plugins=plugins,
                workdir=workdir,
                namespace=settings.namespace,
                features=settings.features,
                progress=view.publish,
            )
            operation = RestoreOperation(
                context=context,
                pod_volume_backups=partial(_pod_volume_backups, place, completed.backup),
                options=RestoreOptions(features=settings.features),
            )
            with closing(view):
                finished = await operation.run(restore, completed.backup)
        recorded = await _record(finished, place)
    progress = finished.status.progress
    say_outcome("Restore", finished, progress.items_restored if progress else 0, "describe")
    code = EXIT_CODES[finished.status.phase]
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
        for backup in await place.objects("backups")
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
    except StorageError as error:
        say(f"WARNING: the restore could not be recorded in {place.title}: {error}", err=True)
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
        except StorageError as error:
            raise BackupLookupError(str(error)) from error
        found = []
        for name in names:
            try:
                backup = await self._store.read_backup(name)
            except (ObjectNotFound, UnreadableObject):
                continue  # what cannot be read cannot be restored from
            except StorageError as error:
                raise BackupLookupError(str(error)) from error
            if backup.metadata.labels.get(labels.SCHEDULE_NAME) == schedule:
                backup.metadata.name = name
                found.append(backup)
        return found

    async def backup(self, name: str) -> Backup:
        """The backup. Raises BackupLookupError."""
        try:
            backup = await self._store.read_backup(name)
        except ObjectNotFound as error:
            raise BackupLookupError(f'backup.velero.io "{name}" not found') from error
        except StorageError as error:
            raise BackupLookupError(str(error)) from error
        backup.metadata.name = name  # of the directory, whatever the file claims
        return backup


async def _pod_volume_backups(place: LocationBackend, backup: Backup) -> Sequence[PodVolumeBackup]:
    """Those that the location holds, each with its uploader. Raises StorageError."""
    stored = await place.store.read_pod_volume_backups(backup.metadata.name)
    try:
        found = [decode(PodVolumeBackup, obj) for obj in stored]
    except DecodeError as error:
        raise StorageError(str(error)) from error
    return with_uploaders(found, stored, await place.store.read_volume_infos(backup.metadata.name))
