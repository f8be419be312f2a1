"""Progress of long work, on stderr: lines that are redrawn on a terminal, a plain line every few seconds
elsewhere, JSON for programs. (docs/adr/062)

What is not known yet is not shown as if it were: while lists have not begun a total is a lower bound, which
is said; a remaining time is shown only when the total is final and some time has passed.
"""

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TextIO

BAR_WIDTH = 30
LINE_SECONDS = 5.0
DRAW_SECONDS = 0.1
FORMS = ("auto", "plain", "json", "none")

_BLOCKS = "█░"
_PLAIN_BLOCKS = "#-"
_KINDS_SHOWN = 6
_ETA_AFTER_SECONDS = 3.0
_NARROW_COLUMNS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How far a run is.

    Attributes:
        done, total: items.
        at_least: whether the total is a lower bound.
        seconds: since the beginning.
        kinds: items read, and known to be there, of each resource that is being read.
        hooks: the hooks that run now.
        upload_bytes: the size of what is being uploaded.
    """

    done: int
    total: int
    at_least: bool = False
    seconds: float = 0.0
    kinds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    hooks: tuple[str, ...] = ()
    upload_bytes: int = 0

    @property
    def rate(self) -> float:
        """Items a second; 0 before the first second is over."""
        return self.done / self.seconds if self.seconds >= 1 else 0.0

    @property
    def eta_seconds(self) -> float | None:
        """The time that is left, once it means something."""
        if self.at_least or self.seconds < _ETA_AFTER_SECONDS or not 0 < self.done < self.total:
            return None
        return (self.total - self.done) / self.rate


def numbers(state: State) -> str:
    """`1,234 of at least 2,511 items`."""
    total = max(state.done, state.total)
    if not total:
        return "0 items so far" if state.at_least else "0 items"
    bound = "at least " if state.at_least else ""
    return f"{state.done:,} of {bound}{total:,} items"


def main_line(what: str, state: State, columns: int, blocks: str) -> str:
    """The line with the numbers of the whole run; it fits into the columns."""
    facts = [numbers(state)]
    if state.rate >= 1:
        facts.append(f"{state.rate:,.0f}/s")
    facts.append(_clock(state.seconds))
    if (eta := state.eta_seconds) is not None:
        facts.append(f"ETA {_clock(eta)}")
    text = f"{what} {'  '.join(facts)}"
    room = columns - len(text) - 2
    if columns >= _NARROW_COLUMNS and room >= 10:
        width = min(BAR_WIDTH, room)
        # A bar of a lower bound would be full again and again.
        share = 0.0 if state.at_least or not state.total else state.done / max(state.done, state.total)
        filled = int(share * width)
        bar = blocks[0] * filled + blocks[1] * (width - filled)
        text = f"{what} {bar} {'  '.join(facts)}"
    return text[: max(columns - 1, 1)]


def detail_lines(state: State, columns: int) -> list[str]:
    """A line for each resource that is being read, for hooks and for the upload, each within the columns."""
    lines = []
    kinds = sorted(state.kinds.items(), key=lambda kind: -kind[1][1])
    for name, (done, total) in kinds[:_KINDS_SHOWN]:
        lines.append(f"  {name}: {done:,} of {total:,}")
    if len(kinds) > _KINDS_SHOWN:
        lines.append(f"  and {len(kinds) - _KINDS_SHOWN} more resources")
    lines += [f"  hook: {hook}" for hook in state.hooks[:_KINDS_SHOWN]]
    if state.upload_bytes:
        lines.append(f"  uploading {size(state.upload_bytes)}")
    return [line[: max(columns - 1, 1)] for line in lines]


def size(count: float) -> str:
    """`1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _clock(seconds: float) -> str:
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def as_json(what: str, state: State) -> str:
    """One line for programs."""
    return json.dumps(
        {
            "type": "progress",
            "what": what,
            "itemsDone": state.done,
            "totalItems": max(state.done, state.total),
            "totalIsFinal": not state.at_least,
            "seconds": round(state.seconds, 1),
            "etaSeconds": None if state.eta_seconds is None else round(state.eta_seconds, 1),
            "resources": {
                name: {"done": done, "total": total} for name, (done, total) in state.kinds.items()
            },
            "hooks": list(state.hooks),
            "uploadBytes": state.upload_bytes,
        }
    )


class ProgressView:
    """Shows how many items of how many are done.

    A reader that has gone away is no reason to end the work: from then on nothing is shown.

    Args:
        what: `backup` or `restore`.
        form: `auto` (lines that are redrawn on a terminal, else as plain), `plain`, `json` or `none`.
        details: what else is known; called with done and total.
    """

    def __init__(
        self,
        what: str,
        *,
        form: str = "auto",
        details: Callable[[int, int], State] = lambda done, total: State(done=done, total=total),
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._form = form
        self._details = details
        stream = sys.stderr if stream is None else stream
        # Drawing needs what the guard of the terminal takes out of texts.
        self._stream: TextIO = getattr(stream, "unguarded", stream)
        self._clock = clock
        self._redraws = form == "auto" and self._stream.isatty()
        self._blocks = _BLOCKS if _can_show(self._stream, _BLOCKS) else _PLAIN_BLOCKS
        self._done = self._total = 0
        self._started = self._shown = clock()
        self._drawn = 0
        self._gone = form == "none"

    def update(self, done: int, total: int) -> None:
        """Set the numbers, and show them if it is time."""
        self._done, self._total = done, max(done, total)
        now = self._clock()
        if self._redraws:
            if now - self._shown >= DRAW_SECONDS or not self._drawn:
                self._draw()
        elif now - self._shown >= (1.0 if self._form == "json" else LINE_SECONDS):
            self._print()

    async def publish(self, total: int, done: int) -> None:
        """Show the progress of a run; a `ProgressSink`."""
        self.update(done, total)

    async def tick(self) -> None:
        """Show what there is once a second until cancelled, also when no numbers arrive."""
        while True:
            await asyncio.sleep(1)
            self.update(self._done, self._total)

    def finish(self, done: int) -> None:
        """The run has ended with so many items: these are the last numbers."""
        self._done = self._total = done
        self.close()
        self._gone = True

    def close(self) -> None:
        """Leave the last numbers as one line, once."""
        if self._redraws and self._drawn:
            line = main_line(self._what, self._final(), self._columns, self._blocks)
            self._write(f"{self._back()}{line}\n")
            self._drawn = 0

    @property
    def _columns(self) -> int:
        return shutil.get_terminal_size().columns

    def _state(self) -> State:
        known = self._details(self._done, self._total)
        return State(
            done=known.done,
            total=known.total,
            at_least=known.at_least,
            seconds=self._clock() - self._started,
            kinds=known.kinds,
            hooks=known.hooks,
            upload_bytes=known.upload_bytes,
        )

    def _final(self) -> State:
        return State(done=self._done, total=self._total, seconds=self._clock() - self._started)

    def _print(self) -> None:
        self._shown = self._clock()
        state = self._state()
        if self._form == "json":
            self._write(f"{as_json(self._what, state)}\n")
            return
        more = [line.strip() for line in detail_lines(state, 10_000)]
        facts = [numbers(state), _clock(state.seconds), *more]
        self._write(f"{self._what}: {', '.join(facts)}\n")

    def _draw(self) -> None:
        self._shown, columns, state = self._clock(), self._columns, self._state()
        lines = [main_line(self._what, state, columns, self._blocks), *detail_lines(state, columns)]
        # Lines that wrap or leave the screen could not be redrawn.
        lines = lines[: max(1, shutil.get_terminal_size().lines - 1)]
        self._write(self._back() + "\n".join(lines))
        self._drawn = len(lines)

    def _back(self) -> str:
        """Go back to where the drawing began, and erase it."""
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        return f"{up}\r\x1b[J"

    def _write(self, text: str) -> None:
        if self._gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._gone = True


def _can_show(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")
    except (UnicodeError, LookupError):
        return False
    return True
