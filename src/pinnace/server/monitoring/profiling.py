"""Takes profiles of the running process: where its event loop spends time, what its memory holds.

Nothing is measured, and no library loaded, before a profile is asked for. A profile is limited in time, and
only one is taken at a time, because two would measure each other.
"""

import asyncio
import gc
import resource
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SAMPLE_SECONDS: Final = 0.005
"""Between samples; costs a busy loop a few per cent while a profile is taken."""

SOURCE_LINES: Final = 50
OBJECT_TYPES: Final = 25
FORMATS: Final = {"text": "text/plain", "html": "text/html", "speedscope": "application/json"}

LIBRARY_MISSING: Final = (
    "CPU samples need the package pyinstrument, which is not installed here: "
    "install Pinnace as `pinnace[profiler]`. /debug/pprof/heap works without it."
)


class CannotProfile(Exception):
    """A profile cannot be taken; the text says why."""


class Busy(CannotProfile):
    """Another profile is being taken."""


class Profiling:
    """Takes profiles of this process, one at a time."""

    def __init__(self) -> None:
        self._busy = False

    async def cpu(self, seconds: float, form: str) -> str:
        """Sample the stack of the event loop's thread for some seconds. Returns the report.

        Time in `select` is idle time.

        Args:
            form: one of FORMATS.

        Raises:
            CannotProfile: the library is missing, or another profile is being taken.
        """
        try:
            from pyinstrument import Profiler
            from pyinstrument.renderers import ConsoleRenderer, HTMLRenderer, Renderer, SpeedscopeRenderer
        except ImportError as error:
            raise CannotProfile(LIBRARY_MISSING) from error
        renderers: dict[str, type[Renderer]] = {"html": HTMLRenderer, "speedscope": SpeedscopeRenderer}
        # Frames of libraries too: an installed Pinnace is a library itself.
        renderer = renderers[form]() if form in renderers else ConsoleRenderer(show_all=True, unicode=False)
        with self._alone():
            profiler = Profiler(interval=SAMPLE_SECONDS, async_mode="disabled")
            profiler.start()
            try:
                await asyncio.sleep(seconds)
            finally:
                profiler.stop()
            return await asyncio.to_thread(profiler.output, renderer)

    async def memory(self, seconds: float) -> str:
        """Report what the process holds, and what it took in some seconds and still holds, by source line.

        Raises:
            CannotProfile: another profile is being taken.
        """
        with self._alone():
            tracemalloc.start()
            try:
                await asyncio.sleep(seconds)
                snapshot = await asyncio.to_thread(tracemalloc.take_snapshot)
                taken = tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()
            return await asyncio.to_thread(_memory_report, snapshot, seconds, taken)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._busy:
            raise Busy("another profile is being taken; try again when it has ended")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False


def _memory_report(snapshot: tracemalloc.Snapshot, seconds: float, taken_bytes: int) -> str:
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes
    kinds = Counter(type(obj).__qualname__ for obj in gc.get_objects())
    traced = snapshot.filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)])
    lines = [
        f"Peak of the process: {_mebibytes(peak_bytes)}",
        "",
        "Objects that the garbage collector knows, by type:",
        *(f"{count:>12}  {name}" for name, count in kinds.most_common(OBJECT_TYPES)),
        "",
        f"Taken in {seconds:g} seconds and still held: {_mebibytes(taken_bytes)}, by source line:",
    ]
    for entry in traced.statistics("lineno")[:SOURCE_LINES]:
        frame = entry.traceback[0]
        lines.append(f"{entry.size:>12} bytes {entry.count:>8} blocks  {frame.filename}:{frame.lineno}")
    return "\n".join([*lines, ""])


def _mebibytes(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"
