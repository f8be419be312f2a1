"""A volume snapshotter that records its calls."""

from typing import Any

from pinnace.api.velero.snapshots import VolumeSnapshot, VolumeSnapshotSpec, VolumeSnapshotStatus
from pinnace.volumes.native.snapshotters import SnapshotError


def snapshot(name: str = "pv-1", snapshot_id: str = "snap-1", **spec: Any) -> VolumeSnapshot:
    return VolumeSnapshot(
        spec=VolumeSnapshotSpec(persistent_volume_name=name, location="default", **spec),
        status=VolumeSnapshotStatus(provider_snapshot_id=snapshot_id, phase="Completed"),
    )


class Snapshotter:
    """Makes volumes with new ids; can rename, can fail."""

    def __init__(self, *, rename_to: str = "", fail: str = "") -> None:
        self.made: list[tuple[str, VolumeSnapshot]] = []
        self._rename_to = rename_to
        self._fail = fail

    async def restore_volume(self, volume: dict[str, Any], snapshot: VolumeSnapshot) -> dict[str, Any]:
        if self._fail:
            raise SnapshotError(self._fail)
        self.made.append((volume["metadata"]["name"], snapshot))
        made = {**volume, "spec": {**volume["spec"], "disk": "new-volume"}}
        if self._rename_to:
            made["metadata"] = {**volume["metadata"], "name": self._rename_to}
        return made
