"""Shows progress on stderr: lines that are redrawn on a terminal, a plain line every few seconds elsewhere,
JSON for programs. (docs/adr/062)
"""

import asyncio
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Final, TextIO

from msgspec.structs import replace

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.cli.guard import can_redraw, drawn, erased
from pinnace.cli.progress.away import Away
from pinnace.cli.progress.lines import BLOCKS, PLAIN_BLOCKS, clock, detail_lines, main_line, numbers
from pinnace.cli.progress.state import Amount, State

LINE_SECONDS: Final = 5.0
DRAW_SECONDS: Final = 0.1
_FILE_COLUMNS: Final = 10_000


def as_json(what: str, state: State) -> str:
    """The state as one line of JSON."""
    return json.dumps(state.to_dict(what))


class Rates:
    """Adds rates to amounts: their growth since each was first seen."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, int]] = {}

    def of(self, sort: str, amounts: Mapping[str, Amount], now: float) -> dict[str, Amount]:
        """The same amounts with their rates. Amounts of this sort that are no longer given are forgotten."""
        keys = {f"{sort} {name}": name for name in amounts}
        for gone in [key for key in self._first if key.startswith(f"{sort} ") and key not in keys]:
            del self._first[gone]
        rated = {}
        for key, name in keys.items():
            amount = amounts[name]
            since, done = self._first.setdefault(key, (now, amount.done))
            seconds = now - since
            rate = max(0, amount.done - done) / seconds if seconds >= 1 else 0.0
            rated[name] = replace(amount, rate=rate)
        return rated

    def all_of(self, state: State, now: float) -> State:
        """The state with the rates of its parts."""
        volumes = self.of("volume", {volume.name: volume.amount for volume in state.volumes}, now)
        uploads = self.of("upload", {} if state.upload is None else {"": state.upload}, now)
        return replace(
            state,
            kinds=self.of("kind", state.kinds, now),
            volumes=tuple(replace(volume, amount=volumes[volume.name]) for volume in state.volumes),
            upload=uploads.get(""),
        )


class ProgressView:
    """Shows how many items of how many are done.

    If the reader of stderr is gone, the work goes on, and nothing more is shown.

    Args:
        what: `backup` or `restore`.
        form: `auto` (lines that are redrawn on a terminal, else as plain), `plain`, `json` or `none`.
        details: returns all that is known of the run; called with done and total.
    """

    def __init__(
        self,
        what: str,
        *,
        form: str = "auto",
        details: Callable[[int, int], State] = lambda done, total: State(done=done, total=total),
        stream: TextIO | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._what = what
        self._form = form
        self._details = details
        stream = sys.stderr if stream is None else stream
        # Drawing needs control characters, which the guard of the terminal escapes.
        self._stream: TextIO = getattr(stream, "unguarded", stream)
        self._clock = clock
        self._redraws = form == "auto" and can_redraw(self._stream)
        self._blocks = BLOCKS if _can_show(self._stream, BLOCKS) else PLAIN_BLOCKS
        self._done = self._total = self._most = 0
        self._first: tuple[int, float] | None = None
        self._started = self._shown = clock.monotonic()
        self._drawn = 0
        self._has_drawn = False
        self._away: Away | None = None
        self._finished = False
        self._rates = Rates()
        self._gone = form == "none"

    def update(self, done: int, total: int) -> None:
        """Set the numbers, and show them if enough time has passed."""
        self._done, self._total = done, max(done, total)
        self._look_for_return()
        now = self._clock.monotonic()
        if self._redraws:
            if now - self._shown >= DRAW_SECONDS or not self._drawn:
                self._draw()
        elif now - self._shown >= (1.0 if self._form == "json" else LINE_SECONDS):
            self._print()

    async def publish(self, total: int, done: int) -> None:
        """Show the progress of a run; a `ProgressSink`."""
        self.update(done, total)

    async def tick(self) -> None:
        """Show the progress once a second until cancelled, even if no numbers arrive."""
        while True:
            await asyncio.sleep(1)
            self.update(self._done, self._total)

    def finish(self, done: int) -> None:
        """Show the number of items of the run that has ended, as the last numbers."""
        self._done = self._total = done
        self._finished = True
        self.close()
        self._gone = True  # nothing follows the last numbers

    def close(self) -> None:
        """Replace what is drawn by one line with the last numbers."""
        self._look_for_return()
        if self._finished and self._form == "json":
            self._write(f"{as_json(self._what, self._final())}\n")
        if self._has_drawn:
            self._has_drawn = False
            line = main_line(self._what, self._final(), self._columns, self._blocks)
            self.erase()
            self._write(f"{line}\n")

    @property
    def _columns(self) -> int:
        return shutil.get_terminal_size().columns

    def _state(self) -> State:
        now = self._clock.monotonic()
        known = self._details(self._done, self._total)
        self._note(known.away)
        # A server that is asked again, after a watch that broke, may give older numbers.
        done = self._most = max(self._most, known.done)
        at_least = known.at_least or done > known.total
        known = replace(known, done=done, at_least=at_least, total=max(known.total, done))
        seconds = now - self._started
        if done and self._first is None:
            self._first = done, seconds
        first_done, first_seconds = self._first or (0, seconds)
        known = replace(known, seconds=seconds, first_done=first_done, first_seconds=first_seconds)
        return self._rates.all_of(known, now)

    def _look_for_return(self) -> None:
        """Say at once that the API server is back, though the next numbers may not be due yet."""
        if self._away is not None:
            self._note(self._details(self._done, self._total).away)

    def _note(self, now: Away | None) -> None:
        if now is None and self._away is not None and self._form != "json":
            self.erase()
            self._write(f"{self._away.over}\n")
        self._away = now

    def _final(self) -> State:
        """The last numbers: those of the finished object, or what was known when the run was interrupted."""
        if self._finished:
            return State(done=self._done, total=self._total, seconds=self._clock.monotonic() - self._started)
        return self._state()

    def _print(self) -> None:
        self._shown = self._clock.monotonic()
        state = self._state()
        if self._form == "json":
            self._write(f"{as_json(self._what, state)}\n")
            return
        more = [line.strip() for line in detail_lines(state, _FILE_COLUMNS, "")]
        facts = [numbers(state), clock(state.seconds), *more]
        self._write(f"{self._what}: {', '.join(facts)}\n")

    def _draw(self) -> None:
        self._shown, columns, state = self._clock.monotonic(), self._columns, self._state()
        lines = [main_line(self._what, state, columns, self._blocks)]
        lines += detail_lines(state, columns, self._blocks)
        # Lines that wrap or leave the screen could not be redrawn.
        lines = lines[: max(1, shutil.get_terminal_size().lines - 1)]
        self._write(self._back() + "\n".join(lines))
        self._drawn, self._has_drawn = len(lines), True
        drawn(self.erase)

    def erase(self) -> None:
        """Remove what is drawn, so that a line can be printed; it is drawn again below that."""
        if self._drawn:
            self._write(self._back())
            self._drawn = 0
            erased(self.erase)

    def _back(self) -> str:
        """The control characters that erase the drawing."""
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        return f"{up}\r\x1b[J"

    def _write(self, text: str) -> None:
        if self._gone:
            return
        try:
            encoding = self._stream.encoding or "utf-8"
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()
        except (OSError, ValueError, LookupError):
            self._gone = True


def _can_show(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")
    except (UnicodeError, LookupError):
        return False
    return True
