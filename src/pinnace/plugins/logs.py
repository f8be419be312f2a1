"""The log lines of plugins, on their way into ours.

A plugin in another process writes one JSON object a line to stderr; `parse_line` reads it. One in this
process logs through `get_logger`, and its lines reach the log of the backup or restore that called it, as
those of a process do: its warnings and errors count. (docs/spec: PLG 11)
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import orjson

from pinnace.notices.notice import Notice

LOGGER_PREFIX: Final = "pinnace.plugin"
"""The beginning of the names of plugins' loggers."""

_LEVELS: Final = {"trace": "debug", "debug": "debug", "info": "info", "warn": "warning", "error": "error"}
_PLAIN = re.compile(r"\[(TRACE|DEBUG|INFO|WARN|ERROR)\]")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)
_NOT_FIELDS: Final = frozenset(
    ("@message", "@level", "@timestamp", "@logSourceSetBy", "time", "timestamp", "level")
)


class LogSink(Protocol):
    """Receives the lines of plugins; `archive.runlog.RunLog` is one."""

    def log(
        self, level: str, msg: str, /, *, error: BaseException | str | None = None, **fields: Any
    ) -> None:
        """Write a line. Levels are `debug`, `info`, `warning` and `error`."""
        ...


class ProcessLog:
    """The sink outside of any backup or restore: the standard library's logging, of this module's logger."""

    _logger = logging.getLogger("pinnace.plugins")

    def log(
        self, level: str, msg: str, /, *, error: BaseException | str | None = None, **fields: Any
    ) -> None:
        """Write a line; the server's formatter puts the attribute `fields` of a record on it."""
        if error is not None:
            fields["error"] = error
        number = logging.getLevelNamesMapping()[level.upper()]
        self._logger.log(number, "%s", msg, extra={"fields": fields})


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a plugin as it is passed to a sink."""

    level: str
    message: str
    fields: Mapping[str, Any] = msgspec.field(default_factory=dict)


def parse_line(line: str) -> LogLine:
    """Read one line of a plugin's stderr; a line of another form is plain text, never an error."""
    if line.startswith("{"):
        try:
            raw = orjson.loads(line)
        except orjson.JSONDecodeError:
            return _plain(line)
        return _structured(raw, line)
    return _plain(line)


def _plain(line: str) -> LogLine:
    marked = _PLAIN.match(line)
    return LogLine(level=_LEVELS[marked[1].lower()] if marked else "debug", message=line)


def _structured(raw: Mapping[str, Any], line: str) -> LogLine:
    message, level, moment = raw.get("@message", ""), raw.get("@level", ""), raw.get("@timestamp")
    if not isinstance(message, str) or not isinstance(level, str):
        return _plain(line)
    if moment is not None and not (isinstance(moment, str) and _TIMESTAMP.fullmatch(moment)):
        return _plain(line)
    name = _LEVELS.get(level.strip().lower())
    if name is None:
        return LogLine(level="debug", message=line)
    fields = {key: _text_or_scalar(value) for key, value in raw.items() if key not in _NOT_FIELDS}
    if raw.get("@logSourceSetBy") != "plugin":
        fields.pop("logSource", None)
    if "error" in fields:
        fields["error"] = str(fields["error"])
    return LogLine(level=name, message=message, fields=fields)


def _text_or_scalar(value: object) -> object:
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else value


# --- Plugins in this process ----------------------------------------------------------------------------

_current: ContextVar[tuple[LogSink, str] | None] = ContextVar("pinnace_plugin_log", default=None)


@contextmanager
def plugin_lines_to(sink: LogSink, plugin: str) -> Iterator[None]:
    """Send the lines that are logged inside through `get_logger`, also by tasks started inside, to `sink`."""
    token = _current.set((sink, plugin))
    try:
        yield
    finally:
        _current.reset(token)


def get_logger(name: str) -> logging.Logger:
    """The logger of a plugin's module, for example `log = get_logger(__name__)`.

    Its lines are in the log of the backup or restore that they are about, wherever the plugin runs; a warning
    or an error there counts as one of the backup or restore.
    """
    return logging.getLogger(f"{LOGGER_PREFIX}.{name}")


def level_of(number: int) -> str:
    """Our name of a level of the standard library."""
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"


_OWN_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that a record was given as `extra`."""
    return {
        name: _text_or_scalar(value) for name, value in vars(record).items() if name not in _OWN_ATTRIBUTES
    }


class _Forwarding(logging.Handler):
    """Sends the records of all plugins' loggers to the log of the calling run, else to the process's own."""

    def emit(self, record: logging.LogRecord) -> None:
        bound = _current.get()
        if bound is None:
            root = logging.getLogger()
            if root.isEnabledFor(record.levelno):
                root.handle(record)
            return
        sink, plugin = bound
        source = f"{Path(record.pathname).name}:{record.lineno}"
        fields = {**extra_fields(record), "pluginName": plugin, "logSource": source}
        # A line may carry its error either way; the sink takes it apart from the other fields.
        given = fields.pop("error", None)
        error: BaseException | str | None = record.exc_info[1] if record.exc_info else None
        if error is None and given is not None:
            error = str(given)
        text = record.getMessage()
        message = record.msg.saying(text) if isinstance(record.msg, Notice) else text
        sink.log(level_of(record.levelno), message, error=error, **fields)


_above_plugins = logging.getLogger(LOGGER_PREFIX)
_above_plugins.setLevel(logging.DEBUG)
_above_plugins.propagate = False
_above_plugins.addHandler(_Forwarding())
