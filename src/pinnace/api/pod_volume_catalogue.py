"""The pod volume backups of one backup, found by pod and by claim. Pure.

The restore engine and the action that makes pods wait must find the same ones. (docs/spec: RST 11, 19, PVL 9)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.pod_volume import KOPIA, RESTIC, PodVolumeBackup
from pinnace.api.volume_info import BackupVolumeInfo

UPLOADERS: Final = (RESTIC, KOPIA)
"""The programs whose snapshots are restored."""


_WRITTEN_BY_THE_KUBELET: Final = ("projected", "downwardAPI")


def out_of_reach(pod: JSONObject) -> str:
    """Why no node agent can ever reach the volumes of a pod; empty if one can.

    Agents run on Linux only. A pod says that it needs Windows by `spec.os`, or by a node selector.
    """
    of_pod = (
        text(pod, "spec", "os", "name"),
        mapping(pod, "spec", "nodeSelector").get("kubernetes.io/os"),
    )
    return "the pod needs a Windows node, where no node agent runs" if "windows" in of_pod else ""


class SavedSnapshot(msgspec.Struct, frozen=True):
    """A snapshot of a volume.

    Attributes:
        id: as its uploader names it.
        uploader: the program that saved it.
        size_bytes: of what a restore writes; 0 if that is not known.
    """

    id: str
    uploader: str = RESTIC
    size_bytes: int = 0


class PodVolumeCatalogue:
    """The pod volume backups of one backup, found by pod and by claim."""

    def __init__(self, backups: Iterable[PodVolumeBackup]) -> None:
        self._by_pod: dict[tuple[str, str], list[PodVolumeBackup]] = {}
        self._by_claim: dict[tuple[str, str], list[PodVolumeBackup]] = {}
        self.backups: Sequence[PodVolumeBackup] = list(backups)
        for backup in self.backups:
            pod = backup.spec.pod
            self._by_pod.setdefault((pod.namespace, pod.name), []).append(backup)
            claim = (backup.metadata.annotations or {}).get(labels.PVC_NAME)
            if claim:
                self._by_claim.setdefault((pod.namespace, claim), []).append(backup)

    def of_pod(self, namespace: str, name: str) -> Sequence[PodVolumeBackup]:
        """The backups of the volumes of a pod, by its namespace in the backup."""
        return self._by_pod.get((namespace, name), ())

    def of_claim(self, namespace: str, name: str) -> Sequence[PodVolumeBackup]:
        """The backups of the volume behind a claim, by the claim's namespace in the backup."""
        return self._by_claim.get((namespace, name), ())

    def snapshots(self, pod: JSONObject, original_namespace: str) -> dict[str, SavedSnapshot]:
        """Volume name to the snapshot of restic or kopia, for the volumes of a pod that have one.

        Volumes that the kubelet writes never count. If the backup has no PodVolumeBackup for the pod, the
        annotations of very old backups are read instead. Of several backups of one volume the last counts.
        """
        saved = self._saved(pod, original_namespace)
        if not saved:
            return _annotated(pod["metadata"].get("annotations") or {})
        return {
            volume: SavedSnapshot(
                backup.status.snapshot_id, uploader_of(backup), backup.status.progress.total_bytes
            )
            for volume, backup in saved.items()
            if uploader_of(backup) in UPLOADERS
        }

    def of_other_uploaders(self, pod: JSONObject, original_namespace: str) -> dict[str, PodVolumeBackup]:
        """Volume name to its backup, for the volumes that another program saved. (BEY 11.1)"""
        saved = self._saved(pod, original_namespace)
        return {volume: backup for volume, backup in saved.items() if uploader_of(backup) not in UPLOADERS}

    def _saved(self, pod: JSONObject, original_namespace: str) -> dict[str, PodVolumeBackup]:
        volumes = pod.get("spec", {}).get("volumes") or []
        written = {
            volume.get("name")
            for volume in volumes
            if any(volume.get(kind) is not None for kind in _WRITTEN_BY_THE_KUBELET)
        }
        return {
            backup.spec.volume: backup
            for backup in self.of_pod(original_namespace, pod["metadata"]["name"])
            if backup.status.snapshot_id and backup.spec.volume not in written
        }


def uploader_of(backup: PodVolumeBackup) -> str:
    """The program that saved the volume."""
    return backup.spec.uploader_type or RESTIC


def with_uploaders(
    backups: Iterable[PodVolumeBackup], stored: Iterable[Mapping[str, Any]], infos: Iterable[BackupVolumeInfo]
) -> list[PodVolumeBackup]:
    """The backups, with the uploader taken from the location's files where the object itself names none.

    A cluster whose definition lacks the field drops it, and a kopia snapshot would be taken for a restic one.

    Args:
        stored: the PodVolumeBackups as the location has them.
        infos: of the same backup.
    """
    known: dict[str, str] = {}
    for info in infos:
        if info.pvb_info is not None:
            known[info.pvb_info.snapshot_handle] = info.pvb_info.uploader_type
    for each in stored:
        spec, status = each.get("spec"), each.get("status")
        if isinstance(spec, dict) and isinstance(status, dict):
            uploader = spec.get("uploaderType")
            if isinstance(uploader, str) and uploader:
                known[str(status.get("snapshotID") or "")] = uploader
    return [_with_uploader(backup, known.get(backup.status.snapshot_id, "")) for backup in backups]


def _with_uploader(backup: PodVolumeBackup, uploader: str) -> PodVolumeBackup:
    if backup.spec.uploader_type or not uploader:
        return backup
    spec = msgspec.structs.replace(backup.spec, uploader_type=uploader)
    return msgspec.structs.replace(backup, spec=spec)


def _annotated(annotations: dict[str, str]) -> dict[str, SavedSnapshot]:
    prefix = labels.POD_SNAPSHOT_PREFIX
    return {
        name.removeprefix(prefix): SavedSnapshot(value)
        for name, value in annotations.items()
        if name.startswith(prefix)
    }
