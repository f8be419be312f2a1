"""The cluster's snapshot locations, for backups that the command itself makes. (docs/spec: BKP 10)

Native snapshots are taken only where the backup asks for them: the snapshot locations are the cluster's, and
their plugins need not be on this machine.
"""

from collections.abc import Sequence

from pinnace.api.backup import Backup
from pinnace.api.codec import DecodeError, decode
from pinnace.api.snapshot_location import VolumeSnapshotLocation
from pinnace.backup.request import Unreadable
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.volumes.snapshotters import LOCATIONS


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
