"""Progress of long work: a bar that redraws itself on a terminal, plain lines or dots elsewhere."""

import asyncio
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

BAR_WIDTH = 30
LINE_SECONDS = 5.0
DRAW_SECONDS = 0.1

_BLOCKS = "█░"
_PLAIN_BLOCKS = "#-"


class ProgressView:
    """Shows how many items of how many are done.

    On a terminal one line is redrawn at most ten times a second. Elsewhere a line is printed every five
    seconds of work, or with `dots` a dot a second as the compatible command line does.

    A reader that has gone away is no reason to end the work: from then on nothing is shown.
    """

    def __init__(
        self,
        what: str,
        *,
        dots: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        stream = sys.stdout if stream is None else stream
        # Drawing needs what the guard of the terminal takes out of texts.
        self._stream: TextIO = getattr(stream, "unguarded", stream)
        self._dots = dots
        self._clock = clock
        self._terminal = self._stream.isatty()
        self._blocks = _BLOCKS if _can_show(self._stream, _BLOCKS) else _PLAIN_BLOCKS
        self._done = self._total = 0
        self._started = clock()
        self._shown = self._started
        self._dirty = False
        self._gone = False

    def update(self, done: int, total: int) -> None:
        """Set the numbers; draws at most ten times a second."""
        self._done, self._total = done, max(done, total)
        now = self._clock()
        if self._terminal:
            if now - self._shown >= DRAW_SECONDS or not self._dirty:
                self._draw(now)
        elif not self._dots and now - self._shown >= LINE_SECONDS:
            self._shown = now
            self._write(f"{self._what}: {self._done} of {self._total} items\n")

    async def publish(self, total: int, done: int) -> None:
        """Show the progress of a run; a `ProgressSink`."""
        self.update(done, total)

    async def tick(self) -> None:
        """Draw once a second until cancelled, also when no numbers arrive."""
        while True:
            await asyncio.sleep(1)
            if self._terminal:
                self._draw(self._clock())
            elif self._dots:
                self._write(".")
                self._dirty = True

    def close(self) -> None:
        """End the line that is being redrawn, once."""
        if self._terminal and self._dirty:
            self._draw(self._clock())
        if self._dirty:
            self._write("\n")
            self._dirty = False

    def _draw(self, now: float) -> None:
        self._shown, self._dirty = now, True
        share = self._done / self._total if self._total else 0.0
        filled = int(share * BAR_WIDTH)
        seconds = int(now - self._started)
        bar = self._blocks[0] * filled + self._blocks[1] * (BAR_WIDTH - filled)
        text = f"{self._what} {bar} {self._done}/{self._total} items  {seconds // 60}:{seconds % 60:02d}"
        # A line that wraps could not be redrawn.
        self._write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")

    def _write(self, text: str) -> None:
        if self._gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._gone = True


def _can_show(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")
    except (UnicodeError, LookupError):
        return False
    return True
