"""Reads the output of a plugin's process as long as it lives, so that it never has to wait. (PLG 4, 5, 11)"""

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pinnace.aio.lines import LineSplitter
from pinnace.plugins.logs import LogSink, parse_line

LINE_BYTES: Final = 64 * 1024
"""Longer lines are taken in pieces. (docs/spec: PLG 11)"""

_TAIL_LINES = 5


class PluginLog:
    """The lines of a plugin on their way to a sink that may be exchanged.

    Args:
        program: the plugin's program, which stands on every line.
        sink: returns the current sink.
    """

    def __init__(self, program: Path, sink: Callable[[], LogSink]) -> None:
        self._about = {"pluginName": program.name, "cmd": str(program)}
        self._sink = sink
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)

    def own(self, level: str, message: str) -> None:
        """Write a line of ours about the process."""
        self._sink().log(level, message, **self._about)

    def pass_on(self, output: bytes) -> None:
        """Pass on one line of the plugin."""
        line = output.decode(errors="replace").rstrip("\r\n")
        if not line.strip():
            return
        self._tail.append(line)
        parsed = parse_line(line)
        fields = {**parsed.fields, **self._about}
        self._sink().log(parsed.level, parsed.message, **fields)

    @property
    def tail(self) -> str:
        """The last lines, for the error of a process that did not start."""
        return "\n".join(self._tail)


async def drain(stream: asyncio.StreamReader) -> None:
    """Read and drop."""
    while await stream.read(LINE_BYTES):
        pass


async def relay(stream: asyncio.StreamReader, log: PluginLog) -> None:
    """Pass on every line until the end of the stream."""
    lines = LineSplitter(LINE_BYTES, in_pieces=True)
    while chunk := await stream.read(LINE_BYTES):
        for line in lines.feed(chunk):
            log.pass_on(line)
    for line in lines.end():
        log.pass_on(line)
