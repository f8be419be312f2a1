"""Puts the application into a cluster, waits for its controllers, and removes it again.

Used by the demonstration and by tests that need a realistic application.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from examples.application import PROMOTION_STATUS, Object, namespaces
from examples.compare import Key, World
from examples.world import fingerprint, take_snapshot, unsettled
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS

POLL_SECONDS = 0.25
SETTLE_SECONDS = 60.0
GONE_SECONDS = 60.0


class StageError(Exception):
    """The cluster did not reach a state in time; the text says what is missing."""


class Stage:
    """The application in one cluster.

    Args:
        objects: in creation order.
    """

    def __init__(self, client: KubeClient, objects: Sequence[Object]) -> None:
        self.client = client
        self.objects = objects
        self.namespaces = namespaces(objects)
        self.keys = [Key.of(item) for item in objects]

    async def install(self) -> None:
        """Create the objects in order, each kind once the server knows it and admission accepts it."""
        discovery = await Discovery.load(self.client)
        for item in self.objects:
            resource = discovery.for_kind(item["apiVersion"], item["kind"])
            if resource is None:
                await self.until(lambda: self._application_is(_definitions_ready), "the custom resources")
                discovery = await Discovery.load(self.client)
                resource = discovery.for_kind(item["apiVersion"], item["kind"])
            if resource is None:
                raise StageError(f"the server does not know {item['apiVersion']} {item['kind']}")
            if item["kind"] == "Pod":
                await self.until(lambda: self._application_is(_namespaces_ready), "the service accounts")
            await self.client.create(resource, item, item["metadata"].get("namespace"))
            if item["kind"] == "Promotion" and item["metadata"]["name"] == "summer":
                await self.client.patch(
                    resource, "summer", {"status": PROMOTION_STATUS}, "shop", subresource="status"
                )

    async def settle(self) -> World:
        """Wait until the controllers have nothing more to do, and return the world."""
        last: dict[Key, Any] = {}
        world: World = {}

        async def at_rest() -> str:
            nonlocal last, world
            world = await self.snapshot()
            previous, last = last, fingerprint(world)
            return "; ".join(unsettled(world)) or ("" if previous == last else "something still changes")

        await self.until(at_rest, "the controllers", timeout_seconds=SETTLE_SECONDS)
        return world

    async def destroy(self) -> World:
        """Delete the application, wait until it is gone, and return the objects that are left. Idempotent."""
        discovery = await Discovery.load(self.client)
        # Definitions go last: their custom resources go with them.
        for item in sorted(self.objects, key=lambda item: item["kind"] == "CustomResourceDefinition"):
            resource = discovery.for_kind(item["apiVersion"], item["kind"])
            if resource is not None and not resource.namespaced:
                with contextlib.suppress(NotFound):
                    await self.client.delete(resource, item["metadata"]["name"])

        # The namespace controller begins five seconds later, and looks again after five more at each thing
        # that it has to wait for. These are gone when it begins.
        for resource in (PODS, PERSISTENT_VOLUME_CLAIMS):
            for namespace in self.namespaces:
                await self.client.request("DELETE", resource.path(namespace))

        async def left() -> str:
            return ", ".join(map(str, await self.snapshot()))

        await self.until(left, "the deletion", timeout_seconds=GONE_SECONDS)
        return await self.snapshot()

    async def snapshot(self) -> World:
        """Read the world as it is now."""
        return await take_snapshot(self.client, self.namespaces, self.keys)

    async def until(
        self, waiting_for: Callable[[], Awaitable[str]], what: str, *, timeout_seconds: float = SETTLE_SECONDS
    ) -> None:
        """Poll until there is nothing to wait for.

        Args:
            waiting_for: returns what is still missing, or an empty text.
        """
        missing = ""
        try:
            async with asyncio.timeout(timeout_seconds):
                while missing := await waiting_for():  # noqa: ASYNC110 - the server announces no rest
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError as error:
            raise StageError(f"waited {timeout_seconds:.0f} s for {what}: {missing}") from error

    async def _application_is(self, judge: Callable[[World], str]) -> str:
        return judge(await self.snapshot())


def _definitions_ready(world: World) -> str:
    return "; ".join(line for line in unsettled(world) if line.startswith("CustomResourceDefinition"))


def _namespaces_ready(world: World) -> str:
    return "; ".join(line for line in unsettled(world) if line.startswith("Namespace/"))
