"""The process's own log: the standard library's logging in the format of the backup logs.

Everything that is not the log of one backup or restore goes through here, to stdout. The format itself is
`archive.logfmt`'s; this module maps records and levels to it. (docs/spec: SRV 2, SRV 9)
"""

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

from pinnace.archive.logfmt import LineFormatter, level_rank, local_time_text, new_formatter, path_text
from pinnace.runtime.logfields import RECORD_ATTRIBUTE

TRACE = 5
PANIC = 60

_NUMBERS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "panic": PANIC,
}

_TALKATIVE = ("botocore", "urllib3")
"""Libraries that write requests and answers at debug, with the credentials in them."""


def level_number(name: str) -> int:
    """The standard library's number for a `--log-level`.

    Raises:
        ValueError: not a level name; `warn` is none. (docs/spec: SRV-003)
    """
    level_rank(name)
    return _NUMBERS[name]


def level_name(number: int) -> str:
    """The name written for a number: the nearest level that is not more severe."""
    name = "trace"
    for candidate, lowest in _NUMBERS.items():
        if number >= lowest:
            name = candidate
    return name


class RecordFormatter(logging.Formatter):
    """Formats log records as logfmt or JSON lines, with fields, `logSource` and errors.

    Fields come from `runtime.logfields`. An error is the field `error` if that holds an exception, else the
    record's `exc_info`; fields set by hand (a plugin's `error.file`) are kept.
    """

    def __init__(self, formatter: LineFormatter) -> None:
        super().__init__()
        self._formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        given: Mapping[str, object] = getattr(record, RECORD_ATTRIBUTE, {})
        fields: dict[str, object] = {"logSource": f"{path_text(record.pathname)}:{record.lineno}", **given}
        error = fields.get("error")
        if isinstance(error, BaseException):
            del fields["error"]
        elif record.exc_info and "error" not in fields:
            error = record.exc_info[1]
        if isinstance(error, BaseException):
            fields = {**self._formatter.error_fields(error), **fields}
        time = local_time_text(datetime.fromtimestamp(record.created, UTC))
        line = self._formatter.format(time, level_name(record.levelno), record.getMessage(), fields)
        return line.removesuffix("\n")


def configure_logging(level: str, format_name: str, *, stream: TextIO | None = None) -> logging.Handler:
    """Send the whole process's log to `stream` (stdout) from `level` on; replaces an earlier set-up.

    Libraries that would write credentials at debug write from info on.

    Returns the handler, so that a caller can take it away again.

    Raises:
        ValueError: unknown level or format.
    """
    handler = logging.StreamHandler(stream if stream is not None else sys.stdout)
    handler.setFormatter(RecordFormatter(new_formatter(format_name)))
    root = logging.getLogger()
    root.setLevel(level_number(level))
    for former in [known for known in root.handlers if isinstance(known.formatter, RecordFormatter)]:
        root.removeHandler(former)
    root.addHandler(handler)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.INFO)
    logging.captureWarnings(True)
    return handler
