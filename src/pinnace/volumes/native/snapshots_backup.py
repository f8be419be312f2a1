"""Native snapshots of persistent volumes during a backup. (docs/spec: BKP 10)"""

from collections.abc import Sequence
from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.snapshots import (
    VolumeSnapshot,
    VolumeSnapshotPhase,
    VolumeSnapshotSpec,
    VolumeSnapshotStatus,
)
from pinnace.archive.runlog import RunLog
from pinnace.notices.codes import Code
from pinnace.notices.notice import notice_of
from pinnace.volumes.native.snapshotters import SnapshotError, Snapshotter, Snapshotters, called, created_id

BACKUP_TAG: Final = "velero.io/backup"
VOLUME_TAG: Final = "velero.io/pv"

_GKE_ZONE: Final = "topology.gke.io/zone"
_ZONE_KEYS: Final = (
    labels.TOPOLOGY_ZONE,
    labels.FAILURE_DOMAIN_ZONE,
    "topology.ebs.csi.aws.com/zone",
    _GKE_ZONE,
    "topology.disk.csi.azure.com/zone",
    "topology.cinder.csi.openstack.org/zone",
    "topology.manila.csi.openstack.org/zone",
)
"""The zone labels of nodes: those of Kubernetes, and those of the CSI drivers of four clouds."""


class NativeSnapshots:
    """Takes the snapshots of one backup.

    Args:
        backup: prepared: its locations are chosen, at most one a provider.
        snapshotters: opened by the names of locations.
        csi: whether CSI volumes are left to the snapshots of their drivers.
    """

    def __init__(self, backup: Backup, snapshotters: Snapshotters, *, csi: bool = False) -> None:
        self._backup = backup
        self._snapshotters = snapshotters
        self._csi = csi
        self._snapshots: list[VolumeSnapshot] = []

    @property
    def snapshots(self) -> Sequence[VolumeSnapshot]:
        """The records of all snapshots that were attempted, failed ones included."""
        return self._snapshots

    async def snapshot(self, volume: JSONObject, log: RunLog) -> Sequence[Exception]:
        """Take a snapshot in the first location whose provider knows the volume.

        A location that cannot be asked is an error of the backup, but none of the volume.

        Returns:
            The errors of the volume's item, which is then not in the backup.
        """
        if self._csi and "csi" in (volume.get("spec") or {}):
            log.info("Persistent volume is left to the snapshots of its CSI driver")
            return ()
        zone = zone_of(volume)
        for location in self._backup.spec.volume_snapshot_locations:
            try:
                snapshotter = await self._snapshotters.of(location)
                volume_id = await called(
                    snapshotter.get_volume_id(volume), f"error getting the volume's id at location {location}"
                )
            except SnapshotError as error:
                log.error(
                    notice_of(
                        error,
                        Code.SNAPSHOT_NOT_TAKEN,
                        "Error asking a volume snapshot location for the volume",
                    ),
                    error=error,
                )
                continue
            if volume_id:
                return await self._take(snapshotter, location, volume, volume_id, zone, log)
        log.info("Persistent volume is of no provider with a volume snapshot location, no snapshot is taken")
        return ()

    async def _take(
        self,
        snapshotter: Snapshotter,
        location: str,
        volume: JSONObject,
        volume_id: str,
        zone: str,
        log: RunLog,
    ) -> Sequence[Exception]:
        try:
            info = await called(snapshotter.get_volume_info(volume_id, zone), "error getting volume info")
        except SnapshotError as error:
            return [error]
        name = volume["metadata"]["name"]
        backup = self._backup.metadata
        record = VolumeSnapshot(
            spec=VolumeSnapshotSpec(
                backup_name=backup.name,
                backup_uid=backup.uid,
                location=location,
                persistent_volume_name=name,
                provider_volume_id=volume_id,
                volume_type=info.volume_type,
                volume_az=zone,
                volume_iops=info.iops,
            ),
            status=VolumeSnapshotStatus(phase=VolumeSnapshotPhase.FAILED),
        )
        self._snapshots.append(record)
        log.info("Taking a snapshot of the persistent volume", location=location, volumeID=volume_id)
        tags = {**backup.labels, BACKUP_TAG: backup.name, VOLUME_TAG: name}
        try:
            record.status.provider_snapshot_id = await created_id(
                snapshotter.create_snapshot(volume_id, zone, tags), "error taking snapshot of volume"
            )
        except SnapshotError as error:
            return [error]
        record.status.phase = VolumeSnapshotPhase.COMPLETED
        log.info("Snapshot taken", location=location, snapshotID=record.status.provider_snapshot_id)
        return ()


def zone_of(volume: JSONObject) -> str:
    """The zone that a persistent volume's labels name, else the nodes it wants. (docs/spec: BKP 10)

    Volumes of CSI drivers have no labels. Several zones of Google's are joined by `__`, as in labels of
    regional disks; of others the first counts, as they know no such names. Empty if nothing names a zone.
    """
    found = volume["metadata"].get("labels") or {}
    return found.get(labels.TOPOLOGY_ZONE) or found.get(labels.FAILURE_DOMAIN_ZONE) or _zone_of_nodes(volume)


def _zone_of_nodes(volume: JSONObject) -> str:
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    found = [
        (wanted["key"], zone)
        for term in required.get("nodeSelectorTerms") or ()
        for wanted in term.get("matchExpressions") or ()
        if wanted.get("key") in _ZONE_KEYS and wanted.get("operator") == "In"
        for zone in wanted.get("values") or ()
        if zone
    ]
    if regional := sorted({zone for key, zone in found if key == _GKE_ZONE}):
        return "__".join(regional)
    return found[0][1] if found else ""
