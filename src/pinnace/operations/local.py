"""Backups and restores without a server: a cluster and a location in, a finished Backup or Restore out.

The command line (`pinnace --location`) and the Python API call this. Nothing is printed here: what happens is
told to `LocalRun.observer`.
"""

import os
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from pinnace.aio.gc_thresholds import raised_gc_thresholds
from pinnace.aio.timing import Timer
from pinnace.api import labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.pod_volume_catalogue import with_uploaders
from pinnace.api.resource_policies import PolicyError
from pinnace.api.selection.validation import metadata_errors
from pinnace.api.values.times import utcnow
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.pod_volume import PodVolumeBackup
from pinnace.api.velero.restore import Restore, RestorePhase
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocation
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.backup.filters import included_kinds
from pinnace.backup.request import ServerDefaults, Unreadable, prepare_backup
from pinnace.context import Activity, ProgressSink, RunContext
from pinnace.csi.snapshots import CSIError
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import VOLUME_SNAPSHOT_LOCATIONS
from pinnace.kube.unserved import unserved_names
from pinnace.operations.backup import BackupOperation
from pinnace.operations.modifiers import modifiers_of
from pinnace.operations.policies import policies_of
from pinnace.operations.restore import RestoreOperation
from pinnace.operations.waiting import wait_for_restore
from pinnace.operations.workdir import work_directory
from pinnace.plugins.builtin.backup.actions import backup_actions
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.errors import PluginError
from pinnace.plugins.installed import PluginOptions, find_plugins
from pinnace.plugins.kinds import PluginId
from pinnace.plugins.operation import Operation
from pinnace.plugins.registry import ActionRegistry
from pinnace.restore.errors import BackupLookupError
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import ModifierError
from pinnace.restore.request import RestoreOptions
from pinnace.restore.selection.validation import validate_and_complete
from pinnace.storage.backup_files import encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import (
    BackupExists,
    InvalidLocation,
    ObjectNotFound,
    StorageError,
    UnreadableObject,
)
from pinnace.storage.location_url import location_title

PLUGIN_DIRECTORY_VARIABLE: Final = "PINNACE_PLUGIN_DIR"
"""The directory of plugin programs; without it no plugin programs are run."""


class InvalidRun(Exception):
    """The run cannot begin as it was asked for; nothing was done. The text says all that is wrong."""


class NameTaken(InvalidRun):
    """The location already has a backup or a restore of that name."""


