"""The volumes of pods in a backup, by its PodVolumeBackups. Pure. (docs/spec: PVL 9, 13, BEY 11.1)"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import TransferPhase
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.pod_volume import RESTIC, uploader_of_object
from pinnace.api.volume_info import BackupMethod, BackupVolumeInfo
from pinnace.catalogue.volumes import Claim, Place, SavedVolume, Way
from pinnace.volumes.uploaders import UPLOADERS

_WRITTEN_BY_THE_KUBELET: Final = ("projected", "downwardAPI")


def pod_volumes(
    objects: Iterable[JSONObject], infos: Iterable[BackupVolumeInfo] = (), named_by: Iterable[JSONObject] = ()
) -> Iterator[SavedVolume]:
    """The volume of each PodVolumeBackup.

    A cluster whose definition lacks the field of the uploader drops it, and a kopia snapshot would be taken
    for a restic one. So any record of the snapshot may name it.

    Args:
        objects: from a cluster or a location, not checked.
        infos: the records of the volumes.
        named_by: PodVolumeBackups that name the uploader where an object itself does not.
    """
    uploaders: dict[str, str] = {}
    for info in infos:
        if info.pvb_info is not None and info.pvb_info.uploader_type:
            uploaders[info.pvb_info.snapshot_handle] = info.pvb_info.uploader_type
    for obj in named_by:
        if uploader := text(obj, "spec", "uploaderType"):
            uploaders[text(obj, "status", "snapshotID")] = uploader
    for obj in objects:
        snapshot = text(obj, "status", "snapshotID")
        own = text(obj, "spec", "uploaderType")
        yield _pod_volume(obj, snapshot, own or uploaders.get(snapshot) or uploader_of_object(obj))


def _pod_volume(obj: JSONObject, snapshot: str, uploader: str) -> SavedVolume:
    namespace, phase = text(obj, "spec", "pod", "namespace"), text(obj, "status", "phase")
    lacks = ""
    if not snapshot and phase != TransferPhase.COMPLETED:  # else it was empty
        said = text(obj, "status", "message")
        lacks = f"its PodVolumeBackup is {phase or TransferPhase.NEW}{f': {said}' if said else ''}"
    size = mapping(obj, "status", "progress").get("totalBytes")
    return msgspec.structs.replace(
        saved_volume(
            uploader, snapshot, namespace, text(obj, "spec", "pod", "name"), text(obj, "spec", "volume")
        ),
        claim=(namespace, text(obj, "metadata", "annotations", labels.PVC_NAME)),
        size_bytes=size if isinstance(size, int) else 0,
        lacks=lacks,
    )


def saved_volume(
    uploader: str, snapshot: str, namespace: str = "", pod: str = "", volume: str = ""
) -> SavedVolume:
    """The data that a program has written into the repository of a namespace; nowhere without a snapshot."""
    place = Place.REPOSITORY if uploader in UPLOADERS else Place.ELSEWHERE
    of_pod = f" of volume {volume} of pod {namespace}/{pod}" if pod else ""
    return SavedVolume(
        way=Way.POD_VOLUME,
        place=place if snapshot else Place.NOWHERE,
        title=f"{uploader} snapshot {snapshot}{of_pod}",
        uploader=uploader,
        snapshot=snapshot,
        namespace=namespace,
        pod=pod,
        volume=volume,
    )


def recorded_pod_volumes(infos: Iterable[BackupVolumeInfo]) -> Iterator[SavedVolume]:
    """The saved volumes of pods, by the records of volumes."""
    for info in infos:
        of_pod = info.pvb_info
        if info.backup_method == BackupMethod.POD_VOLUME_BACKUP and of_pod and of_pod.snapshot_handle:
            place = of_pod.pod_namespace, of_pod.pod_name, of_pod.volume_name
            volume = saved_volume(of_pod.uploader_type or RESTIC, of_pod.snapshot_handle, *place)
            yield msgspec.structs.replace(volume, claim=info.claim, size_bytes=of_pod.size)


class SavedPodVolumes:
    """The volumes of pods in one backup, found by pod and by claim.

    The restore engine and the action that makes pods wait must find the same ones. (docs/spec: RST 11, 19)
    """

    def __init__(self, volumes: Iterable[SavedVolume] = ()) -> None:
        self.volumes = list(volumes)
        self._by_pod: dict[tuple[str, str], list[SavedVolume]] = {}
        self._by_claim: dict[Claim, list[SavedVolume]] = {}
        for volume in self.volumes:
            self._by_pod.setdefault((volume.namespace, volume.pod), []).append(volume)
            if volume.claim[1]:
                self._by_claim.setdefault(volume.claim, []).append(volume)

    def of_pod(self, namespace: str, name: str) -> Sequence[SavedVolume]:
        """The volumes of a pod, by its namespace in the backup."""
        return self._by_pod.get((namespace, name), ())

    def of_claim(self, namespace: str, name: str) -> Sequence[SavedVolume]:
        """The volumes behind a claim, by its namespace in the backup."""
        return self._by_claim.get((namespace, name), ())

    def snapshots(self, pod: JSONObject, original_namespace: str) -> dict[str, SavedSnapshot]:
        """Volume name to the snapshot of restic or kopia, for the volumes of a pod that have one."""
        return {
            name: SavedSnapshot(volume.snapshot, volume.uploader, volume.size_bytes)
            for name, volume in self.saved(pod, original_namespace).items()
            if volume.place == Place.REPOSITORY
        }

    def saved(self, pod: JSONObject, original_namespace: str) -> dict[str, SavedVolume]:
        """Volume name to its data, by whatever program, for the volumes of a pod that have some.

        Volumes that the kubelet writes never count. If the backup has no PodVolumeBackup for the pod, the
        annotations of very old backups are read instead. Of several backups of one volume the last counts.
        """
        volumes = pod.get("spec", {}).get("volumes") or []
        written = {
            volume.get("name")
            for volume in volumes
            if any(volume.get(kind) is not None for kind in _WRITTEN_BY_THE_KUBELET)
        }
        saved = {
            each.volume: each
            for each in self.of_pod(original_namespace, pod["metadata"]["name"])
            if each.snapshot and each.volume not in written
        }
        return saved or _annotated(pod["metadata"].get("annotations") or {})


def _annotated(annotations: dict[str, str]) -> dict[str, SavedVolume]:
    prefix = labels.POD_SNAPSHOT_PREFIX
    found = {name.removeprefix(prefix): name for name in annotations if name.startswith(prefix)}
    return {
        # An empty one counts, too: the restore then says that there is no such snapshot.
        volume: msgspec.structs.replace(
            saved_volume(RESTIC, annotations[name], volume=volume), place=Place.REPOSITORY
        )
        for volume, name in found.items()
    }
