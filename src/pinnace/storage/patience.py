"""Waiting for a store that is away, where giving up would throw work away. (docs/adr/090)

A store's own retries end after seconds, which suits requests that somebody waits for. At the end of a run the
whole cluster has been read or restored, and only the upload is left: that is tried again for minutes.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.storage.errors import StoreUnavailable

T = TypeVar("T")

LIMIT_SECONDS: Final = 300.0
"""How long a store may be away; the API server gets the same time."""
REMINDER_SECONDS: Final = 60.0
"""How often it is said again that the store is still away."""
_WAITING_FOR: Final = "the backup storage location, which does not answer"
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 10.0


class Patience:
    """The patience of one run with its store, shared by requests that are made at the same time.

    Args:
        tell: called when the store is away, each minute after that, and when it answers again.
        waiting: holds a text while the store is away; what shows the run shows it.
        limit_seconds: how long a request is tried again after it has failed; 0 for not at all. Once it was
            too short, nothing else is tried again.
    """

    def __init__(
        self,
        tell: Callable[[str], None] = lambda _: None,
        *,
        waiting: list[str] | None = None,
        limit_seconds: float = LIMIT_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._tell = tell
        self._waiting = waiting if waiting is not None else []
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._away_since: float | None = None
        self._said_at = 0.0
        self._in_trouble = 0

    async def insist(
        self, work: Callable[[], Awaitable[T]], *, before_again: Callable[[], Awaitable[None]] | None = None
    ) -> T:
        """Do the work, and do it again for as long as the store is unavailable and the time is not up.

        Args:
            work: can be done again after it has failed.
            before_again: done before the work is, each further time; it may find that the work must not be
                done any more. Its failures count as those of the work.

        Raises:
            StoreUnavailable: the store was away for too long. Other errors come through at once.
        """
        try:
            return await work()
        except StoreUnavailable as error:
            failure = error
        began, pause_seconds = self._clock.monotonic(), _FIRST_PAUSE_SECONDS
        self._in_trouble += 1
        try:
            while (left := began + self._limit_seconds - self._clock.monotonic()) > 0:
                self._note_away(failure)
                await self._clock.sleep(min(pause_seconds, left))
                pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
                try:
                    if before_again is not None:
                        await before_again()
                    done = await work()
                except StoreUnavailable as error:
                    failure = error
                else:
                    self._note_back()
                    return done
            self._limit_seconds = 0.0  # what follows does not wait as long again
            raise failure
        finally:
            self._in_trouble -= 1
            if not self._in_trouble:
                self._end_outage()

    def _note_away(self, failure: StoreUnavailable) -> None:
        now = self._clock.monotonic()
        if self._away_since is None:
            self._away_since = now
            self._waiting.append(_WAITING_FOR)
        elif now - self._said_at < REMINDER_SECONDS:
            return
        self._said_at = now
        left = max(0.0, self._away_since + self._limit_seconds - now)
        self._tell(
            f"The backup storage location does not answer, which is tried again for {left:.0f} s: {failure}"
        )

    def _note_back(self) -> None:
        if self._away_since is None:
            return
        away_seconds = self._clock.monotonic() - self._away_since
        self._tell(f"The backup storage location answers again, after {away_seconds:.0f} s")
        self._end_outage()

    def _end_outage(self) -> None:
        if self._away_since is not None:
            self._away_since = None
            self._waiting.remove(_WAITING_FOR)


def impatient() -> Patience:
    """The patience of work that is cheap to begin again: none."""
    return Patience(limit_seconds=0.0)
