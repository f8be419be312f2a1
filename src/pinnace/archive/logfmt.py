"""One log entry as one line, in the two formats of the logs: `text` (logfmt) and `json`.

Pure: no clock, no file. `RunLog` (the log of one backup or restore) and the process's own logging both
format through here, so that the two cannot drift apart. A value can hold anything, since names, outputs and
error texts are foreign input: line breaks, quotes and unprintable characters are escaped, so that no text
can forge a line or a field. (docs/spec: SRV 9, BKP 3.5)
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Protocol

import msgspec
import orjson

from pinnace.api.values.error_texts import error_text

LEVELS = ("trace", "debug", "info", "warning", "error", "fatal", "panic")
"""Level names, least severe first; there is no `warn`. (docs/spec: SRV 2, SRV 9)"""

LEVEL_RANK = {name: rank for rank, name in enumerate(LEVELS)}

_is_bare = re.compile(r"[A-Za-z0-9\-._/@^+]*").fullmatch
_strange_in_key = re.compile(r"[^A-Za-z0-9\-._/@^+]")

_GO_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}

_RESERVED_KEYS = frozenset({"time", "level", "msg"})

_SOURCE_ROOT = f"{Path(__file__).resolve().parents[2]}/"


class LineFormatter(Protocol):
    """Makes a line of an entry. `fields` may come in any order; the line ends with a line break."""

    def format(self, time: str, level: str, message: str, fields: Mapping[str, object], /) -> str: ...

    def error_fields(self, error: BaseException, /) -> dict[str, object]: ...

    def template(
        self, level: str, message: str, fields: Mapping[str, object], varying: str, /
    ) -> "LineTemplate":
        """Prepare lines that differ only in time, two numbers of the message and the text of one field."""
        ...


LineTemplate = Callable[[str, int, int, str], str]
"""Makes a line of a time, the numbers for the two `%d` of the message, and the text of the varying field."""


def new_formatter(format_name: str) -> LineFormatter:
    """The formatter for a `--log-format`.

    Raises:
        ValueError: neither `text` nor `json`.
    """
    if format_name == "text":
        return TextFormatter()
    if format_name == "json":
        return JSONFormatter()
    raise ValueError(f"invalid log format {format_name!r}: must be text or json")


def level_rank(level: str) -> int:
    """The position of a level name in `LEVELS`.

    Raises:
        ValueError: not a level name.
    """
    try:
        return LEVEL_RANK[level]
    except KeyError:
        raise ValueError(f"invalid log level {level!r}: must be one of {', '.join(LEVELS)}") from None


def quote(text: str) -> str:
    """`text` as a logfmt value: bare if harmless (also when empty), else in Go's double quotes."""
    if _is_bare(text):
        return text
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(character: str) -> str:
    if character in _GO_ESCAPES:
        return _GO_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, carried by Python's surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def value_text(value: object) -> str:
    """A field's value as Go prints it: lists as `[a b]`, absent values as `<nil>`."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(value_text, value)) + "]"
    return str(value)


class _QuotedValues(dict[object, str]):
    """Quoted text by value. Most values of a log repeat (resource, namespace), so looking up pays.

    Only strings are kept: 1, 1.0 and True would share an entry. Bounded, since names do not repeat.
    """

    _MAX_ENTRIES = 1024
    _MAX_LENGTH = 256

    def __missing__(self, value: object) -> str:
        if type(value) is not str:
            return quote(value_text(value))
        quoted = value if _is_bare(value) else quote(value)
        if len(self) >= self._MAX_ENTRIES:
            self.clear()
        if len(value) <= self._MAX_LENGTH:
            self[value] = quoted
        return quoted


class _Layout(msgspec.Struct, frozen=True):
    """The shared part of lines with the same field names: the text around the values, and their order."""

    pieces: list[str]
    pick: Callable[[Mapping[str, object]], tuple[object, ...]]


class TextFormatter:
    """logfmt: `time="..." level=info msg=...`, then the fields in alphabetical order.

    Lines with the same field names share a layout that is worked out once.
    """

    _MAX_LAYOUTS = 1024

    def __init__(self) -> None:
        self._quoted = _QuotedValues()
        self._layouts: dict[tuple[str, ...], _Layout] = {}

    def format(self, time: str, level: str, message: str, fields: Mapping[str, object], /) -> str:
        shape = tuple(fields)
        layout = self._layouts.get(shape) or self._new_layout(shape)
        values = (time, level, message, *layout.pick(fields))
        line = layout.pieces[:]
        try:
            line[1::2] = map(self._quoted.__getitem__, values)
        except TypeError:  # a list or dict among them cannot be looked up
            line[1::2] = [quote(value_text(value)) for value in values]
        return "".join(line)

    def error_fields(self, error: BaseException, /) -> dict[str, object]:
        """`error`, and `error.file` and `error.function` when the origin is known."""
        return {"error": error_text(error), **_origin_fields(error)}

    def template(
        self, level: str, message: str, fields: Mapping[str, object], varying: str, /
    ) -> LineTemplate:
        """The text around the varying parts is made once: a line then costs one formatting."""
        mark = "\x00"  # quoted in a value, so that no field can hold it as it is
        layout = self._new_layout((*fields, varying))
        values = ("", level, "", *layout.pick({**fields, varying: ""}))
        line = layout.pieces[:]
        line[1::2] = [quote(value_text(value)) for value in values]
        # Times, messages and the varying field stand where the layout has them.
        names = layout.pick({**dict.fromkeys(fields, ""), varying: mark})
        line[1] = line[5] = line[7 + 2 * names.index(mark)] = mark
        before, after_time, after_message, end = "".join(line).replace("%", "%%").split(mark)
        pattern = f"{before}%s{after_time}{quote(message)}{after_message}%s{end}"
        quoted = self._quoted

        def fill(time: str, first: int, second: int, value: str) -> str:
            shown = value if _is_bare(value) else quote(value)
            return pattern % (quoted[time], first, second, shown)

        return fill

    def _new_layout(self, shape: tuple[str, ...]) -> _Layout:
        shown = {key: _strange_in_key.sub("_", _without_clash(key)) for key in shape}
        ordered = sorted(shape, key=lambda key: shown[key])
        names = ["time=", " level=", " msg=", *(f" {shown[key]}=" for key in ordered)]
        pieces = [piece for name in names for piece in (name, "")] + ["\n"]
        if len(self._layouts) >= self._MAX_LAYOUTS:  # plugins choose their own field names
            self._layouts.clear()
        self._layouts[shape] = layout = _Layout(pieces, _picker(ordered))
        return layout


def _picker(keys: list[str]) -> Callable[[Mapping[str, object]], tuple[object, ...]]:
    """A function from the fields to their values in the order of `keys`, always as a tuple."""
    if len(keys) > 1:
        return itemgetter(*keys)
    return lambda fields: tuple(fields[key] for key in keys)


def _without_clash(key: str) -> str:
    """Rename fields that would be confused with the entry's own time, level or message."""
    return f"fields.{key}" if key in _RESERVED_KEYS else key


