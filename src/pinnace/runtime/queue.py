"""The work queue of a controller: keys to look at, each once, never two workers at one key.

Adding a key that waits is a no-op; adding one that is being processed queues it again once that is done.
First in, first out otherwise. (docs/spec: CTL 2.1)
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pinnace.aio.clock import Clock, LoopClock, Timer
from pinnace.runtime.backoff import FailureBackoff, TokenBucket
from pinnace.runtime.errors import QueueShutDown

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Delayed:
    due: float
    timer: Timer


class RateLimitedQueue(Generic[K]):
    """Keys in order, with delays and a limit on retries. For one event loop; not thread-safe.

    A key is in at most one of these states: waiting, processing, or processing and marked to wait again.
    A delayed key may also be in any of them. Every `get` must be answered by one `done`.

    Shutdown takes effect at once: keys that wait are not handed out any more, and nothing is added. What
    they stood for is found again by the next process's initial list.

    Args:
        clock: time and timers.
        backoff: the per-key delay of retries.
        bucket: the rate of retries of all keys; the longer of both delays counts.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        backoff: FailureBackoff[K] | None = None,
        bucket: TokenBucket | None = None,
    ) -> None:
        self._clock = clock or LoopClock()
        self._backoff: FailureBackoff[K] = backoff or FailureBackoff()
        self._bucket = bucket or TokenBucket()
        self._waiting: deque[K] = deque()
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._delayed: dict[K, _Delayed] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._shut_down = False

    def __len__(self) -> int:
        """Keys that wait to be handed out; delayed and processed ones not counted."""
        return len(self._waiting)

    @property
    def is_shut_down(self) -> bool:
        """Whether `shutdown` was called."""
        return self._shut_down

    def add(self, key: K) -> None:
        """Let a key be processed, soon; once, however often it is added before that."""
        if self._shut_down or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._waiting.append(key)
            self._wake_getter()

    def add_after(self, key: K, delay_seconds: float) -> None:
        """Add a key after a delay. Of several delays of one key the earliest to end counts."""
        if self._shut_down:
            return
        if delay_seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + delay_seconds
        former = self._delayed.get(key)
        if former is not None:
            if former.due <= due:
                return
            former.timer.cancel()
        timer = self._clock.call_later(delay_seconds, lambda: self._delay_ended(key))
        self._delayed[key] = _Delayed(due, timer)

    def add_rate_limited(self, key: K) -> None:
        """Count a failure of the key and add it again after the delay that this costs."""
        own = self._backoff.next_delay(key)
        overall = self._bucket.reserve(self._clock.monotonic())
        self.add_after(key, max(own, overall))

    def forget(self, key: K) -> None:
        """Forget the failures of a key: its next retry has the shortest delay."""
        self._backoff.forget(key)

    def failures(self, key: K) -> int:
        """Failures of a key since it was last forgotten."""
        return self._backoff.failures(key)

    async def get(self) -> K:
        """Wait for a key and take it. Cancelling this loses no key.

        Raises:
            QueueShutDown: the queue is shut down, keys waiting or not.
        """
        while not self._shut_down and not self._waiting:
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if not getter.cancelled():
                    # We were woken for a key and are cancelled before taking it: wake another.
                    self._wake_getter()
                raise
        if self._shut_down:
            raise QueueShutDown
        key = self._waiting.popleft()
        self._processing.add(key)
        self._dirty.discard(key)
        return key

    def done(self, key: K) -> None:
        """End the processing of a key; it waits again at once if it was added meanwhile."""
        self._processing.discard(key)
        if key in self._dirty and not self._shut_down:
            self._waiting.append(key)
            self._wake_getter()

    def shutdown(self) -> None:
        """Hand out no more keys, take no more, end all delays. Idempotent."""
        self._shut_down = True
        for delayed in self._delayed.values():
            delayed.timer.cancel()
        self._delayed.clear()
        while self._getters:
            self._wake_getter()

    def _delay_ended(self, key: K) -> None:
        self._delayed.pop(key, None)
        self.add(key)

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
