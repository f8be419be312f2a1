"""The protocols of the engine's collaborators: the cluster, and those that an installation may lack."""

from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pinnace.aio.clock import Clock
from pinnace.api.objects import JSONObject
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.archive.eventlog import EventLog
from pinnace.csi.movement.objects import MovedVolume
from pinnace.hooks.restore_selection import PodExecHook
from pinnace.kube.resources import APIResource
from pinnace.kube.watching import WatchEvent
from pinnace.notices.notice import Notice


class ClusterClient(Protocol):
    """The requests that a restore makes. Errors are `pinnace.kube.errors.KubeError`."""

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        """Read one object."""
        ...

    async def create_bytes(
        self, resource: APIResource, body: bytes, namespace: str | None = None, *, field_manager: str = ""
    ) -> bytes:
        """Create from JSON; returns the answer undecoded."""
        ...

    async def patch(
        self,
        resource: APIResource,
        name: str,
        patch: JSONObject,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> JSONObject:
        """Apply a JSON merge patch."""
        ...

    async def delete(
        self,
        resource: APIResource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        propagation: str | None = None,
    ) -> JSONObject:
        """Delete the object with this uid."""
        ...

    async def simulate_patch(
        self, resource: APIResource, name: str, patch: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        """The object as it would be after a JSON merge patch; nothing is stored."""
        ...

    async def list_version(self, resource: APIResource) -> str:
        """The resourceVersion for a watch of every later change."""
        ...

    def watch(self, resource: APIResource, *, resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        """Yield the changes after a resourceVersion, until the server ends the watch. Close the iterator."""
        ...


class TargetCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, the log and the limits that all parts of one restore use.

    Attributes:
        terminating_timeout_seconds: how long to wait for namespaces and volumes that are being deleted.
    """

    client: ClusterClient
    log: EventLog
    timer: Clock
    terminating_timeout_seconds: float


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
    """Fills new volumes with data that was moved into the location. (docs/spec: BEY 6.7)"""

    @property
    def name(self) -> str:
        """The action's name in the records of operations."""
        ...

    async def start(self, restore: Restore, claim: JSONObject, moved: MovedVolume, location: str) -> str:
        """Begin to fill the volume of a claim that was just created. Returns the id of the operation.

        Raises:
            KubeError: it was not begun, or that is not known.
        """
        ...


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
