"""Restores made by the command itself, without a server: the same engine, a location by URL."""

from collections.abc import Sequence
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
from pinnace.archive.runlog import RunLog
from pinnace.cli.backend.location import LocationBackend
from pinnace.cli.build import newest
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import ExitCode, InvalidInput
from pinnace.cli.names import check_metadata
from pinnace.cli.output.progress import ProgressView
from pinnace.cli.settings import Settings
from pinnace.cli.standalone import EXIT_CODES, discover, say, say_outcome
from pinnace.cli.standalone_plugins import open_plugins
from pinnace.cli.standalone_snapshots import csi_actions_for_restore, snapshotters
from pinnace.hooks.restore_running import PodExecHooks
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.operation import Operation
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.plugins.registry import ActionRegistry
from pinnace.restore.engine import Helpers, RestoreOptions
from pinnace.restore.errors import BackupLookupError
from pinnace.restore.runner import ActionSource, execute_restore
from pinnace.restore.selection.validation import validate_and_complete
from pinnace.server.workdir import work_directory
from pinnace.storage.backup_files import encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound, StorageError, UnreadableObject
from pinnace.volumes.snapshots_restore import SnapshotVolumes


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
        async with open_plugins(client, settings, builtin=ids) as plugins:
            csi = csi_actions_for_restore(client, settings, discovery, plugins)
            actions = partial(_actions, plugins, [*builtin, *csi])
            helpers = Helpers(
                volume_restorer=SnapshotVolumes(snapshotters(client, settings, plugins)),
                exec_hooks=PodExecHooks.of(client),
            )
            finished = await _run_restore(
                restore, completed.backup, place, client, discovery, actions, helpers, settings
            )
        recorded = await _record(finished, place)
    progress = finished.status.progress
    say_outcome("Restore", finished, progress.items_restored if progress else 0, "describe")
    code = EXIT_CODES[finished.status.phase]
    return code if recorded else max(code, ExitCode.PARTIALLY_FAILED)


async def _actions(
    plugins: Operation, builtin: Sequence[RestoreItemAction], log: RunLog
) -> Sequence[RestoreItemAction]:
    plugins.log_to(log)
    return ActionRegistry(
        builtin_restore_actions=builtin, restore_actions=plugins.restore_actions
    ).restore_actions


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


async def _run_restore(
    restore: Restore,
    backup: Backup,
    place: LocationBackend,
    client: KubeClient,
    discovery: Discovery,
    actions: ActionSource,
    helpers: Helpers,
    settings: Settings,
) -> Restore:
    say(f"Restoring backup {backup.metadata.name} from {place.title} as {restore.metadata.name}.")
    view = _RestoreView()

    async def pod_volume_backups() -> Sequence[PodVolumeBackup]:
        stored = await place.store.read_pod_volume_backups(backup.metadata.name)
        try:
            found = [decode(PodVolumeBackup, obj) for obj in stored]
        except DecodeError as error:
            raise StorageError(str(error)) from error
        return with_uploaders(found, stored, await place.store.read_volume_infos(backup.metadata.name))

    async def reopen_store() -> BackupStore:
        return place.store

    async with work_directory(None) as workdir:
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
                workdir=workdir,
                progress=view,
                options=RestoreOptions(features=settings.features),
                helpers=helpers,
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
