"""Volume snapshots for the controllers of backups, restores and deletions, native and CSI.

(docs/spec: BKP 10-11, RST 12, CTL 6.2, 6.5)
"""

from collections.abc import Container, Sequence

from pinnace.api.backup import Backup
from pinnace.api.objects import JSONObject
from pinnace.api.snapshots import VolumeSnapshot
from pinnace.controllers.ports import Scope
from pinnace.csi.backup import csi_backup_actions
from pinnace.csi.objects import CollectedObjects, delete_objects
from pinnace.csi.restore import csi_restore_actions
from pinnace.csi.snapshots import FEATURE, CSIError, SnapshotKinds, handle_of, missing_here, synced_content
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import AlreadyExists, BadRequest, Invalid
from pinnace.plugins.kinds import PluginId
from pinnace.plugins.operation import Operation
from pinnace.plugins.protocols import BackupItemAction, RestoreItemAction
from pinnace.plugins.registry import ActionRegistry
from pinnace.runtime.logfields import get_logger
from pinnace.storage.backup_store import BackupStore
from pinnace.volumes.disks import with_disks
from pinnace.volumes.snapshots_restore import delete_snapshots
from pinnace.volumes.snapshotters import SnapshotError, Snapshotters

log = get_logger(__name__)


def snapshotters_of(scope: Scope, plugins: Operation) -> Snapshotters:
    """The providers of native snapshots for one backup, restore or deletion."""
    return Snapshotters(scope.client, scope.namespace, with_disks(plugins.volume_snapshotter))


def csi_objects(scope: Scope, discovery: Discovery, backup: Backup) -> CollectedObjects | None:
    """What lists the CSI snapshots of a backup at its end; None where the feature is off."""
    kinds = SnapshotKinds.served(discovery) if FEATURE in scope.features else None
    return CollectedObjects(scope.client, kinds, backup.metadata.name) if kinds is not None else None


def csi_actions_for_backup(
    scope: Scope, discovery: Discovery, plugins: Operation, *, restic: bool
) -> list[BackupItemAction]:
    """The built-in ones with the feature on, but those that a plugin brings itself."""
    if FEATURE not in scope.features:
        return []
    brought = {action.name for action in plugins.backup_actions}
    actions = csi_backup_actions(scope.client, discovery, restic=restic)
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
    if FEATURE not in scope.features or SnapshotKinds.served(discovery) is None:
        return []
    backups = csi_backup_actions(scope.client, discovery, restic=False)
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

    async def obstacles(self) -> list[str]:
        """The snapshots that nobody here can delete, each with the reason; nothing is touched.

        Raises:
            StorageError, KubeError: they cannot be listed now.
        """
        found: list[str] = []
        problems: dict[str, str] = {}
        for record in await self._records():
            location = record.spec.location
            if location not in problems:
                problems[location] = await self._problem(location)
            if problems[location]:
                found.append(f"volume snapshot {record.status.provider_snapshot_id} ({problems[location]})")
        if await self._kinds() is None:
            reason = f"start the server with --features {FEATURE}"
            for content in await self._contents():
                name = (content.get("metadata") or {}).get("name") or ""
                found.append(f"CSI volume snapshot content {name} ({reason})")
        return found

    async def delete(self) -> list[str]:
        """Delete them; what went wrong. Doing it twice is harmless. (docs/spec: CTL 6.2, 6.5)

        Raises:
            StorageError, KubeError: they cannot be listed now.
        """
        errors = await delete_snapshots(await self._records(), self._snapshotters)
        kinds = await self._kinds()
        if kinds is None:
            return errors
        csi_errors, live = await delete_objects(self._scope.client, kinds, self._backup)
        if missing := missing_here(await self._contents(), live):
            log.warning(
                "CSI snapshots of the backup have no VolumeSnapshotContent in this cluster: if the storage"
                " system still has them, delete them there",
                snapshots=missing,
            )
        return [*errors, *csi_errors]

    async def _problem(self, location: str) -> str:
        try:
            await self._snapshotters.of(location)
        except SnapshotError as error:
            return str(error)
        return ""

    async def _records(self) -> Sequence[VolumeSnapshot]:
        """The native snapshots that were made."""
        if not self._trusted:
            return ()
        records = await self._store.read_snapshots(self._backup)
        return [record for record in records if record.status.provider_snapshot_id]

    async def _contents(self) -> Sequence[JSONObject]:
        if not self._trusted:
            return ()
        return await self._store.read_csi_volume_snapshot_contents(self._backup)

    async def _kinds(self) -> SnapshotKinds | None:
        if not self._trusted or FEATURE not in self._scope.features:
            return None
        return SnapshotKinds.served(await Discovery.load(self._scope.client))
