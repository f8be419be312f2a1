"""Keeps a cache of one kind in step with the API server, and tells handlers what changed.

    LISTING ──> WATCHING ──server ends the watch──> WATCHING (goes on where it was)
       │           │ error ──> BACKING_OFF ──> WATCHING (goes on where it was)
       │           └ 410 Gone, 5xx, or it stalled ──> BACKING_OFF ──> LISTING
       └ error ──> BACKING_OFF ──> LISTING

A list replaces the cache: what was missed during a gap, deletions included, comes out as changes. Bookmarks
move the place to go on from, so that a quiet kind does not need a new list after each watch. A watch that
stalled is followed by a list, so that changes are seen even where a proxy holds back every watch.
(docs/spec: CTL 2.1; docs/adr/011)
"""

import asyncio
import enum
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.sleeper import Sleeper
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import DeadlineExceeded, Gone, KubeError, ServerFault
from pinnace.kube.resources import APIResource
from pinnace.kube.watching import WATCH_SECONDS
from pinnace.runtime.backoff import RetryDelay
from pinnace.runtime.cache import Added, Change, Deleted, IndexFunction, ObjectCache, Updated
from pinnace.runtime.errors import CacheSyncTimeout
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

_WATCH_JITTER = 1 / 3
"""Watches last up to this much longer than asked for, so that they do not end together."""

SHORT_STEP_SECONDS = 1.0
"""A watch that ends sooner and brought nothing is a failure: repeating it at once would be a busy loop."""


class InformerState(enum.StrEnum):
    """The state of an informer."""

    STOPPED = "Stopped"
    LISTING = "Listing"
    WATCHING = "Watching"
    BACKING_OFF = "BackingOff"


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that are told of changes. Called in order on the event loop; they must be quick.

    What looking into an object raises is logged and goes no further: one object of an odd shape must not end
    the cache for all others.
    """

    on_add: Callable[[JSONObject], None] | None = None
    on_update: Callable[[JSONObject, JSONObject], None] | None = None
    on_delete: Callable[[JSONObject], None] | None = None

    def tell(self, change: Change) -> None:
        """Pass a change to the function that wants it."""
        try:
            match change:
                case Added(obj) if self.on_add is not None:
                    self.on_add(obj)
                case Updated(old, new) if self.on_update is not None:
                    self.on_update(old, new)
                case Deleted(obj) if self.on_delete is not None:
                    self.on_delete(obj)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # What looking into an object raises that is not of the shape its kind should have.
            key = Key.of(change.new if isinstance(change, Updated) else change.obj)
            log.error("Error telling of a change of an object", key=str(key), error=error)


class Selectors(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a resource are watched. One that stops matching counts as deleted."""

    labels: str = ""
    fields: str = ""


class InformerTimes(msgspec.Struct, frozen=True, kw_only=True):
    """When an informer retries.

    Attributes:
        clock: time and clock of the waits; the event loop's if None.
        retry_delay: the waits after failures; the usual ones if None.
        jitter: returns a number in [0, 1); spreads waits and the lengths of watches.
    """

    clock: Clock = SYSTEM_CLOCK
    retry_delay: RetryDelay | None = None
    jitter: Callable[[], float] = random.random


