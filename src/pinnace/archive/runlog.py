"""The log of one backup or restore: many lines, each cheap, kept as a gzip file and counted.

Engines write several lines per item, so a line must cost about a microsecond and a half; the standard
library's logging takes five and more. Lines are formatted at once and kept in memory until 64 KiB are
together, then compressed and written. What is on disk can be read at any time: every write ends on a
byte boundary that decompresses. (docs/spec: SRV 9, BKP 3.4, BKP 3.5)
"""

import os
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, TextIO

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.archive.deflate import SYNC_FLUSH, new_compressor
from pinnace.archive.logfmt import (
    LEVEL_RANK,
    LineFormatter,
    level_rank,
    local_time_text,
    new_formatter,
    source_text,
)
from pinnace.archive.run_results import RunResults
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice

FLUSH_BYTES = 64 * 1024
"""Characters gathered before they are compressed: at this size the fixed cost of a write does not show."""

Hide = Callable[[str], str]
"""Removes from a line the parts that its reader may not see."""
Noticed = Callable[[str, Code], None]
"""Is called with the severity (`warning` or `error`) and the code of each that is counted."""


_ONE_SECOND = timedelta(seconds=1)

_DEBUG = LEVEL_RANK["debug"]
_INFO = LEVEL_RANK["info"]
_WARNING = LEVEL_RANK["warning"]
_ERROR = LEVEL_RANK["error"]


