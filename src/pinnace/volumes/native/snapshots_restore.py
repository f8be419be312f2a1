"""Creates volumes from native snapshots, and deletes native snapshots. (docs/spec: RST 12, CTL 6.2)"""

from collections.abc import Iterable

from pinnace.api.objects import JSONObject
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.volumes.native.snapshotters import SnapshotError, Snapshotters, called, created_id


class SnapshotVolumes:
    """Makes the volumes of one restore.

    Args:
        snapshotters: of the locations in the backup's namespace.
    """

    def __init__(self, snapshotters: Snapshotters) -> None:
        self._snapshotters = snapshotters

    async def restore_volume(self, volume: JSONObject, snapshot: VolumeSnapshot) -> JSONObject:
        """Create a volume from the snapshot and return the PersistentVolume that points at it.

        The new volume is not taken back if something fails later.

        Raises:
            SnapshotError: the provider failed; the text is the provider's.
        """
        name = volume["metadata"].get("name")
        if not name:
            raise SnapshotError("PersistentVolume is missing its name")
        spec, snapshot_id = snapshot.spec, snapshot.status.provider_snapshot_id
        snapshotter = await self._snapshotters.of(spec.location)
        volume_id = await created_id(
            snapshotter.create_volume_from_snapshot(
                snapshot_id, spec.volume_type, spec.volume_az, spec.volume_iops
            ),
            f"error creating a volume from snapshot {snapshot_id}",
        )
        changed = await called(
            snapshotter.set_volume_id(volume, volume_id),
            f"error pointing the persistent volume at its new volume {volume_id}",
        )
        if not (changed.get("metadata") or {}).get("name"):
            raise SnapshotError(
                f"the provider returned a persistent volume without a name, for volume {volume_id}"
            )
        return changed


async def delete_snapshots(records: Iterable[VolumeSnapshot], snapshotters: Snapshotters) -> list[str]:
    """Delete the snapshots of a backup and return the errors; an error does not stop the others. (CTL 6.2)

    Records without an id are of snapshots that were never made.
    """
    errors = []
    for record in records:
        snapshot_id = record.status.provider_snapshot_id
        if not snapshot_id:
            continue
        try:
            snapshotter = await snapshotters.of(record.spec.location)
            await called(snapshotter.delete_snapshot(snapshot_id), "its provider refused")
        except SnapshotError as error:
            errors.append(f"error deleting snapshot {snapshot_id}: {error}")
    return errors