class Informer:
    """A cache of the objects of one resource, filled by `run`.

    Readers share the objects and must not change them. All calls are made on one event loop.

    Args:
        client: the cluster.
        resource: what to watch.
        namespace: the only one to watch; None watches all namespaces.
        indexes: functions by the name of the index.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: APIResource,
        namespace: str | None = None,
        *,
        selectors: Selectors | None = None,
        indexes: Mapping[str, IndexFunction] | None = None,
        times: InformerTimes | None = None,
    ) -> None:
        times = times or InformerTimes()
        self.resource = resource
        self.namespace = namespace
        self.state = InformerState.STOPPED
        self.resource_version = ""
        self._client = client
        self._selectors = selectors or Selectors()
        self._cache = ObjectCache(indexes)
        self._handlers: list[Handlers] = []
        self._clock = times.clock
        self._jitter = times.jitter
        self._retry_delay = times.retry_delay or RetryDelay(jitter=times.jitter)
        self._synced = asyncio.Event()
        self._events_taken = 0

    @property
    def name(self) -> str:
        """The name of the watched resource, for logs."""
        return self.resource.group_resource

    @property
    def synced(self) -> bool:
        """Whether a complete list was taken and its handlers called, at least once."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """Wait until `synced`; the deadline is the caller's."""
        await self._synced.wait()

    def add_handlers(
        self,
        *,
        on_add: Callable[[JSONObject], None] | None = None,
        on_update: Callable[[JSONObject, JSONObject], None] | None = None,
        on_delete: Callable[[JSONObject], None] | None = None,
    ) -> None:
        """Register functions for changes; `on_add` is called at once for each object in the cache."""
        handlers = Handlers(on_add=on_add, on_update=on_update, on_delete=on_delete)
        self._handlers.append(handlers)
        for obj in self._cache.objects():
            handlers.tell(Added(obj))

    def get(self, key: Key) -> JSONObject | None:
        """The object of that key as last seen, or None."""
        return self._cache.get(key)

    def objects(self) -> list[JSONObject]:
        """All objects as last seen."""
        return self._cache.objects()

    def keys(self) -> list[Key]:
        """The keys of all objects."""
        return self._cache.keys()

    def by_index(self, index: str, value: str) -> list[JSONObject]:
        """The objects under `value` of an index. Raises KeyError for an index that was not asked for."""
        return self._cache.by_index(index, value)

    async def run(self) -> None:
        """Follow the cluster until cancelled. Errors of the API are logged and tried again, for ever.

        Raises:
            RuntimeError: it runs already.
        """
        if self.state is not InformerState.STOPPED:
            raise RuntimeError(f"informer of {self.name} runs already")
        try:
            await self._follow()
        finally:
            self.state = InformerState.STOPPED

    async def _follow(self) -> None:
        step = InformerState.LISTING
        sleeper = Sleeper(self._clock)
        while True:
            self.state = step
            started = self._clock.monotonic()
            events_before = self._events_taken
            error: KubeError | None = None
            following = InformerState.WATCHING
            try:
                await (self._list() if step is InformerState.LISTING else self._watch())
            except Gone as caught:  # what happened since is forgotten by the server: only a list can tell
                error, following = caught, InformerState.LISTING
            # The next watch may stall too, or fail at the same event for ever, as at one that is compacted.
            except (DeadlineExceeded, ServerFault) as caught:
                error, following = caught, InformerState.LISTING
            except KubeError as caught:
                error, following = caught, step
            lasted = self._clock.monotonic() - started
            progress = self._events_taken > events_before or lasted >= SHORT_STEP_SECONDS
            if progress:
                self._retry_delay.reset()
            if error is not None or (step is InformerState.WATCHING and not progress):
                self.state = InformerState.BACKING_OFF
                delay = self._retry_delay.next_delay()
                self._log_interruption(error, following, delay)
                await sleeper.sleep(delay)
            step = following

    def _log_interruption(self, error: KubeError | None, following: InformerState, delay: float) -> None:
        # A forgotten resourceVersion is normal, and so is a watch that the server ends early.
        level = logging.DEBUG if error is None or isinstance(error, Gone) else logging.WARNING
        log.log(
            level,
            "Watch of a resource was interrupted",
            resource=self.name,
            error=error or "ended by the server at once",
            next=following,
            delay_seconds=round(delay, 3),
        )

    async def _list(self) -> None:
        collected: dict[Key, JSONObject] = {}
        version = ""
        pages = self._client.list_pages(
            self.resource,
            self.namespace,
            label_selector=self._selectors.labels,
            field_selector=self._selectors.fields,
            consistent=True,
        )
        async with aclosing(pages):
            async for page in pages:
                if page.restarted:
                    collected.clear()
                version = page.resource_version
                for item in page.items:
                    obj = item.view()
                    collected[Key.of(obj)] = obj
        self._tell(self._cache.replace(collected.values()))
        self.resource_version = version
        self._synced.set()

    async def _watch(self) -> None:
        events = self._client.watch(
            self.resource,
            self.namespace,
            resource_version=self.resource_version,
            label_selector=self._selectors.labels,
            field_selector=self._selectors.fields,
            timeout_seconds=int(WATCH_SECONDS * (1.0 + _WATCH_JITTER * self._jitter())),
        )
        async with aclosing(events):
            async for event in events:
                self._take_event(event.type, event.object)

    def _take_event(self, kind: str, obj: JSONObject) -> None:
        if kind in ("ADDED", "MODIFIED"):
            self._tell(self._cache.put(obj))
        elif kind == "DELETED":
            self._tell(self._cache.discard(obj))
        self.resource_version = obj["metadata"]["resourceVersion"]
        self._events_taken += 1

    def _tell(self, changes: list[Change]) -> None:
        for change in changes:
            for handlers in self._handlers:
                handlers.tell(change)


async def wait_for_caches(informers: Iterable[Informer], timeout_seconds: float) -> None:
    """Wait until all informers are synced. The caller sees to it that they run.

    Raises:
        CacheSyncTimeout: names those that are not in time.
    """
    wanted = list(informers)
    try:
        async with asyncio.timeout(timeout_seconds):
            for informer in wanted:
                await informer.wait_for_sync()
    except TimeoutError as error:
        missing = [informer.name for informer in wanted if not informer.synced]
        raise CacheSyncTimeout(missing, timeout_seconds) from error
