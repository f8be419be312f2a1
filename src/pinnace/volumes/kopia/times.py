"""Puts the times of directories and links right after a restore by kopia. (docs/adr/074, docs/spec: KOP 3)

kopia gives a restored directory the time of the newest file below it, and cuts the times of links to
microseconds. Its snapshots have the true ones: each directory is an object that lists its entries with their
times. The objects are read in batches, as each call of kopia opens the repository.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pinnace.volumes.uploader.existing_files import open_below
from pinnace.volumes.uploader.output import parse_nanoseconds

BATCH: Final = 500
"""How many directories one call of kopia lists."""

LONGEST_LISTING_BYTES: Final = 64 << 20
"""A longer listing, of a directory with some 200,000 entries, is passed over: it must not fill the memory."""

_CONTENT_ID: Final = re.compile(r"[g-z]?[0-9a-f]{16,128}")
_DIRECTORY, _LINK = "d", "s"
_KEPT_NANOSECONDS: Final = 1000
"""kopia restores the times of links in steps of so many nanoseconds."""


class _Entry(msgspec.Struct):
    name: str = ""
    type: str = ""
    mtime: str = ""
    obj: str = ""


class _Listing(msgspec.Struct):
    entries: list[_Entry] | None = None


class Directory(msgspec.Struct, frozen=True):
    """A directory of a snapshot: its path below the root, and its object."""

    path: tuple[str, ...]
    obj: str


class Times(msgspec.Struct, frozen=True):
    """The times, in nanoseconds, of directories and links in one directory."""

    directory: tuple[str, ...]
    of: list[tuple[str, int]]


class Listings:
    """Takes the listings of directories that kopia prints, one a line, in the order of the requests.

    Attributes:
        times: what is to be set.
        below: the directories in them.
    """

    def __init__(self) -> None:
        self.times: list[Times] = []
        self.below: list[Directory] = []
        self._asked: Iterator[Directory] = iter(())
        self._rest = bytearray()
        self._is_too_long = False

    def expect(self, asked: Sequence[Directory]) -> None:
        """Take the listings of these next."""
        self._asked = iter(asked)

    def feed(self, chunk: bytes) -> None:
        """Take a part of the output; lines may be cut anywhere."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._rest += line
            self._take()
        self._is_too_long = self._is_too_long or len(self._rest) + len(rest) > LONGEST_LISTING_BYTES
        self._rest = bytearray() if self._is_too_long else self._rest + rest

    def end(self) -> None:
        """Take the last line, which may lack its end."""
        self._take()

    def _take(self) -> None:
        line, is_too_long = bytes(self._rest), self._is_too_long
        self._rest, self._is_too_long = bytearray(), False
        if not line and not is_too_long:
            return
        directory = next(self._asked, None)
        if directory is None or is_too_long:
            return
        try:
            entries = msgspec.json.decode(line, type=_Listing).entries or []
        except msgspec.DecodeError:
            return
        found = []
        for entry in entries:
            if entry.type not in (_DIRECTORY, _LINK) or not is_name(entry.name):
                continue
            nanoseconds = parse_nanoseconds(entry.mtime)
            if nanoseconds is not None and (entry.type == _DIRECTORY or nanoseconds % _KEPT_NANOSECONDS):
                found.append((entry.name, nanoseconds))
            if entry.type == _DIRECTORY:
                self.below.append(Directory((*directory.path, entry.name), entry.obj))
        if found:
            self.times.append(Times(directory.path, found))


def batches(asked: Sequence[Directory]) -> Iterator[list[Directory]]:
    """The directories that one call can show: those of one content each, and each other one alone."""
    contents = [each for each in asked if is_content(each.obj)]
    if contents:
        yield contents
    for each in asked:
        if not is_content(each.obj):
            yield [each]


def is_content(obj: str) -> bool:
    """Whether an object is a single content of the repository; one call can show many of those."""
    return _CONTENT_ID.fullmatch(obj) is not None


def set_times(root: Path, times: Sequence[Times]) -> int:
    """Set times below a directory; returns how many could not be set. Links are neither followed nor entered.

    The content of a volume is not trusted: another pod may change it, and the agent is root.
    """
    failed = 0
    for each in times:
        try:
            directory = open_below(root, each.directory)
        except OSError:
            failed += len(each.of)
            continue
        try:
            for name, nanoseconds in each.of:
                try:
                    os.utime(name, ns=(nanoseconds, nanoseconds), dir_fd=directory, follow_symlinks=False)
                except (OSError, OverflowError):
                    failed += 1
        finally:
            os.close(directory)
    return failed


def is_name(name: str) -> bool:
    """Whether a text is the name of one file, and leads nowhere else."""
    return bool(name) and name not in (".", "..") and "/" not in name and "\0" not in name
