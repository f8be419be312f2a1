"""The loop every controller runs: keys in, one reconcile at a time for each, retries, a periodic resync.

A controller's own code is a function from a key to a `Result`. It reads what the object is now, so running
it twice does no harm; what it raises is logged and tried again later. (docs/spec: CTL 2.1, CTL 2.2)
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from pinnace.aio.cancelling import is_cancelled, pass_cancellation
from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.sleeper import Sleeper
from pinnace.api.objects import JSONObject
from pinnace.runtime.errors import QueueShutDown
from pinnace.runtime.informer import Informer, wait_for_caches
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.runtime.queue import RateLimitedQueue

log = get_logger(__name__)

SYNC_TIMEOUT_SECONDS = 120.0
"""How long the caches may take at start; controller-runtime's default."""

USUAL_CONFLICTS = 10
"""Conflicts of a key in a row without a warning: five seconds of them, while others write to an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a reconcile without an error; the failures of the key are forgotten.

    Attributes:
        has_changed: whether the object was another one by the time it was written. The key is processed again
            at once, and with the back-off of failures if that does not end.
    """

    requeue_after_seconds: float | None = None
    has_changed: bool = False

    @classmethod
    def after(cls, seconds: float) -> "Result":
        """Look at the key again after that time, or earlier if something changes."""
        return cls(requeue_after_seconds=seconds)


DONE = Result()
"""Nothing to do until something changes."""
CHANGED = Result(has_changed=True)
"""A write met a conflict: what the object is now decides."""

Reconcile = Callable[[Key], Awaitable[Result]]
KeyMapping = Callable[[JSONObject], Iterable[Key]]
Predicate = Callable[[JSONObject], bool]


@dataclass(frozen=True, slots=True)
class Resync:
    """The periodic function of a controller.

    Attributes:
        function: called at once at start and again one period after it ended, never twice at a time.
        period_seconds: how long to wait after each call.

    Raises:
        ValueError: the period is not positive.
    """

    function: Callable[[], Awaitable[None]]
    period_seconds: float

    def __post_init__(self) -> None:
        if self.period_seconds <= 0:
            raise ValueError("a resync function needs a period longer than zero")


def own_key(obj: JSONObject) -> Iterable[Key]:
    """The default mapping: an object stands for its own key."""
    return (Key.of(obj),)


