"""Notes of the work that a restore would start besides creating objects: volumes, pod volumes and hooks."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from pinnace.api.objects import JSONObject, text
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.archive.eventlog import EventLog
from pinnace.csi.movement.objects import MovedVolume
from pinnace.hooks.restore_selection import PodExecHook
from pinnace.notices.notice import Notice
from pinnace.volumes.selection import claims_of


class VolumeNote(msgspec.Struct, frozen=True, kw_only=True):
    """A volume that would get its data.

    Attributes:
        volume: the name of the PersistentVolume, `namespace/claim` if its data was moved into the location,
            or `namespace/pod/volume` of a pod's volume.
        source: what it comes from, such as `snapshot snap-0123`.
    """

    volume: str
    source: str


class HookNote(msgspec.Struct, frozen=True, kw_only=True):
    """A hook that would run in a container of a restored pod."""

    pod: str
    container: str
    command: tuple[str, ...]


class RestoreNotes(msgspec.Struct):
    """The work of a restore besides creating objects, noted in place of being done.

    It stands in for the collaborators that restore volumes and run hooks.

    Attributes:
        data_policy: full or incremental if data is restored into claims that exist.
    """

    name: ClassVar[str] = ""

    data_policy: str = ""
    volumes: list[VolumeNote] = msgspec.field(default_factory=list)
    hooks: list[HookNote] = msgspec.field(default_factory=list)

    async def restore_volume(self, volume: JSONObject, snapshot: VolumeSnapshot) -> JSONObject:
        """Return the volume as it is in the backup: which disk is made is known only when it is made."""
        source = f"snapshot {snapshot.status.provider_snapshot_id} of {snapshot.spec.location}"
        self.volumes.append(VolumeNote(volume=text(volume, "metadata", "name"), source=source))
        return volume

    def restore_pod_volumes(
        self, pod: JSONObject, original_namespace: str, snapshots: Mapping[str, SavedSnapshot]
    ) -> Coroutine[Any, Any, Sequence[str]]:
        """Note the volumes of a pod."""
        title = _title(pod)
        for volume, snapshot in sorted(snapshots.items()):
            source = f"{snapshot.uploader} snapshot {snapshot.id}"
            if self.data_policy and volume in claims_of(pod):
                size = f", {snapshot.size_bytes} bytes" if snapshot.size_bytes else ""
                source += (
                    f"{size}, {self.data_policy} over what its claim holds; which files differ is not known"
                    " before the pod waits for its data"
                )
            self.volumes.append(VolumeNote(volume=f"{title}/{volume}", source=source))
        return _no_errors()

    async def start(self, restore: Restore, claim: JSONObject, moved: MovedVolume, location: str) -> str:
        """Note the volume of a claim whose data was moved into the location."""
        title = _title(claim)
        source = f"snapshot {moved.snapshot}, moved into {location or 'the location'}"
        self.volumes.append(VolumeNote(volume=title, source=source))
        return title

    def run(
        self, pod: JSONObject, hooks: Sequence[PodExecHook], log: EventLog
    ) -> Coroutine[Any, Any, Sequence[Notice]]:
        """Note the hooks of a pod."""
        title = _title(pod)
        self.hooks += [HookNote(pod=title, container=hook.container, command=hook.command) for hook in hooks]
        return _no_errors()

    def give_up(self, pod: JSONObject, reason: str) -> None:
        """Do nothing: no hook is waited for."""


def _title(obj: JSONObject) -> str:
    return f"{text(obj, 'metadata', 'namespace')}/{text(obj, 'metadata', 'name')}"


async def _no_errors() -> Sequence[Notice]:
    return []
