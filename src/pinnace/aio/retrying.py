"""The retries of a request, to whatever service: the words and the numbers that all transports share."""

from collections.abc import Callable

from msgspec import Struct

_MOST_DOUBLINGS = 30


def random_share() -> float:
    """A random number from [0, 1)."""
    from random import random  # loads hash functions, and most commands never wait

    return random()  # noqa: S311 - spreads load, and keeps no secret


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How often a request is sent again, and the pauses before that.

    Attributes:
        attempts: how often a request is sent at most.
        base_seconds: the first back-off; each next one is twice as long.
        cap_seconds: the longest back-off.
        patience_seconds: a failing request is not sent again after this time, whatever the reason.
    """

    attempts: int = 5
    base_seconds: float = 0.2
    cap_seconds: float = 10.0
    patience_seconds: float

    def backoff_seconds(self, attempts: int, *, jitter: Callable[[], float]) -> float:
        """The back-off after this number of attempts; a random part of it spreads the load.

        Args:
            jitter: a random number from [0, 1).
        """
        doublings = min(attempts - 1, _MOST_DOUBLINGS)
        return min(self.cap_seconds, self.base_seconds * 2.0**doublings) * (0.5 + 0.5 * jitter())
