"""Notes of the work that a restore would start besides creating objects: volumes, pod volumes and hooks."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from pinnace.api.objects import JSONObject, text
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.restore import ExistingVolumeDataPolicy, Restore
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.archive.eventlog import EventLog
from pinnace.csi.movement.objects import BLOCK, MovedVolume
from pinnace.hooks.restore_selection import PodExecHook
from pinnace.notices.notice import Notice
from pinnace.restore.collaborators import DataForClaim
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
        restore: says what is done with the data of claims that exist.
        is_new: whether the restore would create a claim, given its namespace and name.
        existing: the data for claims that exist, by the namespace and name of the claim.
    """

    name: ClassVar[str] = ""

    restore: Restore = msgspec.field(default_factory=Restore)
    is_new: Callable[[str, str], bool] = lambda _namespace, _name: True
    volumes: list[VolumeNote] = msgspec.field(default_factory=list)
    hooks: list[HookNote] = msgspec.field(default_factory=list)
    existing: dict[tuple[str, str], DataForClaim] = msgspec.field(default_factory=dict)

    def note_existing(self, data: DataForClaim) -> None:
        """Note the data for a claim that exists."""
        self.existing[data.namespace, data.claim] = data

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
            claim = claims_of(pod).get(volume)
            if claim is not None and self.restore.spec.is_in_place and not self.is_new(*claim):
                source += self._over_existing(snapshot.size_bytes)
            self.volumes.append(VolumeNote(volume=f"{title}/{volume}", source=source))
        return _no_errors()

    async def start(self, restore: Restore, claim: JSONObject, moved: MovedVolume, location: str) -> str:
        """Note the volume of a claim whose data was moved into the location."""
        title = _title(claim)
        source = f"snapshot {moved.snapshot}, moved into {location or 'the location'}"
        if text(claim, "spec", "volumeName"):
            is_device = text(claim, "spec", "volumeMode") == BLOCK
            source += self._over_existing(moved.size_bytes, is_device=is_device)
        self.volumes.append(VolumeNote(volume=title, source=source))
        return title

    def _over_existing(self, size_bytes: int, *, is_device: bool = False) -> str:
        """What is done to the data of a claim that exists."""
        size = f", {size_bytes} bytes" if size_bytes else ""
        if is_device:
            return f"{size}, over the whole device that the claim has"
        policy, config = self.restore.spec.existing_volume_data_policy, self.restore.spec.uploader_config
        written = "every file of the backup is written"
        if policy == ExistingVolumeDataPolicy.INCREMENTAL:
            written += " but those that are the same by size, time and permissions"
        extra = "removed" if config is not None and config.delete_extra_files else "kept"
        return (
            f"{size}, {policy} over what the claim has: {written}; files that the backup does not have are"
            f" {extra} (--compare-files names them)"
        )

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
