"""Follows the changes of restored pods with one watch for each namespace.

A watch covers only the pods of one restore, by their label. It starts with the first pod that is followed and
ends with the last, so it never outlives the tasks that need it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import PODS
from pinnace.runtime.informer import Informer, Selectors
from pinnace.runtime.keys import Key

Observe = Callable[[JSONObject | None], None]

_LINE_BYTES: Final = 1000
"""How much of a line is shown in an error."""


class PodReader(Protocol):
    """Reads and follows pods."""

    def following(self, pod: JSONObject, observe: Observe) -> AbstractAsyncContextManager[None]:
        """While entered, `observe` gets each new state of the pod, and None when it is gone."""
        ...

    async def look(self, pod: JSONObject) -> JSONObject | None:
        """The pod of this name as it is now; None if there is none. Raises KubeError."""
        ...


class PodListener(PodReader, Protocol):
    """Reads and follows pods, and what their containers write."""

    async def last_line(self, pod: JSONObject, container: str) -> str:
        """The last line that a container wrote; empty if there is none. Raises KubeError."""
        ...


class _Watch(msgspec.Struct):
    """One watch, and its followers by pod."""

    informer: Informer
    task: asyncio.Task[None]
    observers: dict[Key, Observe] = msgspec.field(default_factory=dict)

    def notify(self, pod: JSONObject, state: JSONObject | None) -> None:
        observe = self.observers.get(Key.of(pod))
        if observe is not None:
            observe(state)


class PodWatches:
    """The watches of one restore: a `PodListener` that uses the API server."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._watches: dict[tuple[str, str], _Watch] = {}

    async def look(self, pod: JSONObject) -> JSONObject | None:
        """The pod of this name as it is now; None if there is none. Raises KubeError."""
        key = Key.of(pod)
        try:
            return await self._client.get(PODS, key.name, key.namespace)
        except NotFound:
            return None

    async def last_line(self, pod: JSONObject, container: str) -> str:
        """The last line that a container wrote; empty if there is none. Raises KubeError."""
        key = Key.of(pod)
        wanted = {"container": container, "tailLines": "1", "limitBytes": str(_LINE_BYTES)}
        said = await self._client.request(
            "GET", PODS.path(key.namespace, key.name, "log"), params=wanted, accept="*/*"
        )
        return said.decode("utf-8", "replace").strip()

    @asynccontextmanager
    async def following(self, pod: JSONObject, observe: Observe) -> AsyncIterator[None]:
        """While entered, `observe` gets each new state of the pod, and None when it is gone.

        A deletion at the very start of the watch can be missed, so call `look` now and then.
        """
        key, place = Key.of(pod), _place(pod)
        watch = self._watches.get(place)
        if watch is None:
            watch = self._watches[place] = self._begin(*place)
        watch.observers[key] = observe
        known = watch.informer.get(key)
        if known is not None:
            observe(known)
        try:
            yield
        finally:
            del watch.observers[key]
            if not watch.observers:
                del self._watches[place]
                await _end(watch.task)

    def _begin(self, namespace: str, selector: str) -> _Watch:
        informer = Informer(self._client, PODS, namespace, selectors=Selectors(labels=selector))
        # The last follower cancels and awaits it, so the task never outlives its followers.
        watch = _Watch(informer, asyncio.create_task(informer.run(), name=f"pods of {namespace}"))
        informer.add_handlers(
            on_add=lambda pod: watch.notify(pod, pod),
            on_update=lambda _, pod: watch.notify(pod, pod),
            on_delete=lambda pod: watch.notify(pod, None),
        )
        return watch


def _place(pod: JSONObject) -> tuple[str, str]:
    metadata = pod["metadata"]
    restore = (metadata.get("labels") or {}).get(labels.RESTORE_NAME)
    # If a webhook removed the label, the whole namespace is watched.
    return metadata.get("namespace", ""), f"{labels.RESTORE_NAME}={restore}" if restore else ""


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()  # raises the error of a failed watch
