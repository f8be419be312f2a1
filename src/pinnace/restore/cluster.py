"""The cluster of a restore: the requests that it makes, and what all of its parts know of the cluster."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.objects import JSONObject
from pinnace.archive.eventlog import EventLog
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import APIResource
from pinnace.kube.watching import WatchEvent
from pinnace.restore.journal import RestoreJournal
from pinnace.runs.activity import Activity


class ClusterClient(Protocol):
    """The requests that a restore makes. Errors are `pinnace.kube.errors.KubeError`."""

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        """Read one object."""
        ...

    async def list_all(self, resource: APIResource, namespace: str | None = None) -> list[JSONObject]:
        """The objects of a kind in a namespace."""
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
        activity: told which of them are waited for.
        journal: what was done before the restore was interrupted, and what is done now.
    """

    client: ClusterClient
    log: EventLog
    clock: Clock
    terminating_timeout_seconds: float
    activity: Activity = msgspec.field(default_factory=Activity)
    journal: RestoreJournal = msgspec.field(default_factory=RestoreJournal)


class ClusterAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that objects are restored into.

    Attributes:
        discovery: the resources that it serves at the start.
        load_discovery: reads the resources that it serves now.
        clock: for the engine's waits.
        is_simulated: whether nothing is written; then volumes are not waited for, as none is made.
    """

    client: ClusterClient
    discovery: Discovery
    load_discovery: Callable[[], Awaitable[Discovery]]
    clock: Clock = SYSTEM_CLOCK
    is_simulated: bool = False
