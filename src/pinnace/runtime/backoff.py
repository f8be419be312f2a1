"""How long to wait before the next try. Pure arithmetic; the caller keeps the time. (docs/spec: CTL 2.1)"""

import random
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_MAX_DOUBLINGS = 64
"""Beyond this many, every delay is at its cap; keeps the power within a float."""


class FailureBackoff(Generic[K]):
    """Per key, a delay that doubles with every failure in a row.

    The defaults are client-go's: 5 ms, 10 ms, ... 655.36 s, then 1000 s for ever.
    """

    def __init__(self, *, base_seconds: float = 0.005, cap_seconds: float = 1000.0) -> None:
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._failures: dict[K, int] = {}

    def next_delay(self, key: K) -> float:
        """Count a failure and return the delay it costs, in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(self._base_seconds * 2.0 ** min(failures, _MAX_DOUBLINGS), self._cap_seconds)

    def forget(self, key: K) -> None:
        """Start again at the shortest delay."""
        self._failures.pop(key, None)


class TokenBucket:
    """A rate for several keys together; with an empty bucket, `reserve` says how long to wait.

    Reservations are handed out in order and cannot be given back. The defaults are client-go's.
    """

    def __init__(self, *, rate_per_second: float = 10.0, burst: int = 100) -> None:
        self._rate_per_second = rate_per_second
        self._burst = burst
        self._tokens = float(burst)
        self._updated: float | None = None

    def reserve(self, now: float) -> float:
        """Take a token at the monotonic time `now`; the seconds until it may be used."""
        self._tokens = self._level(now) - 1.0
        self._updated = now
        return max(0.0, -self._tokens / self._rate_per_second)

    def is_full(self, now: float) -> bool:
        """Whether the bucket has all its tokens."""
        return self._level(now) >= self._burst

    def _level(self, now: float) -> float:
        if self._updated is None:
            return self._tokens
        return min(float(self._burst), self._tokens + (now - self._updated) * self._rate_per_second)


class RetryDelay:
    """Growing delays with jitter for one activity, such as reaching a server.

    The defaults are those of client-go's reflector: 0.8 s doubling to 30 s, each up to twice as long.

    Args:
        jitter: a number in [0, 1) for each delay.
    """

    def __init__(
        self,
        *,
        base_seconds: float = 0.8,
        cap_seconds: float = 30.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._jitter = jitter
        self._tries = 0

    def next_delay(self) -> float:
        """The delay after one more failure, in seconds."""
        delay = min(self._base_seconds * 2.0 ** min(self._tries, _MAX_DOUBLINGS), self._cap_seconds)
        self._tries += 1
        return delay * (1.0 + self._jitter())

    def reset(self) -> None:
        """Note a success."""
        self._tries = 0
