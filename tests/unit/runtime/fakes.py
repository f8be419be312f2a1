"""Stand-ins for time and for the few calls of a cluster that the runtime makes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar, cast

import orjson

from pinnace.aio.fence import Fence
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound, status_error
from pinnace.kube.lists.pages import Page, parse_page
from pinnace.kube.resources import APIResource
from pinnace.kube.watching import WatchEvent
from pinnace.runtime.keys import Key
from pinnace.runtime.leader import LeaderElector, LeaseTimes
from tests.support.clock import FakeClock
from tests.support.tasks import settled

T = TypeVar("T")

LEASE = Key("velero", "server")
NOW = datetime(2021, 8, 11, 21, 43, 26, 5, tzinfo=UTC)


def config_map(
    name: str,
    version: int,
    *,
    uid: str = "",
    created: str = "2021-08-11T00:00:00Z",
    labels: dict[str, str] | None = None,
) -> JSONObject:
    """A ConfigMap as a server would show it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": "demo",
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": created,
            "labels": labels or {},
        },
    }


def page(version: int, *objects: JSONObject, restarted: bool = False) -> Page:
    """A page of ConfigMaps, made from the JSON that a server would send."""
    document = {
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(version)},
        "items": list(objects),
    }
    return parse_page(orjson.dumps(document), restarted=restarted)


def event(kind: str, obj: JSONObject) -> WatchEvent:
    """A watch event."""
    return WatchEvent(kind, obj)


def bookmark(version: int) -> WatchEvent:
    """A bookmark: nothing but a place to go on from."""
    return WatchEvent("BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": str(version)}})


@dataclass
class ScriptedClient:
    """Answers lists and watches in the order of two scripts; a script that is at its end never answers.

    An entry is a sequence of pages or events, or an error; an error may also end a sequence.
    """

    lists: list[Sequence[Page | KubeError]] = field(default_factory=list)
    watches: list[Sequence[WatchEvent | KubeError]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    open_watches: int = 0

    def as_client(self) -> KubeClient:
        return cast(KubeClient, self)

    async def list_pages(
        self, resource: APIResource, namespace: str | None = None, **options: object
    ) -> AsyncGenerator[Page, None]:
        self.calls.append("list")
        for answer in await _next_of(self.lists):
            if isinstance(answer, KubeError):
                raise answer
            yield answer

    async def watch(
        self, resource: APIResource, namespace: str | None = None, *, resource_version: str, **options: object
    ) -> AsyncGenerator[WatchEvent, None]:
        self.calls.append(f"watch {resource_version}")
        self.open_watches += 1
        try:
            for answer in await _next_of(self.watches):
                if isinstance(answer, KubeError):
                    raise answer
                yield answer
        finally:
            self.open_watches -= 1


async def _next_of(script: list[Sequence[T]]) -> Sequence[T]:
    if not script:
        await asyncio.Event().wait()
    return script.pop(0)


def gone() -> KubeError:
    """410, as a server answers to a resourceVersion that it no longer knows."""
    return status_error(410, {"reason": "Expired", "message": "too old resource version"})


class FakeLeases:
    """The Leases of a cluster, with the conflict check of a real one; several clients may share them."""

    def __init__(self) -> None:
        self.lease: JSONObject | None = None
        self.writes = 0
        self._version = 0

    def client(self) -> "FakeLeaseClient":
        return FakeLeaseClient(self)

    def store(self, body: JSONObject) -> JSONObject:
        self._version += 1
        self.writes += 1
        metadata = {**body["metadata"], "resourceVersion": str(self._version)}
        self.lease = {**body, "metadata": metadata}
        return self.lease

    @property
    def holder(self) -> str:
        return "" if self.lease is None else str(self.lease["spec"]["holderIdentity"])


class FakeLeaseClient:
    """One candidate's view of the Leases; `down` cuts it off, `looks` counts its reads."""

    def __init__(self, leases: FakeLeases) -> None:
        self._leases = leases
        self.down: KubeError | None = None
        self.before_replace: Callable[[], None] = lambda: None
        self.looks = 0
        self.date = ""
        self._hears: Fence | None = None

    def as_client(self) -> KubeClient:
        return cast(KubeClient, self)

    def fenced(self, fence: Fence) -> "FakeLeaseClient":
        self._hears = fence
        return self

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        self.looks += 1
        self._fail_if_down()
        if self._hears is not None:
            self._hears.heard(self.date)
        if self._leases.lease is None:
            raise NotFound(404, reason="NotFound", message=f"leases {name} not found")
        return self._leases.lease

    async def create(
        self, resource: APIResource, body: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        self._fail_if_down()
        if self._leases.lease is not None:
            raise status_error(409, {"reason": "AlreadyExists", "message": "exists"})
        return self._leases.store(body)

    async def replace(
        self, resource: APIResource, name: str, body: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        self.before_replace()
        self._fail_if_down()
        lease = self._leases.lease
        if lease is None or lease["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise status_error(409, {"reason": "Conflict", "message": "changed meanwhile"})
        return self._leases.store(body)

    def _fail_if_down(self) -> None:
        if self.down is not None:
            raise self.down


def elector(client: FakeLeaseClient, identity: str, clock: FakeClock) -> LeaderElector:
    """A candidate whose lease lasts 15 s."""
    return LeaderElector(
        client.as_client(),
        LEASE,
        identity,
        times=LeaseTimes(duration=15, renew_deadline=10, jitter=lambda: 0.0),
        clock=clock,
    )


@asynccontextmanager
async def campaign(candidate: LeaderElector) -> AsyncIterator[asyncio.Task[None]]:
    """The candidate runs, until the end of the context."""
    task = asyncio.create_task(candidate.run())
    try:
        await settled()
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))
