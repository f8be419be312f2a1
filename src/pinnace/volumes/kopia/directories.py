"""Reads directories of a snapshot as kopia prints them, one a line, with all that they hold."""

from collections.abc import Iterator, Sequence
from typing import IO, Final

import msgspec

from pinnace.volumes.kopia.times import LONGEST_LISTING_BYTES, Directory, is_name
from pinnace.volumes.uploader.errors import UnexpectedOutput
from pinnace.volumes.uploader.existing_files import PERMISSIONS, FileType, SavedDirectory, SavedFile
from pinnace.volumes.uploader.output import parse_nanoseconds

_TYPES: Final = {"f": FileType.FILE, "d": FileType.DIRECTORY, "s": FileType.LINK}


class _Entry(msgspec.Struct):
    name: str
    type: str
    mode: str = "0"
    size: int = 0
    mtime: str = ""
    uid: int = 0
    gid: int = 0
    obj: str = ""


class _Listing(msgspec.Struct):
    entries: list[_Entry] | None = None


def saved_directories(
    printed: IO[bytes], asked: Sequence[Directory], below: list[Directory]
) -> Iterator[SavedDirectory]:
    """The directories that were asked for.

    Args:
        printed: what kopia printed, in the order of the request.
        below: gets the directories that they hold.

    Raises:
        UnexpectedOutput: one is missing, too long or no listing: nothing may be concluded from it.
    """
    for directory in asked:
        line = printed.readline(LONGEST_LISTING_BYTES + 1)
        where = "/".join(directory.path) or "the root of the snapshot"
        if len(line) > LONGEST_LISTING_BYTES:
            raise UnexpectedOutput(f"the directory {where} holds more files than can be compared")
        try:
            entries = msgspec.json.decode(line, type=_Listing).entries or []
            files = [_saved_file(entry) for entry in entries]
        except (msgspec.DecodeError, ValueError) as error:
            raise UnexpectedOutput(f"kopia did not list {where}: {error}") from error
        below += [Directory((*directory.path, each.name), each.obj) for each in entries if each.type == "d"]
        yield SavedDirectory(path=directory.path, files=files)


def _saved_file(entry: _Entry) -> SavedFile:
    """An entry. Raises ValueError."""
    if not is_name(entry.name):
        raise ValueError(f"{entry.name!r} is no name of a file")
    kind, state, time = _TYPES.get(entry.type, FileType.OTHER), None, parse_nanoseconds(entry.mtime)
    if kind is FileType.FILE:
        state = (
            entry.size,
            -1 if time is None else time,
            int(entry.mode, 8) & PERMISSIONS,
            entry.uid,
            entry.gid,
        )
    return SavedFile(name=entry.name, type=kind, state=state, time=time if kind is FileType.LINK else None)
