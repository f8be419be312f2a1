"""What the outputs of a program are kept as, how far it says it is, and the snapshots that it lists."""

from typing import Any

import msgspec
import orjson

from pinnace.volumes.uploader.errors import UnexpectedOutput


class Progress(msgspec.Struct, frozen=True, kw_only=True):
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
        """The kept end for people."""
        text = self._data.decode("utf-8", "replace").strip()
        return f"…{text}" if self.is_cut else text


def listed_snapshots(output: bytes, program: str) -> list[Any]:
    """The list of snapshots that restic and kopia print as JSON. Raises UnexpectedOutput."""
    try:
        found = orjson.loads(output)
    except orjson.JSONDecodeError as error:
        raise UnexpectedOutput(f"{program} printed no list of snapshots: {error}") from error
    return found if isinstance(found, list) else []


def snapshot_ids(output: bytes, program: str) -> frozenset[str]:
    """The full ids of all snapshots that a program lists, but for incomplete ones.

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