class JSONFormatter:
    """One JSON object a line with sorted keys; the text of an error is under `error.message`."""

    def format(self, time: str, level: str, message: str, fields: Mapping[str, object], /) -> str:
        if not _RESERVED_KEYS.isdisjoint(fields):
            fields = {_without_clash(key): value for key, value in fields.items()}
        entry: dict[str, Any] = {"time": time, "level": level, "msg": message, **fields}
        try:
            return orjson.dumps(
                entry, default=value_text, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
            ).decode()
        except TypeError:  # text that is not valid Unicode, integers beyond 64 bits
            return json.dumps(entry, default=value_text, sort_keys=True) + "\n"

    def template(
        self, level: str, message: str, fields: Mapping[str, object], varying: str, /
    ) -> LineTemplate:
        """JSON needs no prepared layout: its library is as fast for whole lines."""
        fixed = dict(fields)

        def fill(time: str, first: int, second: int, value: str) -> str:
            return self.format(time, level, message % (first, second), {**fixed, varying: value})

        return fill

    def error_fields(self, error: BaseException, /) -> dict[str, object]:
        """`error.message`, and `error.file` and `error.function` when the origin is known."""
        return {"error.message": error_text(error), **_origin_fields(error)}


def _origin_fields(error: BaseException) -> dict[str, object]:
    frame_and_line = _origin(error)
    if frame_and_line is None:
        return {}
    frame, line = frame_and_line
    function = f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}"
    return {"error.file": f"{path_text(frame.f_code.co_filename)}:{line}", "error.function": function}


def _origin(error: BaseException) -> tuple[FrameType, int] | None:
    """The place where the innermost cause was raised, preferably in our own code."""
    cause: BaseException | None = error
    origin: tuple[FrameType, int] | None = None
    while cause is not None:
        origin = _raised_at(cause.__traceback__) or origin
        cause = cause.__cause__
    return origin


def _raised_at(trace: TracebackType | None) -> tuple[FrameType, int] | None:
    last: tuple[FrameType, int] | None = None
    own: tuple[FrameType, int] | None = None
    while trace is not None:
        last = (trace.tb_frame, trace.tb_lineno)
        if trace.tb_frame.f_code.co_filename.startswith(_SOURCE_ROOT):
            own = last
        trace = trace.tb_next
    return own or last


def path_text(file_name: str) -> str:
    """A path from the repository's root; of foreign code the last two parts, never the machine's paths."""
    if file_name.startswith(_SOURCE_ROOT):
        return file_name[len(_SOURCE_ROOT) :]
    return "/".join(file_name.split("/")[-2:])


_sources: dict[tuple[int, int], tuple[str, CodeType]] = {}


def source_text(frame: FrameType) -> str:
    """The `logSource` field: the file relative to the repository, and the line that a frame is at.

    Working out a line number takes longer than all the rest of a log line, so it is done once a call site.
    The code object is kept beside the text, so that its id stays its own.
    """
    code = frame.f_code
    site = (id(code), frame.f_lasti)
    known = _sources.get(site)
    if known is None:
        known = _sources[site] = (f"{path_text(code.co_filename)}:{frame.f_lineno}", code)
    return known[0]


def local_time_text(moment: datetime) -> str:
    """RFC 3339 with whole seconds in the process's zone. (docs/spec: SRV 9)"""
    return moment.astimezone().isoformat(timespec="seconds").replace("+00:00", "Z")
