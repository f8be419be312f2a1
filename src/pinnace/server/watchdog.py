"""Watches a server from a thread of its own: what blocks the event loop is logged, and a stop has an end.

The event loop cannot say that it is blocked, and a task that never ends keeps a server from stopping for
ever: it neither works nor makes room for the next one. (docs/adr/078)
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final, Self

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

BLOCKED_SECONDS: Final = 10.0
"""A loop that is blocked for so long renews no lease in time, and answers no probe."""
STUCK_EXIT_CODE: Final = 6
"""The exit code of a process that did not stop in time; `ExitCode.STUCK` of the command line."""
_LOOK_SECONDS: Final = 1.0
_FRAMES: Final = 25


class Watchdog:
    """A context manager of the task that runs a server.

    Args:
        stop_seconds: how long everything may take from `ending` on.
        clock: its monotonic time counts.
        end: ends the process at once.
    """

    def __init__(
        self,
        stop_seconds: float,
        *,
        clock: Clock = SYSTEM_CLOCK,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._stop_seconds = stop_seconds
        self._clock = clock
        self._end = end
        self._watched = threading.get_ident()
        self._beat_at = self._looked_at = clock.monotonic()
        self._blocked_since: float | None = None
        self._deadline: float | None = None
        self._over = threading.Event()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._watched = threading.get_ident()
        self._beat()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()

    def ending(self) -> None:
        """Everything is going to end now, in order or after a failure; the time for it begins. Idempotent."""
        if self._deadline is None:
            self._deadline = self._clock.monotonic() + self._stop_seconds

    def look(self) -> None:
        """Log what blocks the loop, and end the process when its time is up. Called in the thread."""
        now = self._clock.monotonic()
        if now - self._looked_at > BLOCKED_SECONDS / 2:
            # The whole process stood still: what the loop did not do meanwhile says nothing.
            paused = now - self._looked_at
            log.warning("The process stood still: it was suspended, or got no time", seconds=round(paused))
            self._beat_at += paused
            self._deadline = None if self._deadline is None else self._deadline + paused
        self._looked_at = now
        if now - self._beat_at >= BLOCKED_SECONDS:
            if self._blocked_since is None:
                self._blocked_since = self._beat_at
                log.error(
                    "The event loop is blocked: nothing else is done meanwhile",
                    seconds=round(now - self._beat_at),
                    stack=_stack(sys._current_frames().get(self._watched)),
                )
        elif self._blocked_since is not None:
            log.warning("The event loop goes on", seconds=round(self._beat_at - self._blocked_since))
            self._blocked_since = None
        if self._deadline is not None and now >= self._deadline:
            log.error(
                "The process does not stop by itself and is ended; the next start settles what it leaves",
                seconds=round(self._stop_seconds),
                stack=_stack(sys._current_frames().get(self._watched)),
            )
            self._end(STUCK_EXIT_CODE)

    def _run(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self.look()

    def _beat(self) -> None:
        self._beat_at = self._clock.monotonic()
        self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._beat)


def _stack(frame: FrameType | None) -> str:
    """Where a thread is, innermost call first; no values, which may be secrets."""
    calls: list[str] = []
    while frame is not None and len(calls) < _FRAMES:
        code = frame.f_code
        calls.append(f"{code.co_filename}:{frame.f_lineno} {code.co_qualname}")
        frame = frame.f_back
    return " < ".join(calls)
