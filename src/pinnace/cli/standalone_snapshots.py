"""Volume snapshots in backups and restores that the command itself makes. (docs/spec: BKP 10-11, RST 12)

CSI snapshots with `--features EnableCSI`, as in a server; a plugin that brings the actions goes first.
Native ones only where the backup asks for them: the snapshot locations are the cluster's, and nobody can
expect that their plugins are on this machine too.
"""

from collections.abc import Sequence

from pinnace.api.backup import Backup
from pinnace.api.codec import DecodeError, decode
from pinnace.api.snapshot_location import VolumeSnapshotLocation
from pinnace.backup.request import Unreadable
from pinnace.cli.errors import InvalidInput
from pinnace.cli.settings import Settings
from pinnace.csi.objects import TakenSnapshots
from pinnace.csi.snapshots import FEATURE, CSIError, SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError
from pinnace.plugins.operation import Operation
from pinnace.plugins.protocols import BackupItemAction, RestoreItemAction
from pinnace.volumes.disks import with_disks
from pinnace.volumes.snapshotters import LOCATIONS, Snapshotters


async def snapshot_locations(
    client: KubeClient, settings: Settings, backup: Backup
) -> Sequence[VolumeSnapshotLocation] | Unreadable:
    """The cluster's locations, if the backup asks for native snapshots."""
    if not backup.spec.volume_snapshot_locations and backup.spec.snapshot_volumes is not True:
        return []
    try:
        listed = await client.list_all(LOCATIONS, settings.namespace)
        return [decode(VolumeSnapshotLocation, obj) for obj in listed]
    except (KubeError, DecodeError) as error:
        return Unreadable(str(error))


def snapshotters(client: KubeClient, settings: Settings, plugins: Operation) -> Snapshotters:
    """The providers of native snapshots for one run."""
    return Snapshotters(client, settings.namespace, with_disks(plugins.volume_snapshotter))


def taken_snapshots(
    client: KubeClient, settings: Settings, discovery: Discovery, backup: Backup
) -> TakenSnapshots | None:
    """What keeps count of a backup's CSI snapshots; None where the feature is off. Raises InvalidInput."""
    if FEATURE not in settings.features:
        return None
    try:
        return TakenSnapshots(client, SnapshotKinds.needed(discovery), backup)
    except CSIError as exc:
        raise InvalidInput(str(exc)) from exc


def csi_actions_for_backup(
    client: KubeClient, discovery: Discovery, plugins: Operation, taken: TakenSnapshots | None
) -> list[BackupItemAction]:
    """The built-in ones with the feature on.

    Pods' volumes are not saved without a server, so that a wish for restic is no reason to go without.
    """
    if taken is None:
        return []
    from pinnace.csi.backup import csi_backup_actions

    actions = csi_backup_actions(client, discovery, taken, restic=False)
    brought = {action.name for action in plugins.backup_actions}
    return [action for action in actions if action.name not in brought]


def csi_actions_for_restore(
    client: KubeClient, settings: Settings, discovery: Discovery, plugins: Operation
) -> list[RestoreItemAction]:
    """The built-in ones with the feature on. Raises InvalidInput."""
    if FEATURE not in settings.features:
        return []
    from pinnace.csi.restore import csi_restore_actions

    try:
        actions = csi_restore_actions(client, discovery)
    except CSIError as error:
        raise InvalidInput(str(error)) from error
    brought = {action.name for action in plugins.restore_actions}
    return [action for action in actions if action.name not in brought]
