"""Volume snapshots for the controllers of backups, restores and deletions, native and CSI.

(docs/spec: BKP 10-11, RST 12, CTL 6.2, 6.5)
"""

from collections.abc import Container

from pinnace.api.backup import Backup
from pinnace.controllers.ports import Scope
from pinnace.csi.backup import csi_backup_actions
from pinnace.csi.objects import TakenSnapshots, delete_csi_snapshots
from pinnace.csi.restore import csi_restore_actions
from pinnace.csi.snapshots import FEATURE, CSIError, SnapshotKinds, handle_of, synced_content
from pinnace.csi.stored_data import StoredVolumeData, read_volume_data
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import AlreadyExists, BadRequest, Invalid
from pinnace.plugins.kinds import PluginId
from pinnace.plugins.operation import Operation
from pinnace.plugins.protocols import BackupItemAction, RestoreItemAction
from pinnace.plugins.registry import ActionRegistry
from pinnace.storage.backup_store import BackupStore
from pinnace.volumes.disks import with_disks
from pinnace.volumes.snapshots_restore import delete_snapshots
from pinnace.volumes.snapshotters import SnapshotError, Snapshotters


def snapshotters_of(scope: Scope, plugins: Operation) -> Snapshotters:
    """The providers of native snapshots for one backup, restore or deletion."""
    return Snapshotters(scope.client, scope.namespace, with_disks(plugins.volume_snapshotter))


def taken_snapshots(scope: Scope, discovery: Discovery, backup: Backup) -> TakenSnapshots | None:
    """What keeps count of the CSI snapshots of a backup; None where the feature is off.

    Raises:
        CSIError: the feature is on, and the cluster has no such kinds.
    """
    if FEATURE not in scope.features:
        return None
    return TakenSnapshots(scope.client, SnapshotKinds.needed(discovery), backup)


def csi_actions_for_backup(
    scope: Scope, discovery: Discovery, plugins: Operation, taken: TakenSnapshots | None, *, restic: bool
) -> list[BackupItemAction]:
    """The built-in ones with the feature on, but those that a plugin brings itself."""
    if taken is None:
        return []
    brought = {action.name for action in plugins.backup_actions}
    actions = csi_backup_actions(scope.client, discovery, taken, restic=restic)
    return [action for action in actions if action.name not in brought]


def csi_actions_for_restore(
    scope: Scope, discovery: Discovery, plugins: Operation, *, recorded: Container[str] | None = None
) -> list[RestoreItemAction]:
    """The same of restores; `recorded` as in `csi_restore_actions`."""
    if FEATURE not in scope.features:
        return []
    brought = {action.name for action in plugins.restore_actions}
    actions = csi_restore_actions(scope.client, discovery, recorded=recorded)
    return [action for action in actions if action.name not in brought]


def csi_plugins(scope: Scope, discovery: Discovery) -> list[PluginId]:
    """The built-in actions for CSI snapshots, for lists of plugins; none with the feature off."""
    if FEATURE not in scope.features or (kinds := SnapshotKinds.served(discovery)) is None:
        return []
    taken = TakenSnapshots(scope.client, kinds, Backup())
    backups = csi_backup_actions(scope.client, discovery, taken, restic=False)
    restores = csi_restore_actions(scope.client, discovery)
    return ActionRegistry(builtin_backup_actions=backups, builtin_restore_actions=restores).ids


async def recorded_handles(scope: Scope, store: BackupStore, backup: str) -> frozenset[str]:
    """The handles of the CSI snapshots that the server noted when it made a backup. Raises StorageError."""
    if FEATURE not in scope.features:
        return frozenset()
    return frozenset(map(handle_of, await store.read_csi_volume_snapshot_contents(backup)))


async def create_contents(client: KubeClient, store: BackupStore, backup: str) -> list[str]:
    """Make the CSI snapshots of a backup, which a location holds, known to this cluster. (docs/spec: CTL 7)

    Returns:
        Why some are left out for good: they are not what they should be, or the API server refused them.

    Raises:
        StorageError, KubeError, CSIError: they cannot be read or created now.
    """
    stored = await store.read_csi_volume_snapshot_contents(backup)
    if not stored:
        return []
    kinds, problems = SnapshotKinds.needed(await Discovery.load(client)), []
    for content in stored:
        try:
            await client.create(kinds.contents, synced_content(kinds, content, backup))
        except AlreadyExists:
            continue
        except (CSIError, Invalid, BadRequest) as error:
            problems.append(str(error))
    return problems


class SnapshotDeletion:
    """The snapshots of one backup that is to be deleted.

    Args:
        plugins: of this deletion.
        trusted: whether the administrator's own location holds the backup. A backup in a tenant's has none,
            and what its files and its name stand for is the tenant's choice. (docs/spec: NAC A15, A35)
    """

    def __init__(
        self, scope: Scope, plugins: Operation, store: BackupStore, backup: Backup, *, trusted: bool
    ) -> None:
        self._scope = scope
        self._snapshotters = snapshotters_of(scope, plugins)
        self._store = store
        self._backup = backup.metadata.name
        self._trusted = trusted
        self._known: StoredVolumeData | None = None

    async def obstacles(self) -> list[str]:
        """The snapshots that this server cannot delete, each with the reason; nothing is touched.

        Raises:
            StorageError, KubeError: they cannot be listed now.
            ArchiveError: the tarball, which alone names some, is damaged.
        """
        found: list[str] = []
        problems: dict[str, str] = {}
        data = await self._data()
        for record in data.native:
            location = record.spec.location
            if location not in problems:
                problems[location] = await self._problem(location)
            if problems[location]:
                found.append(f"volume snapshot {record.status.provider_snapshot_id} ({problems[location]})")
        if data.csi and await self._kinds() is None:
            reason = f"start the server with --features {FEATURE}"
            found += [f"{snapshot} ({reason})" for snapshot in data.csi]
        return [*found, *(f"moved data of {each}" for each in data.moved)]

    async def delete(self) -> list[str]:
        """Delete them; what went wrong. Doing it twice is harmless. (docs/spec: CTL 6.2, 6.5)

        Raises:
            StorageError, KubeError: they cannot be listed now.
        """
        data = await self._data()
        errors = await delete_snapshots(data.native, self._snapshotters)
        kinds = await self._kinds()
        if kinds is None:
            return errors
        client, namespace = self._scope.client, self._scope.namespace
        return errors + await delete_csi_snapshots(
            client, kinds, data.csi, backup=self._backup, namespace=namespace
        )

    async def _problem(self, location: str) -> str:
        try:
            await self._snapshotters.of(location)
        except SnapshotError as error:
            return str(error)
        return ""

    async def _data(self) -> StoredVolumeData:
        """What the files of the backup tell; read once, as the tarball may be among them."""
        if not self._trusted:
            return StoredVolumeData()
        if self._known is None:
            self._known = await read_volume_data(self._store, self._backup, self._scope.workdir)
        return self._known

    async def _kinds(self) -> SnapshotKinds | None:
        if not self._trusted or FEATURE not in self._scope.features:
            return None
        return SnapshotKinds.served(await Discovery.load(self._scope.client))
