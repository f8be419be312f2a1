"""The protocols of the work of a restore beyond creating objects: hooks, pod volumes, snapshots, moved data.

An absent collaborator is never skipped silently: what it would have done is an error or a warning in the
results. (docs/spec: RST 12, 19, 21)
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pinnace.api.objects import JSONObject
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.archive.eventlog import EventLog
from pinnace.csi.movement.objects import MovedVolume
from pinnace.hooks.restore_selection import PodExecHook
from pinnace.notices.notice import Notice


class VolumeRestorer(Protocol):
    """Makes volumes from native snapshots. (docs/spec: RST 12)"""

    async def restore_volume(self, volume: JSONObject, snapshot: VolumeSnapshot) -> JSONObject:
        """Create a volume from the snapshot and return the PersistentVolume that points at it.

        Its name may differ. An exception fails the item.

        Raises:
            SnapshotError: the provider failed; the text is the provider's.
        """
        ...


class PodVolumeRestorer(Protocol):
    """Fills the volumes of a pod that was just created. (docs/spec: RST 19)"""

    def restore_pod_volumes(
        self, pod: JSONObject, original_namespace: str, snapshots: Mapping[str, SavedSnapshot]
    ) -> Coroutine[Any, Any, Sequence[str]]:
        """Restore the volumes and wait until they are filled. An async function.

        Args:
            pod: as the API server returned it.
            original_namespace: of the pod in the backup.
            snapshots: volume name to its snapshot.

        Returns:
            Error messages for the Velero part of the results.
        """
        ...


class MovedDataRestorer(Protocol):
    """Fills volumes with data that was moved into the location. (docs/spec: BEY 6.7)"""

    @property
    def name(self) -> str:
        """The action's name in the records of operations."""
        ...

    async def start(self, restore: Restore, claim: JSONObject, moved: MovedVolume, location: str) -> str:
        """Begin to fill the volume of a claim that was just created, or the one that a claim has.

        Returns the id of the operation.

        Raises:
            KubeError: it was not begun, or that is not known.
            MovementError: the volume of the claim may not be used.
        """
        ...


class DataForClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a backup for a claim that exists, whether or not it can be written now.

    Attributes:
        namespace, claim: of the claim in the cluster.
        uploader: the program that saved the data.
        snapshot: its id in the repository.
        saved_namespace: the namespace of the claim in the backup; the repository has its name.
    """

    namespace: str
    claim: str
    uploader: str
    snapshot: str
    saved_namespace: str


class ExecHooks(Protocol):
    """Runs restore hooks inside the containers of pods that were just created. (docs/spec: RST 21)

    One for each restore: an error in one pod ends the hooks of all.
    """

    def run(
        self, pod: JSONObject, hooks: Sequence[PodExecHook], log: EventLog
    ) -> Coroutine[Any, Any, Sequence[Notice]]:
        """Wait for the containers and run their hooks. An async function.

        Args:
            pod: as the API server returned it.
            hooks: at least one.

        Returns:
            Error messages for the Velero part of the results.
        """
        ...

    def give_up(self, pod: JSONObject, reason: str) -> None:
        """Wait no longer for the containers of a pod whose hooks are being run: it will never start them."""
        ...


class RestoreCollaborators(msgspec.Struct, frozen=True, kw_only=True):
    """The collaborators of this run; None where an installation lacks one.

    Attributes:
        existing_data: told what a restore in place is to write over; only a dry run wants to know it.
    """

    volume_restorer: VolumeRestorer | None = None
    pod_volume_restorer: PodVolumeRestorer | None = None
    exec_hooks: ExecHooks | None = None
    moved_data: MovedDataRestorer | None = None
    existing_data: Callable[[DataForClaim], None] = lambda data: None
