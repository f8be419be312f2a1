"""The log of a plugin's process: one JSON object a line on stderr, as hosts read it. (docs/spec: PLG 11)"""

import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

import orjson

from pinnace.plugins.errors import describe
from pinnace.plugins.logs import extra_fields, level_of

_TRACE: Final = 5
_NUMBERS: Final = {
    "panic": logging.CRITICAL,
    "fatal": logging.CRITICAL,
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": _TRACE,
}
_NAMES: Final = {"warning": "warn"}


class HostFormatter(logging.Formatter):
    """Formats a record as hosts read it; what was given as `extra` becomes fields."""

    def format(self, record: logging.LogRecord) -> str:
        level = level_of(record.levelno)
        line: dict[str, object] = {
            "@level": _NAMES.get(level, level),
            "@message": record.getMessage(),
            "@timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "logSource": f"{Path(record.pathname).name}:{record.lineno}",
            "@logSourceSetBy": "plugin",
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = describe(record.exc_info[1])
        line |= extra_fields(record)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def configure_logging(level: str, stream: TextIO | None = None) -> None:
    """Send everything from a level on to stderr, one line at a time."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(HostFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_NUMBERS.get(level, logging.INFO))
    # What gRPC says about its own tasks is of no use to an operator.
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.getLogger("grpc").setLevel(logging.WARNING)
    # At debug the libraries of AWS write requests and answers, with the credentials in them.
    for name in ("botocore", "urllib3"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.captureWarnings(True)
