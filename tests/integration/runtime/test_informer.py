"""The informer against a real API server: after any changes and cuts the cache equals the world."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import CutBeforeRequest, CutBody, Stall, watch_expired
from hack.cluster.proxy import FaultProxy
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS
from pinnace.runtime import informer as informer_module
from pinnace.runtime.backoff import RetryDelay
from pinnace.runtime.informer import Informer, InformerTimes, Selectors
from pinnace.runtime.keys import Key
from tests.support.cluster.connect import Connect
from tests.support.waiting import PATIENCE_SECONDS, eventually

OBJECTS = 300
SELECTOR = "test=informer"


class Mirror:
    """A second cache, kept by the handlers alone: it shows whether they got every change."""

    def __init__(self, informer: Informer) -> None:
        self.objects: dict[Key, dict[str, Any]] = {}
        informer.add_handlers(on_add=self.added, on_update=self.updated, on_delete=self.deleted)

    def added(self, obj: dict[str, Any]) -> None:
        assert Key.of(obj) not in self.objects
        self.objects[Key.of(obj)] = obj

    def updated(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        assert self.objects[Key.of(old)] == old
        assert old["metadata"]["uid"] == new["metadata"]["uid"]
        self.objects[Key.of(new)] = new

    def deleted(self, obj: dict[str, Any]) -> None:
        del self.objects[Key.of(obj)]


@asynccontextmanager
async def running(informer: Informer) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await informer.wait_for_sync()
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


def config_map(name: str, value: int) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"test": "informer"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": str(value)}}


async def create(client: KubeClient, namespace: str, numbers: range) -> None:
    await in_batches(
        [client.create(CONFIGMAPS, config_map(f"cm-{number}", number), namespace) for number in numbers]
    )


def lists_seen(proxy: FaultProxy) -> int:
    heads = [exchange.head for exchange in proxy.exchanges]
    return sum(head.path.endswith("/configmaps") and "watch" not in head.query for head in heads)


async def in_batches(calls: list[Coroutine[object, object, object]], size: int = 16) -> None:
    for start in range(0, len(calls), size):
        await asyncio.gather(*calls[start : start + size])


async def is_true_copy(client: KubeClient, namespace: str, informer: Informer, mirror: Mirror) -> bool:
    listed = await client.list_all(CONFIGMAPS, namespace, label_selector=SELECTOR)
    world = {Key.of(obj): obj for obj in listed}
    cached = {Key.of(obj): obj for obj in informer.objects()}
    return cached == world == mirror.objects


async def churn(client: KubeClient, namespace: str, *, seed: int) -> None:
    """Update a third of the objects, delete a third, and create every second of those again."""
    listed = await client.list_all(CONFIGMAPS, namespace, label_selector=SELECTOR)
    chosen = [obj["metadata"]["name"] for obj in listed]
    random.Random(seed).shuffle(chosen)
    third = len(chosen) // 3
    change = {"data": {"value": f"changed-{seed}"}}
    await in_batches([client.patch(CONFIGMAPS, name, change, namespace) for name in chosen[:third]])
    gone = chosen[third : 2 * third]
    await in_batches([client.delete(CONFIGMAPS, name, namespace) for name in gone])
    await in_batches([client.create(CONFIGMAPS, config_map(name, -seed), namespace) for name in gone[::2]])


async def test_cache_follows_the_world(client: KubeClient, namespace: str) -> None:
    informer = Informer(client, CONFIGMAPS, namespace, selectors=Selectors(labels=SELECTOR))
    mirror = Mirror(informer)

    async def true_copy() -> bool:
        return await is_true_copy(client, namespace, informer, mirror)

    await create(client, namespace, range(OBJECTS // 2))
    async with running(informer):
        assert await true_copy()
        await create(client, namespace, range(OBJECTS // 2, OBJECTS))
        await churn(client, namespace, seed=1)
        await eventually(true_copy)
        # One that no longer matches the selector is gone for us.
        survivor = informer.keys()[0]
        await client.patch(CONFIGMAPS, survivor.name, {"metadata": {"labels": {"test": None}}}, namespace)
        await eventually(true_copy)
        assert informer.get(survivor) is None


async def test_cache_catches_up_after_cuts_and_a_forgotten_version(
    client: KubeClient,
    control_plane: ControlPlane,
    connect: Connect,
    namespace: str,
    fault_proxy: Callable[[ControlPlane], Awaitable[FaultProxy]],
) -> None:
    proxy = await fault_proxy(control_plane)
    watches = {"watch": "1|true"}
    early_cuts = proxy.rules.add(CutBody(after_bytes=15_000), query=watches, times=2)
    proxy.rules.add(CutBody(after_bytes=80_000), query=watches, times=1)
    away = proxy.rules.add(CutBeforeRequest(), query=watches)
    forgotten = proxy.rules.add(watch_expired(), query=watches, times=1)
    informer = Informer(
        await connect(control_plane, via=proxy),
        CONFIGMAPS,
        namespace,
        selectors=Selectors(labels=SELECTOR),
        times=InformerTimes(retry_delay=RetryDelay(base_seconds=0.01, cap_seconds=0.1)),
    )
    mirror = Mirror(informer)

    async def true_copy() -> bool:
        return await is_true_copy(client, namespace, informer, mirror)

    await create(client, namespace, range(OBJECTS // 2))
    async with running(informer):
        # 1. cut in the midst of events: the watch goes on where it was, without a list
        await create(client, namespace, range(OBJECTS // 2, OBJECTS))
        await eventually(true_copy)
        assert early_cuts.hits == 2
        assert lists_seen(proxy) == 1
        # 2. unreachable while much happens, and then the version is forgotten: a list tells the difference
        await churn(client, namespace, seed=2)
        await away.struck()
        await churn(client, namespace, seed=3)
        assert not await true_copy()
        proxy.rules.remove(away)
        await eventually(true_copy)
        assert forgotten.hits == 1
        assert lists_seen(proxy) == 2


async def test_a_watch_that_stalls_for_ever_is_left_within_a_minute(
    control_plane: ControlPlane,
    namespace: str,
    client: KubeClient,
    fault_proxy: Callable[[ControlPlane], Awaitable[FaultProxy]],
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the usual times it takes at most 50 s; here watches are asked to last 1 s instead of 30."""
    monkeypatch.setattr(informer_module, "WATCH_SECONDS", 1)
    defaults = KubeClient.watch.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "grace_seconds", 1.0)
    proxy = await fault_proxy(control_plane)
    stalled = proxy.rules.add(Stall(after_bytes=0), query={"watch": "1"}, times=1)
    informer = Informer(await connect(control_plane, via=proxy), CONFIGMAPS, namespace)
    async with running(informer):
        await stalled.struck()
        await client.create(CONFIGMAPS, config_map("late", 1), namespace)
        await eventually(lambda: _knows(informer, Key(namespace, "late")))
    assert stalled.hits == 1


async def _knows(informer: Informer, key: Key) -> bool:
    return informer.get(key) is not None
