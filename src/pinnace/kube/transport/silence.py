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
        self._answered_at = float("-inf")

    def sent(self, request: object) -> None:
        """Record that a request is sent for the first time, or again."""
        self._waiting.setdefault(request, self._clock.monotonic())

    def answered(self, request: object) -> None:
        """Record a usable answer; the next attempt, after a 429 for one, counts from when it is sent."""
        self._waiting.pop(request, None)
        self._answered_at = self._clock.monotonic()
        self.has_errors = False

    def failed(self, request: object, error: KubeError) -> None:
        """Record the failure of an attempt: a refusal is an answer, a server's own fault is none."""
        if isinstance(error, APIStatusError) and error.code < 500 and error.status:
            self.answered(request)
        else:
            self.has_errors = isinstance(error, APIStatusError)

    def ended(self, request: object) -> None:
        """Forget a request that is not sent again."""
        self._waiting.pop(request, None)

    @property
    def seconds(self) -> float:
        """How long the oldest request has waited without any other being answered; 0 if none waits."""
        if not self._waiting:
            return 0.0
        oldest = next(iter(self._waiting.values()))  # in the order of sending
        return max(0.0, self._clock.monotonic() - max(oldest, self._answered_at))
