"""The work queue of a controller: each key waits once, and no two workers process one key at a time.

Adding a key that waits is a no-op; adding one that is being processed queues it again once that is done.

Each key waits in the lane of a party, for example of a tenant. Parties are served round robin, so are the
lanes of one party, and a lane is first in, first out: a party that adds thousands of keys delays those of
another by one key. Shares limit how many keys are processed at once: a key whose share is used up is skipped.
A key may give its worker shares back while it is processed (`release`), and take them again before keys
that wait (`regain`).
(docs/spec: CTL 2.1, docs/adr/014)
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from pinnace.aio.clock import SYSTEM_CLOCK, Clock, ScheduledCall
from pinnace.runtime.backoff import FailureBackoff, TokenBucket
from pinnace.runtime.errors import QueueShutDown

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Share:
    """A limit on the keys processed at once: of those whose lane has a share of that name."""

    name: Hashable
    limit: int


@dataclass(frozen=True, slots=True)
class Lane:
    """Where a key waits.

    Attributes:
        party: parties are served round robin.
        name: the lanes of one party are served round robin.
        shares: limits that a key uses up while it is processed; all must have room for it.
        worker_shares: likewise, but not between `release` and `regain`.
    """

    party: Hashable = ""
    name: Hashable = ""
    shares: tuple[Share, ...] = ()
    worker_shares: tuple[Share, ...] = ()


ONE_LANE: Final = Lane()
"""The lane of a queue whose keys cannot delay each other for long."""


def one_lane(_key: object) -> Lane:
    """The same lane for every key: first in, first out."""
    return ONE_LANE


@dataclass(frozen=True, slots=True)
class _Delayed:
    due: float
    timer: ScheduledCall


@dataclass(slots=True)
class _Waiting(Generic[K]):
    """The keys of one lane, oldest first."""

    lane: Lane
    keys: deque[K] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class _Processed:
    """A key that is processed; each is equal to itself only.

    Attributes:
        has_worker: whether it uses up the worker shares of its lane.
        regains: set when it has them again; None unless `regain` waits for them.
    """

    lane: Lane
    has_worker: bool = True
    regains: asyncio.Future[None] | None = None


class RateLimitedQueue(Generic[K]):
    """Keys in order, with delays and a limit on retries. For one event loop; not thread-safe.

    A key is in at most one of these states: waiting, processing, or processing and marked to wait again.
    A delayed key may also be in any of them. Every `get` must be answered by one `done`.

    Shutdown takes effect at once: waiting keys are no longer handed out, and no key is added. The next
    process finds their objects in its initial list.

    Args:
        clock: time and timers.
        backoff: the per-key delay of retries.
        bucket: makes the rate of retries of one party; the longer of both delays counts.
        lane_of: the lane of a key, asked each time it begins to wait.
    """

    def __init__(
        self,
        *,
        clock: Clock = SYSTEM_CLOCK,
        backoff: FailureBackoff[K] | None = None,
        bucket: Callable[[], TokenBucket] = TokenBucket,
        lane_of: Callable[[K], Lane] = one_lane,
    ) -> None:
        self._clock = clock
        self._backoff: FailureBackoff[K] = backoff or FailureBackoff()
        self._new_bucket = bucket
        self._buckets: dict[Hashable, TokenBucket] = {}
        self._lane_of = lane_of
        # Both are in the order of service, next first.
        self._parties: dict[Hashable, dict[Hashable, _Waiting[K]]] = {}
        self._length = 0
        self._in_use: Counter[Hashable] = Counter()
        self._dirty: set[K] = set()
        self._processing: dict[K, _Processed] = {}
        self._regaining: deque[_Processed] = deque()
        self._delayed: dict[K, _Delayed] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._shut_down = False

    def __len__(self) -> int:
        """Keys that wait to be handed out; delayed and processed ones not counted."""
        return self._length

    def add(self, key: K) -> None:
        """Let a key be processed, soon; once, however often it is added before that."""
        if self._shut_down or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._put(key)

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
        self.add_after(key, max(own, self._party_delay(self._lane_of(key).party)))

    def forget(self, key: K) -> None:
        """Forget the failures of a key: its next retry has the shortest delay."""
        self._backoff.forget(key)

    async def get(self) -> K:
        """Wait for a key and take it. Cancelling this loses no key.

        Raises:
            QueueShutDown: the queue is shut down, keys waiting or not.
        """
        while not self._shut_down:
            taken = self._take()
            if taken is not None:
                # More than one key may have become free to be taken, by one share that has room again.
                if self._length:
                    self._wake_getter()
                return taken
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if not getter.cancelled():
                    # This getter was woken for a key and is cancelled before taking it: wake another.
                    self._wake_getter()
                raise
        raise QueueShutDown

    def release(self, key: K) -> None:
        """Give back the worker shares of a key that is processed, for other keys to begin. Idempotent."""
        processed = self._processing[key]
        if processed.has_worker:
            processed.has_worker = False
            self._give_back(processed.lane.worker_shares)

    async def regain(self, key: K) -> None:
        """Take the worker shares of a key that is processed again, as soon as they have room. Idempotent.

        Keys that wait for their worker shares come before keys that have not begun. A shutdown does not end
        the wait: what is in flight continues.
        """
        processed = self._processing[key]
        if processed.has_worker:
            return
        processed.regains = asyncio.get_running_loop().create_future()
        self._regaining.append(processed)
        self._serve_regaining()
        try:
            await processed.regains
        finally:
            processed.regains = None
            if not processed.has_worker:
                self._regaining.remove(processed)

    def done(self, key: K) -> None:
        """End the processing of a key; it waits again at once if it was added meanwhile."""
        processed = self._processing.pop(key)
        if processed.has_worker:
            self._give_back(processed.lane.worker_shares)
        self._give_back(processed.lane.shares)
        if key in self._dirty and not self._shut_down:
            self._put(key)

    def shutdown(self) -> None:
        """Stop handing out and taking keys, and end all delays. Idempotent."""
        self._shut_down = True
        for delayed in self._delayed.values():
            delayed.timer.cancel()
        self._delayed.clear()
        while self._getters:
            self._wake_getter()

    def _put(self, key: K) -> None:
        lane = self._lane_of(key)
        lanes = self._parties.setdefault(lane.party, {})
        waiting = lanes.setdefault(lane.name, _Waiting(lane))
        waiting.lane = lane  # its limits may have changed
        waiting.keys.append(key)
        self._length += 1
        self._wake_getter()

    def _take(self) -> K | None:
        """Take the next key; None if no key waits, or none has room in its shares."""
        for party, lanes in self._parties.items():
            for name, waiting in lanes.items():
                if self._has_room((*waiting.lane.shares, *waiting.lane.worker_shares)):
                    key = waiting.keys.popleft()
                    self._move_behind(party, name)
                    self._begin(key, waiting.lane)
                    return key
        return None

    def _move_behind(self, party: Hashable, name: Hashable) -> None:
        """Put a lane and its party, which were just served, behind all others; drop empty ones."""
        lanes = self._parties.pop(party)
        waiting = lanes.pop(name)
        if waiting.keys:
            lanes[name] = waiting
        if lanes:
            self._parties[party] = lanes

    def _begin(self, key: K, lane: Lane) -> None:
        self._length -= 1
        self._dirty.discard(key)
        self._processing[key] = _Processed(lane)
        self._use((*lane.shares, *lane.worker_shares))

    def _has_room(self, shares: tuple[Share, ...]) -> bool:
        return all(self._in_use[share.name] < share.limit for share in shares)

    def lacking(self, lane: Lane) -> Share | None:
        """The first share of a lane that has no room; None if one more key of the lane could be processed."""
        shares = (*lane.shares, *lane.worker_shares)
        return next((share for share in shares if self._in_use[share.name] >= share.limit), None)

    def _use(self, shares: tuple[Share, ...]) -> None:
        for share in shares:
            self._in_use[share.name] += 1

    def _give_back(self, shares: tuple[Share, ...]) -> None:
        for share in shares:
            self._in_use[share.name] -= 1
            if not self._in_use[share.name]:
                del self._in_use[share.name]
        self._serve_regaining()
        if self._length:
            self._wake_getter()

    def _serve_regaining(self) -> None:
        """Give worker shares with room to the keys that wait for them, in the order of their requests."""
        for processed in list(self._regaining):
            shares, regains = processed.lane.worker_shares, processed.regains
            if regains is not None and not regains.done() and self._has_room(shares):
                self._regaining.remove(processed)
                self._use(shares)
                processed.has_worker = True
                regains.set_result(None)

    def _party_delay(self, party: Hashable) -> float:
        """The delay of a party's next retry by its rate; retries of other parties do not count."""
        now = self._clock.monotonic()
        if party not in self._buckets:
            self._buckets = {
                name: bucket for name, bucket in self._buckets.items() if not bucket.is_full(now)
            }
            self._buckets[party] = self._new_bucket()
        return self._buckets[party].reserve(now)

    def _delay_ended(self, key: K) -> None:
        self._delayed.pop(key, None)
        self.add(key)

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
