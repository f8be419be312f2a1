"""A clock that stands still until it is told to move."""

from datetime import UTC, datetime, timedelta

START = datetime(2021, 8, 11, 21, 43, 26, tzinfo=UTC)


class FrozenClock:
    """Call it for the time in UTC, as code under test calls its injected `clock`."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        """Return seconds since START, for code that wants a monotonic clock."""
        return (self.now - START).total_seconds()

    def advance(self, delta: timedelta | float) -> datetime:
        """Move on by a time difference, or a number of seconds; return the new time."""
        self.now += delta if isinstance(delta, timedelta) else timedelta(seconds=delta)
        return self.now
