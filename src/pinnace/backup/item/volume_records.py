"""The volumes that a backup met, and how each was saved or why it was not: for `<backup>-volumeinfo.json.gz`.

Later Velero decides by this file how a persistent volume is restored, so each volume that was saved has one
element for each way, and each other persistent volume in the backup one that says why. (docs/spec: BEY 3.6)
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, member, text
from pinnace.api.phases import TransferPhase
from pinnace.api.values.times import known_time
from pinnace.api.velero.pod_volume import uploader_of_object
from pinnace.api.velero.snapshots import VolumeSnapshot, VolumeSnapshotPhase
from pinnace.api.volume_info import (
    BackupMethod,
    BackupVolumeInfo,
    NativeSnapshotInfo,
    PersistentVolumeInfo,
    PodVolumeInfo,
)

NO_SNAPSHOTTER = "volumeSnapshot: no applicable volumesnapshotter found"


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A persistent volume in the backup; `reason` says why it has no native snapshot."""

    claim: tuple[str, str]
    info: PersistentVolumeInfo
    reason: str


class VolumeRecords:
    """The persistent volumes in one backup."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def seen(self, volume: JSONObject, reason: str) -> None:
        """Record a persistent volume; `reason` as `<approach>: <reason>`, empty if a snapshot is wanted."""
        claim = mapping(volume, "spec", "claimRef")
        self._seen[text(volume, "metadata", "name")] = _Seen(
            claim=(text(claim, "namespace"), text(claim, "name")),
            info=PersistentVolumeInfo(
                reclaim_policy=text(volume, "spec", "persistentVolumeReclaimPolicy"),
                labels=dict(mapping(volume, "metadata", "labels")),
            ),
            reason=reason,
        )

    def infos(
        self,
        *,
        snapshots: Sequence[VolumeSnapshot],
        csi: Sequence[BackupVolumeInfo],
        pod_volume_backups: Iterable[JSONObject],
    ) -> list[BackupVolumeInfo]:
        """The elements: skipped volumes, native snapshots, CSI snapshots, pod volumes."""
        names = {record.claim: name for name, record in self._seen.items() if record.claim[1]}
        native = [self._native(snapshot) for snapshot in snapshots]
        from_pods = [self._from_pod(obj, names) for obj in pod_volume_backups]
        saved = {info.pv_name for info in (*native, *csi, *from_pods)}
        return [*self._skipped(saved), *native, *csi, *from_pods]

    def _skipped(self, saved: set[str]) -> Iterator[BackupVolumeInfo]:
        for name, record in self._seen.items():
            if name not in saved:
                yield BackupVolumeInfo(
                    pvc_namespace=record.claim[0],
                    pvc_name=record.claim[1],
                    pv_name=name,
                    skipped=True,
                    skipped_reason=f"{record.reason or NO_SNAPSHOTTER};",
                    pv_info=record.info,
                )

    def _native(self, snapshot: VolumeSnapshot) -> BackupVolumeInfo:
        spec, status = snapshot.spec, snapshot.status
        record = self._seen.get(spec.persistent_volume_name)
        namespace, claim = record.claim if record is not None else ("", "")
        return BackupVolumeInfo(
            pvc_namespace=namespace,
            pvc_name=claim,
            pv_name=spec.persistent_volume_name,
            backup_method=BackupMethod.NATIVE_SNAPSHOT,
            result=_result(status.phase == VolumeSnapshotPhase.COMPLETED),
            native_snapshot_info=NativeSnapshotInfo(
                snapshot_handle=status.provider_snapshot_id,
                volume_type=spec.volume_type,
                volume_az=spec.volume_az,
                iops=str(spec.volume_iops or 0),
                phase=status.phase,
            ),
            pv_info=record.info if record is not None else None,
        )

    def _from_pod(self, obj: JSONObject, names: dict[tuple[str, str], str]) -> BackupVolumeInfo:
        pod, status = mapping(obj, "spec", "pod"), mapping(obj, "status")
        claim = text(obj, "metadata", "annotations", labels.PVC_NAME)
        namespace = text(pod, "namespace")
        name = names.get((namespace, claim), "") if claim else ""
        began, ended = text(status, "startTimestamp"), text(status, "completionTimestamp")
        size = member(status, "progress", "totalBytes")
        return BackupVolumeInfo(
            pvc_namespace=namespace if claim else "",
            pvc_name=claim,
            pv_name=name,
            backup_method=BackupMethod.POD_VOLUME_BACKUP,
            result=_result(text(status, "phase") == TransferPhase.COMPLETED),
            start_timestamp=known_time(began),
            completion_timestamp=known_time(ended),
            pvb_info=PodVolumeInfo(
                snapshot_handle=text(status, "snapshotID"),
                size=size if isinstance(size, int) else 0,
                uploader_type=uploader_of_object(obj),
                volume_name=text(obj, "spec", "volume"),
                pod_name=text(pod, "name"),
                pod_namespace=namespace,
                node_name=text(obj, "spec", "node"),
                phase=text(status, "phase"),
            ),
            pv_info=self._seen[name].info if name else None,
        )


def _result(is_saved: bool) -> str:
    return "succeeded" if is_saved else "failed"
