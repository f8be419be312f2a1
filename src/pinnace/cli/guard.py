"""Guards the terminal from tracebacks, notes of the interpreter, and control characters in untrusted text.

With `PINNACE_TRACEBACK=1` in the environment tracebacks and notes are shown.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final, TextIO, cast

TRACEBACK_VARIABLE: Final = "PINNACE_TRACEBACK"

_STREAMS: Final = ("stdout", "stderr")
_UNPRINTABLE: Final = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
"""Control characters except newline and tab, and characters that reorder or break lines of text."""
_INVISIBLE: Final = "[\u00a0\u00ad\u1680\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff]"
"""Characters that look like a blank or like nothing: what is wrong with a text must be seen in the error."""


def shows_tracebacks() -> bool:
    """Whether the user asked for tracebacks."""
    return bool(os.environ.get(TRACEBACK_VARIABLE))


def printable(text: str) -> str:
    """Text with its control characters escaped, so that untrusted text cannot steer a terminal."""
    if text.isprintable():
        return text  # nearly always, and the pattern need not be compiled
    return re.sub(_UNPRINTABLE, _as_text, text)


def _as_text(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def can_redraw(stream: TextIO) -> bool:
    """Whether the stream is a terminal that knows control characters; that of an editor (`dumb`) does not."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def complain(text: str) -> None:
    """Print an error or a warning to stderr, with control characters and invisible ones escaped.

    If stderr cannot be written to, nothing happens: the exit code tells enough.
    """
    if sys.stderr is not None:
        try:
            print(re.sub(_INVISIBLE, _as_text, printable(text)), file=sys.stderr)
        except OSError:
            discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Send what the stream could not write yet, and all that follows, to nowhere.

    Its disk is full or its reader gone. Written again at exit it would fail again, with Python's own message
    and exit code 120.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):  # a stream in memory has no descriptor, one may be closed
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def flush_output() -> None:
    """Write buffered output now, while an error of it can still be reported. Raises OSError.

    After the error the output is discarded, so that it is reported once.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        discard(sys.stdout)
        raise


_drawings: Final[list[Callable[[], None]]] = []


def drawn(erase: Callable[[], None]) -> None:
    """Record that something is drawn on the terminal; `erase` is called before anything else is written."""
    if erase not in _drawings:
        _drawings.append(erase)


def erased(erase: Callable[[], None]) -> None:
    """Record that nothing is drawn any more."""
    if erase in _drawings:
        _drawings.remove(erase)


class GuardedStream:
    """A stream to a terminal that escapes control characters. Its other methods are those of the stream."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream
        """The stream itself, for progress that is drawn with control characters."""

    def write(self, text: str) -> int:
        """Write the text; returns its length."""
        for erase in tuple(_drawings):
            erase()
        self.unguarded.write(printable(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> BinaryIO:
        """A binary stream; on a terminal its bytes are text, and are escaped too."""
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


class PrintableBytes:
    """A destination for text that comes as bytes, such as a log: control characters are escaped.

    A pipe often ends at a terminal, behind `less -R`, `grep` or `tail`.
    """

    def __init__(self, sink: BinaryIO) -> None:
        import codecs

        self._sink = sink
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")

    def write(self, data: bytes) -> int:
        """Write a block; returns its length."""
        self._sink.write(printable(self._decoder.decode(data)).encode())
        return len(data)

    def end(self) -> None:
        """Write what is left of a character that was cut off."""
        self._sink.write(printable(self._decoder.decode(b"", final=True)).encode())


@contextmanager
def guarded_terminal() -> Iterator[None]:
    """Escape control characters that are written to a terminal, until the context ends."""
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
    """Suppress Python's own notes about unraisable errors, unawaited coroutines and lost tasks.

    They follow an error that is already reported, as one line.
    """
    if shows_tracebacks():
        return
    import warnings

    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _unraisable, /: None


@contextmanager
def traced_requests(verbosity: int) -> Iterator[None]:
    """Print the requests of this process to stderr until the context ends, from verbosity 6 on."""
    import logging

    from pinnace.store_access.tracing import traced

    class Plain(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            complain(record.getMessage())

    with traced(verbosity, Plain()):
        yield


def silence_loggers() -> None:
    """Print each record of a logger as one line if no log is set up, and those of asyncio not at all."""
    if shows_tracebacks():
        return
    import logging

    class OneLine(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not record.name.startswith(("asyncio", "concurrent")):
                reason = getattr(record, "fields", {}).get("error", "")
                complain(f"{record.levelname}: {record.getMessage()}{f': {reason}' if reason else ''}")

    logging.lastResort = OneLine(logging.WARNING)
