"""What a backup holds for the volumes of pods: which ones, and for which claims. Pure.

The restore engine and the action that lets pods wait must find the same. (docs/spec: RST 11, 19, PVL 9)
"""

from collections.abc import Iterable, Sequence

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.pod_volume import PodVolumeBackup


class PodVolumeCatalogue:
    """The pod volume backups of one backup, found by pod and by claim."""

    def __init__(self, backups: Iterable[PodVolumeBackup]) -> None:
        self._by_pod: dict[tuple[str, str], list[PodVolumeBackup]] = {}
        self._by_claim: dict[tuple[str, str], list[PodVolumeBackup]] = {}
        for backup in backups:
            pod = backup.spec.pod
            self._by_pod.setdefault((pod.namespace, pod.name), []).append(backup)
            claim = (backup.metadata.annotations or {}).get(labels.PVC_NAME)
            if claim:
                self._by_claim.setdefault((pod.namespace, claim), []).append(backup)

    def of_claim(self, namespace: str, name: str) -> Sequence[PodVolumeBackup]:
        """The backups of the volume behind a claim, by the claim's namespace in the backup."""
        return self._by_claim.get((namespace, name), ())

    def snapshots(self, pod: JSONObject, original_namespace: str) -> dict[str, str]:
        """Volume name to snapshot id, for the volumes of a pod that have data in the backup.

        Volumes that are projected in the pod's definition never count. If nothing is found, the annotations
        of very old backups are read instead. Of several backups of one volume the last wins.
        """
        volumes = pod.get("spec", {}).get("volumes") or []
        projected = {volume.get("name") for volume in volumes if volume.get("projected") is not None}
        found = {
            backup.spec.volume: backup.status.snapshot_id
            for backup in self._by_pod.get((original_namespace, pod["metadata"]["name"]), ())
            if backup.status.snapshot_id and backup.spec.volume not in projected
        }
        return found or _annotated(pod["metadata"].get("annotations") or {})


def _annotated(annotations: dict[str, str]) -> dict[str, str]:
    prefix = labels.POD_SNAPSHOT_PREFIX
    return {
        name.removeprefix(prefix): value for name, value in annotations.items() if name.startswith(prefix)
    }
