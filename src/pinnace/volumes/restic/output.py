"""Parsers of restic's output; missing and new fields do no harm. Pure. (docs/spec: PVL 7.4)"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from pinnace.volumes.uploader.errors import UnexpectedOutput
from pinnace.volumes.uploader.existing_files import PERMISSIONS, FileType, SavedDirectory, SavedFile
from pinnace.volumes.uploader.output import (
    ByteCounts,
    json_object,
    listed_snapshots,
    parse_nanoseconds,
    positive_number,
)

MAXIMUM_LINE_BYTES = 1 << 20
"""A longer line is dropped: it is no status line, and must not fill the memory."""


SHORT_ID_LENGTH = 8
_ID = re.compile(r"[0-9a-f]{8,64}")
_TYPES: Final = {"file": FileType.FILE, "dir": FileType.DIRECTORY, "symlink": FileType.LINK}
_REPLACED: Final = "\ufffd"
"""What restic lists in the place of a byte that is not UTF-8."""


class _Node(msgspec.Struct):
    struct_type: str = ""
    type: str = ""
    path: str = ""
    size: int = 0
    mode: int = 0
    mtime: str = ""
    uid: int = 0
    gid: int = 0


class BackupOutput:
    """Takes the output of `backup --json`; keeps its last complete line and its last summary.

    A line is decoded only when it is needed, as restic may print 60 lines a second.
    """

    def __init__(self) -> None:
        self.last_line = b""
        self._summary = b""
        self._rest = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> None:
        """Take a part of the output; lines may be cut anywhere."""
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            if not self._skipping and len(self._rest) + len(piece) <= MAXIMUM_LINE_BYTES:
                self._take(bytes(self._rest) + piece)
            self._rest.clear()
            self._skipping = False
        if self._skipping or len(self._rest) + len(rest) > MAXIMUM_LINE_BYTES:
            self._skipping = True
            self._rest.clear()
        else:
            self._rest += rest

    @property
    def text(self) -> str:
        """The part of the output that belongs in the text of an error."""
        return (self._summary or self.last_line).decode("utf-8", "replace")

    def progress(self) -> ByteCounts | None:
        """The progress in the last complete line; None if it has none."""
        status = json_object(self.last_line)
        done = positive_number(status, "bytes_done")
        if not done:
            return None
        return ByteCounts(total_bytes=positive_number(status, "total_bytes"), bytes_done=done)

    def final_progress(self) -> ByteCounts:
        """The final progress, by the summary; to be called when restic has succeeded.

        Raises:
            UnexpectedOutput: there is no complete summary, so it is not known what was saved.
        """
        if not self._summary:
            what = "get summary line from" if _is_summary(self._rest) else "find summary in"
            raise UnexpectedOutput(f"unable to {what} restic backup command output")
        total = positive_number(json_object(self._summary), "total_bytes_processed")
        return ByteCounts(total_bytes=total, bytes_done=total)

    def snapshot_id(self) -> str:
        """The short id of the snapshot, by the summary; empty where the summary does not have it.

        Versions of restic name the short or the full id; the short one is the beginning of the full one.
        """
        found = json_object(self._summary).get("snapshot_id")
        return found[:SHORT_ID_LENGTH] if isinstance(found, str) and _ID.fullmatch(found) else ""

    def _take(self, line: bytes) -> None:
        self.last_line = line
        if _is_summary(line):
            self._summary = line


def parse_snapshot_id(output: bytes) -> str:
    """The id that `snapshots --json` names; there must be exactly one.

    Raises:
        UnexpectedOutput: there is none, there are several, or this is no list.
    """
    snapshots = listed_snapshots(output, "restic")
    if len(snapshots) != 1:
        raise UnexpectedOutput(f"expected one matching snapshot, got {len(snapshots)}")
    short_id = snapshots[0].get("short_id") if isinstance(snapshots[0], dict) else None
    if not isinstance(short_id, str) or not short_id:
        raise UnexpectedOutput("restic listed a snapshot without short_id")
    return short_id


def parse_current_key(output: bytes) -> str:
    """The id of the key that opened the repository, of `key list --json`. Raises UnexpectedOutput."""
    try:
        keys = msgspec.json.decode(output)
        (current,) = [str(key["id"]) for key in keys if key["current"] is True]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UnexpectedOutput("restic listed no key that opened the repository") from error
    return current


def parse_total_size(output: bytes) -> int:
    """The `total_size` that `stats --json` names.

    Raises:
        UnexpectedOutput: it names none.
    """
    stats = json_object(output)
    if "total_size" not in stats:
        raise UnexpectedOutput("restic did not print the size of the snapshot")
    return positive_number(stats, "total_size")


def parse_has_file(output: bytes, name: str) -> bool:
    """Whether `ls --json` lists a file of that name at the root."""
    found = (json_object(line) for line in output.splitlines())
    return any(node.get("path") == f"/{name}" and node.get("type") == "file" for node in found)


def saved_directories(
    printed: Iterable[bytes], only: str = "", *, with_state: bool = False
) -> Iterator[SavedDirectory]:
    """The directories of a snapshot, each behind those in it, by what `ls --json` prints.

    restic itself finds changed files in a restore. It lists names that are not UTF-8 with their other bytes
    replaced.

    Args:
        only: take only what is below this directory of the snapshot, and the paths from there.
        with_state: whether to read the states of files.

    Raises:
        UnexpectedOutput: this is no list: nothing may be concluded from it.
    """
    # The directories on the way to the last entry; all others are complete.
    begun: list[tuple[tuple[str, ...], list[SavedFile]]] = [((), [])]
    for line in printed:
        try:
            node = msgspec.json.decode(line, type=_Node)
        except msgspec.DecodeError as error:
            raise UnexpectedOutput(f"restic did not list the snapshot: {error}") from error
        if node.struct_type != "node":
            continue
        path = tuple(node.path.split("/")[1:])
        if only and (path[:1] != (only,) or len(path) == 1):
            continue
        path = path[bool(only) :]
        while begun and begun[-1][0] != path[:-1]:
            yield from _complete(begun.pop())
        if not begun or not all(part not in ("", ".", "..") for part in path):
            raise UnexpectedOutput(f"restic listed {node.path!r} out of order")
        kind = _TYPES.get(node.type, FileType.OTHER)
        name = path[-1]
        saved = SavedFile(name=name, type=kind, is_lossy=_REPLACED in name)
        begun[-1][1].append(_with_state(saved, node) if with_state else saved)
        if kind is FileType.DIRECTORY:
            begun.append((path, []))
    while begun:
        yield from _complete(begun.pop())


def _with_state(saved: SavedFile, node: _Node) -> SavedFile:
    time = parse_nanoseconds(node.mtime)
    if saved.type is FileType.LINK:
        return msgspec.structs.replace(saved, time=time)
    if saved.type is not FileType.FILE:
        return saved
    state = (node.size, -1 if time is None else time, node.mode & PERMISSIONS, node.uid, node.gid)
    return msgspec.structs.replace(saved, state=state)


def _complete(found: tuple[tuple[str, ...], list[SavedFile]]) -> Iterator[SavedDirectory]:
    """A directory whose content is known; none if its name is not, as another one may be listed by it."""
    path, files = found
    if not any(_REPLACED in part for part in path):
        yield SavedDirectory(path=path, files=files)


def _is_summary(line: bytes | bytearray) -> bool:
    return line.startswith(b'{"message_type":"summary"')
