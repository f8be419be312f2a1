"""The kept output of a program, its progress, and the snapshots that it lists."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import orjson

from pinnace.volumes.uploader.errors import UnexpectedOutput

CUT: Final = "…"
"""The text of an output whose beginning was dropped begins with it."""

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECONDS: Final = 10**9


class ByteCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a backup or restore."""

    total_bytes: int
    bytes_done: int


class Tail:
    """Keeps the end of an output."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._data = bytearray()
        self.is_cut = False

    def feed(self, chunk: bytes) -> None:
        """Take a part of the output."""
        self._data += chunk
        if len(self._data) > self._limit_bytes:
            self.is_cut = True
            del self._data[: -self._limit_bytes]

    @property
    def data(self) -> bytes:
        """The kept end."""
        return bytes(self._data)

    @property
    def text(self) -> str:
        """The kept end as text."""
        text = self._data.decode("utf-8", "replace").strip()
        return f"{CUT}{text}" if self.is_cut else text


def json_object(output: bytes) -> dict[str, Any]:
    """The JSON object that a program printed; empty if it printed anything else."""
    try:
        value = orjson.loads(output) if output else {}
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def positive_number(values: Mapping[str, Any], name: str) -> int:
    """A member of a JSON object as a whole number; 0 if it is no positive number."""
    value = values.get(name)
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def listed_snapshots(output: bytes, program: str) -> list[Any]:
    """The list of snapshots that restic and kopia print as JSON. Raises UnexpectedOutput."""
    try:
        found = orjson.loads(output)
    except orjson.JSONDecodeError as error:
        raise UnexpectedOutput(f"{program} printed no list of snapshots: {error}") from error
    return found if isinstance(found, list) else []


def snapshot_ids(output: bytes, program: str) -> frozenset[str]:
    """The full ids of all complete snapshots that a program lists.

    Raises:
        UnexpectedOutput: it listed something else.
    """
    snapshots = [
        each
        for each in listed_snapshots(output, program)
        if not (isinstance(each, dict) and each.get("incomplete"))
    ]
    ids = [each.get("id") for each in snapshots if isinstance(each, dict)]
    named = frozenset(each for each in ids if isinstance(each, str) and each)
    if len(named) != len(snapshots):
        raise UnexpectedOutput(f"{program} listed a snapshot without id")
    return named


def parse_nanoseconds(text: str) -> int | None:
    """Nanoseconds since 1970 of a time as kopia and restic write it; None if it is none."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    try:
        whole = datetime.fromisoformat(f"{match[1]}{match[3].replace('Z', '+00:00')}") - _EPOCH
    except ValueError:
        return None
    return (whole.days * 86400 + whole.seconds) * _NANOSECONDS + int((match[2] or "").ljust(9, "0"))
