"""Records the volumes that a restore fills, and their sources, for `<restore>-volumeinfo.json.gz`. (BEY 3.7)

A volume is recorded when the object that brings its data is created. The results and the operations of the
restore show whether the data arrived.
"""

from collections.abc import Mapping, Sequence

import msgspec

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.api.volume_info import (
    BackupMethod,
    BackupVolumeInfo,
    CSISnapshotInfo,
    DataMovementInfo,
    NativeSnapshotInfo,
    PodVolumeInfo,
    RestoredVolumeInfo,
)
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.csi.movement.objects import MovedVolume
from pinnace.restore.selection.reading import ItemRef
from pinnace.volumes.pods.pod_claims import claim_name, find_volume

POD_VOLUME_RESTORE = "PodVolumeRestore"
_BUILT_IN_MOVER = "velero"


class RestoredVolumes(msgspec.Struct, frozen=True, kw_only=True):
    """Collects the records of one restore.

    Attributes:
        made: the native snapshots that volumes were made from, by the name of the volume in the backup.
        pod_volumes: the saved volumes of pods; None if this installation cannot restore them.
        infos: the records of the backup; empty for older backups.
    """

    made: Mapping[str, VolumeSnapshot]
    pod_volumes: SavedPodVolumes | None
    infos: Sequence[BackupVolumeInfo] = ()
    found: list[RestoredVolumeInfo] = msgspec.field(default_factory=list)

    def moved(self, ref: ItemRef, volume: MovedVolume, operation: str) -> None:
        """Record a claim whose moved data is being restored."""
        mover = volume.mover or _BUILT_IN_MOVER
        self.found.append(
            RestoredVolumeInfo(
                pvc_namespace=ref.target_namespace,
                pvc_name=ref.name,
                restore_method=BackupMethod.CSI_SNAPSHOT,
                snapshot_data_moved=True,
                snapshot_data_movement_info=DataMovementInfo(
                    data_mover=mover,
                    uploader_type="kopia" if mover == _BUILT_IN_MOVER else "",
                    snapshot_handle=volume.snapshot,
                    operation_id=operation,
                ),
            )
        )

    def volume_created(self, ref: ItemRef, volume: JSONObject) -> None:
        """Record a new volume that was made from a native snapshot."""
        snapshot = self.made.get(ref.name)
        if snapshot is None:
            return
        spec, claim = snapshot.spec, mapping(volume, "spec", "claimRef")
        self.found.append(
            RestoredVolumeInfo(
                pvc_namespace=text(claim, "namespace"),
                pvc_name=text(claim, "name"),
                pv_name=text(volume, "metadata", "name"),
                restore_method=BackupMethod.NATIVE_SNAPSHOT,
                native_snapshot_info=NativeSnapshotInfo(
                    snapshot_handle=snapshot.status.provider_snapshot_id,
                    volume_type=spec.volume_type,
                    volume_az=spec.volume_az,
                    iops=str(spec.volume_iops or 0),
                ),
            )
        )

    def claim_created(self, ref: ItemRef, claim: JSONObject) -> None:
        """Record a new claim that is filled from a CSI snapshot."""
        source = mapping(claim, "spec", "dataSource")
        if text(source, "kind") != "VolumeSnapshot":
            return
        original = (ref.original_namespace, ref.name)
        known = next((info.csi_snapshot_info for info in self.infos if info.claim == original), None)
        self.found.append(
            RestoredVolumeInfo(
                pvc_namespace=ref.target_namespace,
                pvc_name=ref.name,
                restore_method=BackupMethod.CSI_SNAPSHOT,
                csi_snapshot_info=known or CSISnapshotInfo(),
            )
        )

    def pod_created(self, ref: ItemRef, pod: JSONObject) -> None:
        """Record the saved volumes of a new pod."""
        if self.pod_volumes is None:
            return
        for name, snapshot in sorted(self.pod_volumes.snapshots(pod, ref.original_namespace).items()):
            source = find_volume(pod, name)
            claim = claim_name(pod, source) if source is not None else ""
            self.found.append(
                RestoredVolumeInfo(
                    pvc_namespace=ref.target_namespace if claim else "",
                    pvc_name=claim,
                    restore_method=POD_VOLUME_RESTORE,
                    pvr_info=PodVolumeInfo(
                        snapshot_handle=snapshot.id,
                        size=snapshot.size_bytes,
                        uploader_type=snapshot.uploader,
                        volume_name=name,
                        pod_name=ref.name,
                        pod_namespace=ref.target_namespace,
                        node_name=text(pod, "spec", "nodeName"),
                    ),
                )
            )