class Observer:
    """Is told what happens in a run; this one ignores it."""

    def warn(self, text: str) -> None:
        """Something about the cluster or the location could not be found out or written."""

    def started(self, what: Backup | Restore) -> None:
        """The request is valid and the work begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRun:
    """What a run without a server is given.

    Attributes:
        client: the cluster.
        location, store: the location and its backups, opened; the owner closes the store.
        namespace: where the cluster is asked for settings; written into the Backup or Restore.
        kubeconfig: the file that plugin programs are to use; empty for their own default.
        features: enabled feature flags.
        progress: told at most once a second how far the run is.
        activity: what the run is doing now, for display.
        observer: told what happens.
        timer: what is waited by for operations of plugins; the event loop's if None.
    """

    client: KubeClient
    location: BackupStorageLocation
    store: BackupStore
    namespace: str = "velero"
    kubeconfig: str = ""
    features: Collection[str] = ()
    progress: ProgressSink | None = None
    activity: Activity = field(default_factory=Activity)
    observer: Observer = field(default_factory=Observer)
    timer: Timer | None = None

    async def discover(self) -> Discovery:
        """What the cluster serves; what could not be found out is a warning. Raises KubeError."""
        discovery = await Discovery.load(self.client, all_versions="EnableAPIGroupVersions" in self.features)
        for warning in discovery.warnings:
            self.observer.warn(warning)
        return discovery

    @asynccontextmanager
    async def open(self, discovery: Discovery, *, builtin: Iterable[PluginId]) -> AsyncIterator[RunContext]:
        """The run context, with the plugins of this run and a work directory.

        Args:
            builtin: the names that no plugin may have.

        Raises:
            InvalidRun: a plugin cannot be loaded; nothing was done.
        """
        async with self._plugins(builtin) as plugins, work_directory(None) as workdir:
            yield RunContext(
                client=self.client,
                discovery=discovery,
                store=self.store,
                plugins=plugins,
                workdir=workdir,
                namespace=self.namespace,
                features=self.features,
                progress=self.progress,
                activity=self.activity,
            )

    @asynccontextmanager
    async def _plugins(self, builtin: Iterable[PluginId]) -> AsyncIterator[Operation]:
        """Python packages and modules, and the programs of the plugin directory. (docs/spec: PLG 10)"""
        options = plugin_options(self.namespace, self.kubeconfig, self.features)
        try:
            found = await find_plugins(options, builtin=builtin)
        except PluginError as error:
            raise InvalidRun(str(error)) from error
        async with found.operation(client=self.client, namespace=self.namespace) as operation:
            yield operation


def plugin_options(namespace: str, kubeconfig: str, features: Collection[str]) -> PluginOptions:
    """Return which plugins a run without a server has; see `LocalRun` for the arguments."""
    environ = dict(os.environ)
    environ["VELERO_NAMESPACE"] = namespace
    if kubeconfig:
        environ["KUBECONFIG"] = kubeconfig
    directory = environ.get(PLUGIN_DIRECTORY_VARIABLE)
    return PluginOptions(
        directory=Path(directory) if directory else None, features=frozenset(features), environ=environ
    )


async def make_backup(run: LocalRun, backup: Backup) -> Backup:
    """Make a backup and store it; the Backup with its terminal phase.

    Raises:
        InvalidRun: it cannot be made as asked; NameTaken if there is one of that name. Nothing was done.
        KubeError, StorageError: the cluster or the location could not be used; nothing was done.
    """
    _check_metadata(backup)
    await _check_location(run)
    discovery = await run.discover()
    prepared = await _prepare(run, backup, discovery)
    try:
        policies = await policies_of(run.client, run.namespace, prepared.spec)
    except PolicyError as error:
        raise InvalidRun(f"the backup is not valid:\n  {error}") from error
    if prepared.spec.snapshot_move_data:
        raise InvalidRun(
            "the backup is not valid:\n  spec.snapshotMoveData: the data of CSI snapshots is moved by a"
            " server and its node agents, and this backup is made without them; make it with the server, or"
            " leave the setting out to keep the snapshots in the storage system"
        )
    if await run.store.exists(prepared.metadata.name):
        raise NameTaken(f"{BackupExists(prepared.metadata.name)}; choose another name or delete it")
    ids = ActionRegistry(builtin_backup_actions=backup_actions(run.client, discovery)).ids
    run.observer.started(prepared)
    async with run.open(discovery, builtin=ids) as context:
        try:
            operation = BackupOperation(context, policies=policies)
            return await operation.wait(await operation.run(prepared), timer=run.timer)
        except CSIError as error:
            raise InvalidRun(str(error)) from error


async def make_restore(
    run: LocalRun, restore: Restore, *, modifiers: ResourceModifiers | None = None
) -> tuple[Restore, bool]:
    """Restore from a backup; the finished Restore, and whether it was recorded in the location.

    Args:
        modifiers: instead of those that the Restore names.

    Raises:
        InvalidRun: it cannot be made as asked; NameTaken if there is one of that name. Nothing was done.
        KubeError, StorageError: the cluster or the location could not be used; nothing was done.
    """
    _check_metadata(restore)
    name = restore.metadata.name
    if name in await run.store.list_restores():
        raise NameTaken(await _why_taken(run.store, name))
    with raised_gc_thresholds():
        completed = await validate_and_complete(restore, StoredBackups(run.store))
        backup = completed.backup
        if completed.errors or backup is None:
            raise InvalidRun("the restore is not valid:\n  " + "\n  ".join(completed.errors))
        try:
            if modifiers is None:
                modifiers = await modifiers_of(run.client, run.namespace, completed.restore.spec)
        except ModifierError as error:
            raise InvalidRun(f"the restore is not valid:\n  {error}") from error
        discovery = await run.discover()
        begun = _begun(completed.restore)
        builtin = restore_actions(run.client, discovery, run.namespace)
        ids = ActionRegistry(builtin_restore_actions=builtin).ids
        run.observer.started(begun)
        async with run.open(discovery, builtin=ids) as context:
            operation = RestoreOperation(
                context=context,
                pod_volume_backups=partial(_pod_volume_backups, run.store, backup),
                options=RestoreOptions(features=run.features),
                modifiers=modifiers,
            )
            finished = await operation.run(begun, backup)
            finished = await wait_for_restore(context, finished, timer=run.timer)
        return finished, await _record(run, finished)


async def _why_taken(store: BackupStore, name: str) -> str:
    """Why a restore may not have a name that is in the location already. Raises StorageError."""
    try:
        await store.read_restore(name)
    except ObjectNotFound:
        return (
            f"the location has files of a restore named {name} without its record: it was killed, is still"
            f" running elsewhere, or a server made it; choose another name, or delete these files with"
            f" `restore delete {name}`"
        )
    except UnreadableObject as error:
        return f"a restore named {name} is in the location already, and its record is damaged: {error}"
    return f"a restore named {name} is in the location already; choose another name or delete it"


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


def _check_metadata(request: Backup | Restore) -> None:
    if problems := metadata_errors(request.metadata):
        raise InvalidRun("; ".join(problems))


async def _check_location(run: LocalRun) -> None:
    """Refuse to write among foreign files."""
    try:
        await run.store.validate()
    except InvalidLocation as error:
        title = location_title(run.location)
        raise InvalidRun(f"{title}: {error}; name an empty folder or prefix") from error


async def _prepare(run: LocalRun, backup: Backup, discovery: Discovery) -> Backup:
    """Fill in and validate, as a server would. Raises InvalidRun with all problems."""
    now = utcnow()
    backup = msgspec.structs.replace(
        backup, metadata=msgspec.structs.replace(backup.metadata, creation_timestamp=now)
    )
    assert discovery.server_version is not None
    prepared = prepare_backup(
        backup,
        defaults=ServerDefaults(),
        storage_locations=[run.location],
        snapshot_locations=await _snapshot_locations(run, backup),
        server_version=discovery.server_version,
        now=now,
    )
    problems = list(prepared.status.validation_errors)
    # Asked first what was misspelt, the user loses nothing; a server cannot ask. (docs/adr/023)
    unserved = unserved_names(included_kinds(backup.spec), discovery)
    problems += [name.text for name in unserved if not name.is_pattern]
    if problems:
        raise InvalidRun("the backup is not valid:\n  " + "\n  ".join(problems))
    return prepared


async def _snapshot_locations(run: LocalRun, backup: Backup) -> Sequence[VolumeSnapshotLocation] | Unreadable:
    """The snapshot locations of the cluster, if the backup asks for native snapshots. (docs/spec: BKP 10)

    Otherwise none: their plugins need not be on this machine.
    """
    if not backup.spec.volume_snapshot_locations and backup.spec.snapshot_volumes is not True:
        return []
    try:
        listed = await run.client.list_all(VOLUME_SNAPSHOT_LOCATIONS, run.namespace)
        return [decode(VolumeSnapshotLocation, obj) for obj in listed]
    except (KubeError, DecodeError) as error:
        return Unreadable(str(error))


def _begun(restore: Restore) -> Restore:
    now = utcnow()
    return msgspec.structs.replace(
        restore,
        metadata=msgspec.structs.replace(restore.metadata, creation_timestamp=now),
        status=msgspec.structs.replace(restore.status, phase=RestorePhase.IN_PROGRESS, start_timestamp=now),
    )


async def _record(run: LocalRun, restore: Restore) -> bool:
    """Keep the Restore object in the location; a failure to keep it does not undo the restore."""
    try:
        await run.store.put_restore_metadata(restore.metadata.name, encode_metadata(restore))
    except StorageError as error:
        title = location_title(run.location)
        run.observer.warn(f"the restore could not be recorded in {title}: {error}")
        return False
    return True


async def _pod_volume_backups(store: BackupStore, backup: Backup) -> Sequence[PodVolumeBackup]:
    """Those that the location holds, each with its uploader. Raises StorageError."""
    stored = await store.read_pod_volume_backups(backup.metadata.name)
    try:
        found = [decode(PodVolumeBackup, obj) for obj in stored]
    except DecodeError as error:
        raise StorageError(str(error)) from error
    return with_uploaders(found, stored, await store.read_volume_infos(backup.metadata.name))
