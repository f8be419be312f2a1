"""What reaches a terminal: no tracebacks, no notes of the interpreter, no control characters of others.

With `PINNACE_TRACEBACK=1` in the environment everything is shown as Python says it.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final, TextIO, cast

TRACEBACK_VARIABLE: Final = "PINNACE_TRACEBACK"

_STREAMS: Final = ("stdout", "stderr")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters but newline and tab; and those that reorder or break lines of text."""


def shows_tracebacks() -> bool:
    """Whether the user asked for tracebacks."""
    return bool(os.environ.get(TRACEBACK_VARIABLE))


def printable(text: str) -> str:
    """Text for a terminal, which what others wrote into a cluster or a location must not be able to steer."""
    return _UNPRINTABLE.sub(_as_text, text)


def _as_text(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def complain(text: str) -> None:
    """Print a line to stderr: an error or a warning, with what others wrote in it.

    What cannot be written is left out: the exit code says the rest.
    """
    if sys.stderr is not None:
        with suppress(OSError):
            print(printable(text), file=sys.stderr)


class GuardedStream:
    """A terminal that prints control characters as text. All else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream
        """For what draws on purpose."""

    def write(self, text: str) -> int:
        """Write the text; returns its length."""
        self.unguarded.write(printable(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> BinaryIO:
        """Takes bytes, which are text on a terminal."""
        return cast(BinaryIO, _GuardedBytes(self))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


class _GuardedBytes:
    def __init__(self, stream: GuardedStream) -> None:
        import codecs

        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")

    def write(self, data: bytes) -> int:
        self._stream.write(self._decoder.decode(data))
        return len(data)

    def flush(self) -> None:
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream.unguarded.buffer, name)


@contextmanager
def guarded_terminal() -> Iterator[None]:
    """Inside, what is written to a terminal cannot steer it."""
    for name in _STREAMS:
        stream = getattr(sys, name)
        if stream is not None and stream.isatty():
            setattr(sys, name, GuardedStream(stream))
    try:
        yield
    finally:
        for name in _STREAMS:
            # click puts another stream there when the reader has gone, which must stay.
            if isinstance(stream := getattr(sys, name), GuardedStream):
                setattr(sys, name, stream.unguarded)


def silence_the_interpreter() -> None:
    """From here on Python's own notes (unraisable errors, unawaited coroutines, lost tasks) are not printed.

    They come after the error that counts, which is reported as one line.
    """
    if shows_tracebacks():
        return
    import warnings

    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _unraisable, /: None


def silence_loggers() -> None:
    """Print lines of loggers as one line each while no log is set up; those of asyncio not at all."""
    if shows_tracebacks():
        return
    import logging

    class OneLine(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not record.name.startswith(("asyncio", "concurrent")):
                complain(f"{record.levelname}: {record.getMessage()}")

    logging.lastResort = OneLine(logging.WARNING)
