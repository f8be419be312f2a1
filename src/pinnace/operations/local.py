"""Runs without a server, and their backups: a cluster and a location in, a finished Backup out.

The command line (`pinnace --location`) and the Python API call this. Nothing is printed here: what happens is
told to `LocalRun.observer`. Restores are in `local_restore`, so that a backup does not load what they need.
"""

import os
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.codec import DecodeError, decode
from pinnace.api.resource_policies import PolicyError, ResourcePolicies
from pinnace.api.selection.validation import metadata_errors
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocation
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.backup.filters import included_kinds
from pinnace.backup.request import ServerDefaults, Unreadable, note_source, prepare_backup
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError
from pinnace.kube.identity import read_identity
from pinnace.kube.resources import VOLUME_SNAPSHOT_LOCATIONS
from pinnace.kube.unserved import unserved_names
from pinnace.operations.backup import BackupOperation
from pinnace.operations.namespace_choice import NamespaceChoiceError, choose_namespaces
from pinnace.operations.policies import policies_of
from pinnace.operations.workdir import work_directory
from pinnace.plugins.builtin.backup.actions import backup_actions
from pinnace.plugins.errors import PluginError
from pinnace.plugins.installed import PluginOptions, find_plugins
from pinnace.plugins.kinds import PluginId
from pinnace.plugins.registry import ActionRegistry
from pinnace.plugins.session import PluginSession
from pinnace.runs.activity import Activity
from pinnace.runs.context import RunContext
from pinnace.runs.progress import ProgressSink
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import BackupBeingWritten, BackupExists, InvalidLocation, StorageError
from pinnace.storage.inner_folders import inner_folder
from pinnace.storage.location_url import location_title
from pinnace.storage.patience import Patience
from pinnace.storage.writer_claim import WriterClaim

PLUGIN_DIRECTORY_VARIABLE: Final = "PINNACE_PLUGIN_DIR"
"""The directory of plugin programs; without it no plugin programs are run."""


class InvalidRun(Exception):
    """The run cannot begin as it was asked for; nothing was done. The text says all that is wrong."""


class NameTaken(InvalidRun):
    """The location already has a backup or a restore of that name."""


class Observer:
    """Is told what happens in a run; this class ignores it."""

    def warn(self, text: str) -> None:
        """Something about the cluster or the location could not be found out or written."""

    def started(self, what: Backup | Restore) -> None:
        """The request is valid and the work begins."""


class LocalRun(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs and settings of a run without a server.

    Attributes:
        client: the cluster.
        location, store: the location and its backups, opened; the owner closes the store.
        namespace: where the cluster is asked for settings; written into the Backup or Restore.
        kubeconfig: the file that plugin programs are to use; empty for their own default.
        features: enabled feature flags.
        progress: told at most once a second how far the run is.
        activity: what the run is doing now, for display.
        observer: told what happens.
    """

    client: KubeClient
    location: BackupStorageLocation
    store: BackupStore
    namespace: str = "velero"
    kubeconfig: str = ""
    features: Collection[str] = ()
    progress: ProgressSink | None = None
    activity: Activity = msgspec.field(default_factory=Activity)
    observer: Observer = msgspec.field(default_factory=Observer)
    clock: Clock = SYSTEM_CLOCK

    async def discover(self) -> Discovery:
        """The kinds that the cluster serves; gaps in that are one warning. Raises KubeError."""
        discovery = await Discovery.load(self.client, all_versions="EnableAPIGroupVersions" in self.features)
        if discovery.gaps:
            self.observer.warn(discovery.gaps)
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
                clock=self.clock,
                activity=self.activity,
                patience=Patience(self.observer.warn, waiting=self.activity.waiting, clock=self.clock),
            )

    @asynccontextmanager
    async def _plugins(self, builtin: Iterable[PluginId]) -> AsyncIterator[PluginSession]:
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
    """Make a backup and store it; return the Backup with its terminal phase.

    Raises:
        InvalidRun: it cannot be made as asked; NameTaken if there is one of that name. Nothing was done.
        KubeError, StorageError: the cluster or the location could not be used; nothing was done.
    """
    check_metadata(backup)
    await _check_location(run)
    discovery = await run.discover()
    prepared = await _prepare(run, backup, discovery)
    try:
        policies = await policies_of(run.client, run.namespace, prepared.spec, discovery.canonical)
    except PolicyError as error:
        raise InvalidRun(f"the backup is not valid:\n  {error}") from error
    if prepared.spec.snapshot_move_data:
        raise InvalidRun(
            "the backup is not valid:\n  spec.snapshotMoveData: the data of CSI snapshots is moved by a"
            " server and its node agents, and this backup is made without them; make it with the server, or"
            " leave the setting out to keep the snapshots in the storage system"
        )
    name = prepared.metadata.name
    if await run.store.is_taken(name):
        raise NameTaken(f"{BackupExists(name)}; choose another name or delete it")
    ids = ActionRegistry(builtin_backup_actions=backup_actions(run.client, discovery)).ids
    # Before the cluster is read: a location that cannot be written, or a second process that makes a backup
    # of this name, is found now and not after minutes.
    async with AsyncExitStack() as stack:
        try:
            claim = await stack.enter_async_context(run.store.claim_of_backup(name))
        except BackupBeingWritten as error:
            raise NameTaken(str(error)) from error
        except StorageError as error:
            raise StorageError(f"cannot write into {location_title(run.location)}: {error}") from error
        return await claim.hold(_make_claimed(run, prepared, discovery, policies, ids, claim))
    raise AssertionError("the stack swallows no error")


async def _make_claimed(
    run: LocalRun,
    backup: Backup,
    discovery: Discovery,
    policies: ResourcePolicies | None,
    ids: Collection[PluginId],
    claim: WriterClaim,
) -> Backup:
    """Make a backup under the claim on its name."""
    run.observer.started(backup)
    async with run.open(discovery, builtin=ids) as opened:
        operation = BackupOperation(msgspec.structs.replace(opened, claim=claim), policies=policies)
        return await operation.wait(await operation.run(backup))


def check_metadata(request: Backup | Restore) -> None:
    """Raises InvalidRun for a name or labels that no object may have."""
    if problems := metadata_errors(request.metadata):
        raise InvalidRun("; ".join(problems))


async def _check_location(run: LocalRun) -> None:
    """Refuse to write among foreign files."""
    title = location_title(run.location)
    if inner := await inner_folder(run.store, run.location):
        raise InvalidRun(f"{title}: {inner}")
    try:
        await run.store.validate()
    except InvalidLocation as error:
        raise InvalidRun(f"{title}: {error}; name an empty folder or prefix") from error


async def _prepare(run: LocalRun, backup: Backup, discovery: Discovery) -> Backup:
    """Fill in and validate, as a server would. Raises InvalidRun with all problems."""
    now = SYSTEM_CLOCK.now()
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
    note_source(prepared, await read_identity(run.client))
    problems = list(prepared.status.validation_errors)
    try:
        await choose_namespaces(run.client, prepared)
    except NamespaceChoiceError as error:
        problems.append(str(error))
    # A command refuses a misspelt kind at once; with a server it is an error of the backup. (docs/adr/023)
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