class RunLog:
    """A log with fields bound to every line.

    Bound views made by `child` share file, counts and level with it. Lines may come from several threads.

    Args:
        path: the gzip file to write, created with mode 0600; None keeps counts and echoes only.
        fields: on every line, for example `{"backup": "velero/b1"}`.
        level: the lowest level written; counts do not depend on it.
        fmt: `text` or `json`.
        echo: gets every written line too, also after `close`; a stream that fails is left alone from then on.

    Raises:
        OSError: the file cannot be created.
        ValueError: unknown level or format.
    """

    __slots__ = ("_bound", "_sink")

    def __init__(
        self,
        path: Path | None,
        *,
        fields: Mapping[str, str],
        level: str = "info",
        fmt: str = "text",
        echo: TextIO | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        formatter = new_formatter(fmt)
        threshold = level_rank(level)
        self._bound: dict[str, object] = dict(fields)
        self._sink = _Sink(path, formatter, threshold, echo, clock)

    def hide_in_file(self, hide: Hide) -> None:
        """Change the lines of the file from now on, not those of the echo; a line stays a line."""
        self._sink.hide = hide

    def count_codes_by(self, noticed: Noticed) -> None:
        """Call `noticed` for each warning and error that is counted from now on."""
        self._sink.noticed = noticed

    def debug(self, msg: str, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """Write a line that helps to find a fault."""
        if self._sink.threshold <= 1:
            self._write("debug", msg, error, fields)

    def info(self, msg: str, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """Write a line about the course of the run."""
        if self._sink.threshold <= 2:
            self._write("info", msg, error, fields)

    def warning(self, msg: Notice, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """Count a warning, and write it unless the level is higher."""
        self._count(_WARNING, msg, error, fields)
        if self._sink.threshold <= _WARNING:
            self._write("warning", msg, error, {**msg.facts, "code": msg.code, **fields})

    def error(self, msg: Notice, /, *, error: BaseException | str | None = None, **fields: object) -> None:
        """Count an error, and write it unless the level is higher.

        An exception given as `error` becomes `error` (text) or `error.message` (json) with its origin; any
        other value stays as it is, as field `error`. (docs/spec: SRV 9, SRV-016)
        """
        self._count(_ERROR, msg, error, fields)
        if self._sink.threshold <= _ERROR:
            self._write("error", msg, error, {**msg.facts, "code": msg.code, **fields})

    def log(
        self, level: str, msg: str, /, *, error: BaseException | str | None = None, **fields: object
    ) -> None:
        """Write at a level given by name; for lines passed on from a plugin, whose `logSource` is kept.

        Raises:
            ValueError: not a level name.
        """
        rank = level_rank(level)
        if rank >= _WARNING:
            notice = msg if isinstance(msg, Notice) else Notice(Code.ACTION_MESSAGE, msg)
            self._count(rank, notice, error, fields)
            fields = {**notice.facts, "code": notice.code, **fields}
        if self._sink.threshold <= rank:
            self._write(level, msg, error, fields)

    def results(self) -> dict[str, Any]:
        """The warnings and errors so far, for the results file of a backup."""
        return self._sink.results.to_dict(self._sink.hide)

    def child(self, **fields: object) -> "RunLog":
        """A view with more fields on every line. Cheap enough for one an item."""
        view = object.__new__(RunLog)
        view._bound = {**self._bound, **fields}
        view._sink = self._sink
        return view

    def info_series(self, message: str, varying: str, /, **fields: object) -> Callable[[int, int, str], None]:
        """A quick `info` for a line an item.

        Args:
            message: of several words, with two `%d` and no other `%`.
            varying: the name of the one field whose text varies.
            fields: what all lines share. `logSource` is where this is called, not where a line is written.

        Returns:
            Writes a line; takes the two numbers and the text of the varying field.
        """
        if self._sink.threshold > _INFO:
            return lambda _first, _second, _value: None
        source = source_text(sys._getframe(1))
        fixed: dict[str, object] = {"logSource": source, **self._bound, **fields}
        fill, sink = self._sink.formatter.template("info", message, fixed, varying), self._sink

        def write(first: int, second: int, value: str) -> None:
            sink.write_line(fill(sink.time(), first, second, value))

        return write

    @property
    def writes_debug(self) -> bool:
        """Whether debug lines are written; hot paths ask before they make a line."""
        return self._sink.threshold <= _DEBUG

    @property
    def warnings(self) -> int:
        """Warnings so far, written or not; fixed once the log is closed."""
        return self._sink.warnings

    @property
    def errors(self) -> int:
        """Errors (and worse) so far, written or not; fixed once the log is closed."""
        return self._sink.errors

    @property
    def path(self) -> Path | None:
        """The gzip file."""
        return self._sink.path

    def flush(self) -> None:
        """Write every line so far to the file and the echo. An error of the disk is raised by `close`."""
        self._sink.flush()

    def close(self) -> None:
        """Finish the file; the counts are final from here, later lines go to the echo only. Idempotent.

        Raises:
            OSError: some line could not be written. The file is closed all the same.
        """
        self._sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _count(
        self, rank: int, notice: Notice, error: BaseException | str | None, fields: Mapping[str, object]
    ) -> None:
        if self._sink.count(rank):
            severity = "warnings" if rank == _WARNING else "errors"
            self._sink.results.add(severity, notice, error, {**self._bound, **fields})
            if self._sink.noticed is not None:
                self._sink.noticed(severity.removesuffix("s"), notice.code)

    def _write(
        self, level: str, msg: str, error: BaseException | str | None, fields: dict[str, object]
    ) -> None:
        source = source_text(sys._getframe(2))  # the caller of debug, info, ...
        line_fields: dict[str, object] = {"logSource": source, **self._bound, **fields}
        if error is not None:
            if isinstance(error, BaseException):
                # Fields that a plugin has set are nearer to the origin than those that are found here.
                line_fields = {**self._sink.formatter.error_fields(error), **line_fields}
            else:
                line_fields["error"] = error
        self._sink.write(level, msg, line_fields)


class _Sink:
    """The state that all views of one log share: file, buffer, counts, cached time."""

    def __init__(
        self,
        path: Path | None,
        formatter: LineFormatter,
        threshold: int,
        echo: TextIO | None,
        clock: Clock,
    ) -> None:
        self.hide: Hide | None = None
        self.noticed: Noticed | None = None
        self.results = RunResults()
        self.path = path
        self.formatter = formatter
        self.threshold = threshold
        self.warnings = 0
        self.errors = 0
        self._echo = echo
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._buffered = 0
        self._failure: OSError | None = None
        self._closed = False
        self._second = clock.now().replace(microsecond=0)
        self._next_second = self._second + _ONE_SECOND
        self._time = local_time_text(self._second)
        self._file: BinaryIO | None = None if path is None else _create_private(path)
        self._compressor = new_compressor()

    def count(self, rank: int) -> bool:
        """Count a line at or above warning, and return whether it was one.

        The counts of a closed log are in a status already: nothing is added to them.
        """
        with self._lock:
            if self._closed or rank < _WARNING:
                return False
            if rank == _WARNING:
                self.warnings += 1
            else:
                self.errors += 1
            return True

    def time(self) -> str:
        """The current time as it is written in lines; the text is made once a second."""
        now = self._clock.now()
        if not self._second <= now < self._next_second:
            self._second = now.replace(microsecond=0)
            self._next_second = self._second + _ONE_SECOND
            self._time = local_time_text(self._second)
        return self._time

    def write(self, level: str, message: str, fields: Mapping[str, object]) -> None:
        self.write_line(self.formatter.format(self.time(), level, message, fields))

    def write_line(self, line: str) -> None:
        if self._echo is not None:
            self._write_echo(line)
        if self._file is not None:
            if self.hide is not None:
                line = self.hide(line)
            self._lines.append(line)
            self._buffered += len(line)
            if self._buffered >= FLUSH_BYTES:
                with self._lock:
                    self._write_file()

    def flush(self) -> None:
        with self._lock:
            self._write_file()
        if self._echo is not None:
            try:
                self._echo.flush()
            except (OSError, ValueError):
                self._echo = None

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._write_file()
            self._closed = True
            file, self._file = self._file, None
            if file is None:
                return
            try:
                with file:
                    if self._failure is None:
                        file.write(self._compressor.flush())
                        file.flush()
                        os.fsync(file.fileno())
            except OSError as error:
                self._failure = self._failure or error
        if self._failure is not None:
            raise self._failure

    def _write_echo(self, line: str) -> None:
        try:
            if self._echo is not None:
                self._echo.write(line)
        except (OSError, ValueError):  # a closed pipe or stream must not end a backup
            self._echo = None

    def _write_file(self) -> None:
        """Compress and write what is buffered. After a failure nothing more is kept: the file is lost."""
        # Another thread may append meanwhile, without the lock: remove exactly the lines that are taken.
        taken = self._lines[:]
        del self._lines[: len(taken)]
        self._buffered = 0
        if not taken or self._file is None or self._failure is not None:
            return
        data = "".join(taken).encode(errors="backslashreplace")
        try:
            self._file.write(self._compressor.compress(data) + self._compressor.flush(SYNC_FLUSH))
            self._file.flush()
        except OSError as error:
            self._failure = error


def _create_private(path: Path) -> BinaryIO:
    """Create or empty the file, readable by its owner only: logs name everything in a cluster."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "wb")