class Controller:
    """Workers at one queue, and an optional resync function.

    Args:
        name: of the controller, in logs. (docs/spec: CTL 1.4)
        reconcile: processes one key; raising means "try again later". None: only the resync function.
        workers: how many different keys are processed at once.
        resync: what to do periodically.
        clock: time and clock.
        queue: in place of a new one.

    Raises:
        ValueError: neither reconcile nor resync; no worker.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile | None = None,
        *,
        workers: int = 1,
        resync: Resync | None = None,
        clock: Clock = SYSTEM_CLOCK,
        queue: RateLimitedQueue[Key] | None = None,
    ) -> None:
        if reconcile is None and resync is None:
            raise ValueError(f"controller {name} needs a reconcile or a resync function")
        if workers < 1:
            raise ValueError(f"controller {name} needs at least one worker")
        self.name = name
        self._reconcile = reconcile
        self._workers = workers
        self._resync = resync
        self._caches: list[Informer] = []
        self._clock = clock
        # Not `or`: an empty queue is false, and keys that its owner adds later would never be processed.
        self._queue = queue if queue is not None else RateLimitedQueue[Key](clock=self._clock)
        self._sleeper = Sleeper(self._clock)
        self._conflicts: dict[Key, int] = {}

    def wait_for(self, *informers: Informer) -> None:
        """Let the first key and the first resync wait until these caches are synced."""
        self._caches.extend(informers)

    def watch(
        self,
        informer: Informer,
        *,
        keys: KeyMapping = own_key,
        predicate: Predicate | None = None,
        on_add: bool = True,
        on_update: bool = True,
        on_delete: bool = False,
    ) -> None:
        """Queue keys when objects of an informer change. Its cache must be synced before the first key.

        Args:
            keys: what an object stands for, for example the restores that wait for a pod.
            predicate: only objects that it accepts (an updated one by its new state).
            on_add, on_update, on_delete: which changes count.
        """

        def enqueue(obj: JSONObject) -> None:
            if predicate is None or predicate(obj):
                for key in keys(obj):
                    self.enqueue(key)

        def enqueue_updated(_old: JSONObject, new: JSONObject) -> None:
            enqueue(new)

        informer.add_handlers(
            on_add=enqueue if on_add else None,
            on_update=enqueue_updated if on_update else None,
            on_delete=enqueue if on_delete else None,
        )
        self.wait_for(informer)

    def enqueue(self, key: Key) -> None:
        """Add a key to the queue."""
        self._queue.add(key)

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._sleeper.stopped

    def stop(self) -> None:
        """Begin no further key and no further resync; what is in flight continues. Idempotent."""
        self._queue.shutdown()
        self._sleeper.stop()

    async def run(self, *, sync_timeout_seconds: float = SYNC_TIMEOUT_SECONDS) -> None:
        """Process keys until `stop` is called and what is in flight then has ended.

        Cancelling interrupts what is in flight.

        Args:
            sync_timeout_seconds: how long the caches may take to sync.

        Raises:
            CacheSyncTimeout: the caches are not synced in time.
        """
        with bound_fields(controller=self.name):
            log.info("Starting controller")
            await wait_for_caches(self._caches, sync_timeout_seconds)
            async with asyncio.TaskGroup() as group:
                if self._reconcile is not None:
                    for number in range(self._workers):
                        group.create_task(self._work(self._reconcile), name=f"{self.name}-worker-{number}")
                if self._resync is not None:
                    group.create_task(self._resync_loop(self._resync), name=f"{self.name}-resync")
            log.info("Controller stopped")

    async def _work(self, reconcile: Reconcile) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueShutDown:
                return
            try:
                with bound_fields(key=str(key)):
                    await self._process(reconcile, key)
            finally:
                self._queue.done(key)

    async def _process(self, reconcile: Reconcile, key: Key) -> None:
        result = DONE
        with _Attempt("Error in reconcile, will be tried again") as attempt:
            result = await reconcile(key)
        pass_cancellation()
        if attempt.failed:
            self._queue.add_rate_limited(key)
            return
        if result.has_changed:
            self._count_conflict(key)
            self._queue.add_rate_limited(key)
            return
        self._conflicts.pop(key, None)
        self._queue.forget(key)
        if result.requeue_after_seconds is not None:
            self._queue.add_after(key, result.requeue_after_seconds)

    def _count_conflict(self, key: Key) -> None:
        """Warn of an object whose every write is refused as a change of another one, as a proxy may do."""
        conflicts = self._conflicts[key] = self._conflicts.get(key, 0) + 1
        if conflicts > USUAL_CONFLICTS:
            log.warning(
                "The API server refuses each write with a conflict, will be tried again less and less often:"
                " another program changes the object all the time, or something between changes answers",
                conflicts=conflicts,
            )

    async def _resync_loop(self, resync: Resync) -> None:
        while not self._sleeper.stopped:
            with _Attempt("Error in resync, will be tried again"):
                await resync.function()
            pass_cancellation()
            await self._sleeper.sleep(resync.period_seconds)


class _Attempt:
    """Ends every error of a controller's own code here: logged once, and remembered as `failed`.

    This is the one place that stops any exception, whatever it is: a controller serves many objects for
    months, and one strange object must not keep the others from being served. Cancellation of this task
    passes, also one that was turned into another error. One that comes out without this task being cancelled
    (a cancelled task that was awaited) is an error like others; let through, it would end the worker without
    a log line.
    """

    def __init__(self, message: str) -> None:
        self.failed = False
        self._message = message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            return False
        if isinstance(error, asyncio.CancelledError):
            if asyncio.current_task() is None or is_cancelled():
                return False
        elif not isinstance(error, Exception):
            return False
        self.failed = True
        log.error(self._message, error=error)
        return True
