"""Knows how long the API server has been away, so that what waits for it can say so.

An outage is waited out (`retrying`), which looks like a program that hangs.
"""

from pinnace.aio.clock import Clock
from pinnace.kube.errors import APIStatusError, KubeError


class Silence:
    """The waiting time of requests without an answer to any of them.

    Args:
        patience_seconds: how long a request is waited for at most, over all its attempts.

    Attributes:
        is_shown: whether a display shows it already, so that nothing else needs to.
        has_errors: whether the server does answer, but only with errors of its own (5xx).
    """

    def __init__(self, patience_seconds: float, clock: Clock) -> None:
        self.patience_seconds = patience_seconds
        self.is_shown = False
        self.has_errors = False
        self._clock = clock
        self._waiting: dict[object, float] = {}
        self._failed: set[object] = set()
        self._given_up_since: float | None = None
        self._given_up_at = 0.0
        self._answered_at = float("-inf")

    def sent(self, request: object) -> None:
        """Record that a request is sent for the first time, or again."""
        self._waiting.setdefault(request, self._clock.monotonic())

    def answered(self, request: object) -> None:
        """Record a usable answer; the next attempt, after a 429 for one, counts from when it is sent."""
        self._waiting.pop(request, None)
        self._failed.clear()
        self._given_up_since = None
        self._answered_at = self._clock.monotonic()
        self.has_errors = False

    def failed(self, request: object, error: KubeError) -> None:
        """Record the failure of an attempt: a refusal is an answer, a server's own fault is none."""
        if isinstance(error, APIStatusError) and error.code < 500 and error.status:
            self.answered(request)
        else:
            self.has_errors = isinstance(error, APIStatusError)
            self._failed.add(request)

    def ended(self, request: object) -> None:
        """Forget a request that is not sent again. If it failed, the server is still away."""
        sent_at = self._waiting.pop(request, None)
        if sent_at is not None and request in self._failed:
            self._failed.discard(request)
            self._given_up_at = self._clock.monotonic()
            if self._given_up_since is None:
                self._given_up_since = max(sent_at, self._answered_at)

    @property
    def is_waited_for(self) -> bool:
        """Whether a request waits for an answer."""
        return bool(self._waiting)

    @property
    def seconds(self) -> float:
        """How long no request was answered, since the oldest of those was sent; 0 after an answer.

        Requests that were given up count. Between them and the next one the time stands still.
        """
        if not self._waiting:
            return 0.0 if self._given_up_since is None else self._given_up_at - self._given_up_since
        oldest = next(iter(self._waiting.values()))  # in the order of sending
        since = oldest if self._given_up_since is None else min(oldest, self._given_up_since)
        return max(0.0, self._clock.monotonic() - max(since, self._answered_at))
