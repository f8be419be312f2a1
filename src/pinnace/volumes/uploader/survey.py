"""Finds files of a volume that restic or kopia leave out, or change, without an error. (docs/spec: KOP-006)

kopia leaves sockets, pipes and devices out, and keeps names as JSON, which has no bytes outside of UTF-8: it
replaces them, so that two names may become one. It takes what is named `*.kopia-entry` for its placeholders:
files and directories are read as such, links are left out. Each name of a file with several hard links is a
file to it, and it keeps no extended attributes, which ACLs and capabilities are. restic leaves sockets out,
and keeps targets of links as JSON before version 0.16.
"""

import asyncio
import errno
import logging
import os
import stat
import threading
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pinnace.aio.blocking import in_thread, settle

log = logging.getLogger(__name__)

_SOCKETS: Final = frozenset({stat.S_IFSOCK})
_SPECIAL: Final = frozenset({stat.S_IFSOCK, stat.S_IFIFO, stat.S_IFBLK, stat.S_IFCHR})

PLACEHOLDER_SUFFIX: Final = ".kopia-entry"

_MOST_NAMES: Final = 3

_OF_THE_SYSTEM: Final = frozenset(
    {
        "security.selinux",  # each file has it where SELinux is on: the kubelet labels volumes
        "security.ima",
        "security.evm",
        "system.nfs4_acl",  # each file of an NFS volume has these: they repeat its mode
        "system.nfs4_dacl",
        "system.nfs4_sacl",
        "system.cifs_acl",
        "system.smb3_acl",
        "system.smb3_ntsd",
        "system.smb3_ntsd_full",
    }
)
"""Extended attributes that no program has set: a file without any other one loses nothing."""
_OF_FILE_SYSTEMS: Final = ("ceph.", "lustre.", "trusted.lov", "trusted.lma", "trusted.link", "btrfs.")
_NO_ATTRIBUTES: Final = frozenset({errno.ENOTSUP, errno.ENOSYS})


@dataclass(slots=True)
class Names:
    """How many files of a volume were found, and the names of the first ones.

    Attributes:
        shown: the paths of the first ones in the volume, with unprintable characters escaped.
    """

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, path: str) -> None:
        """Count a file."""
        self.count += 1
        if len(self.shown) < _MOST_NAMES:
            self.shown.append(_shown(path))

    def __str__(self) -> str:
        more = f" and {self.count - len(self.shown)} more" if self.count > len(self.shown) else ""
        return ", ".join(sorted(self.shown)) + more


@dataclass(frozen=True, slots=True)
class Survey:
    """The files of a volume that a program does not save as they are.

    Attributes:
        special: files of the types that were looked for, such as sockets.
        renamed: files whose names are not UTF-8.
        merged: files whose names are not UTF-8 and would become the name of another file.
        placeholders: what is named as kopia names its placeholders.
        retargeted: links whose targets are not UTF-8.
        linked: files with several hard links.
        attributed: files and directories with extended attributes, the names of these in brackets.
    """

    special: Names = field(default_factory=Names)
    renamed: Names = field(default_factory=Names)
    merged: Names = field(default_factory=Names)
    placeholders: Names = field(default_factory=Names)
    retargeted: Names = field(default_factory=Names)
    linked: Names = field(default_factory=Names)
    attributed: Names = field(default_factory=Names)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedFiles:
    """The kinds of files to look for.

    Attributes:
        types: the types of special files, as `stat.S_IFMT` gives them.
        names: names that kopia does not keep.
        targets: links whose targets are not UTF-8.
        links: files with several hard links.
        attributes: extended attributes.
    """

    types: Collection[int]
    names: bool = False
    targets: bool = False
    links: bool = False
    attributes: bool = False


BY_RESTIC: Final = SearchedFiles(types=_SOCKETS, targets=True)
"""The files that restic does not save as they are."""
BY_KOPIA: Final = SearchedFiles(types=_SPECIAL, names=True, links=True, attributes=True)
"""The files that kopia does not save as they are."""


async def survey(directory: Path, wanted: SearchedFiles) -> Survey:
    """Look through a volume for files that are not saved as they are.

    Files that disappear meanwhile are left out. A directory that cannot be read is only logged: the program
    fails at it.
    """
    stopped = threading.Event()
    looking = asyncio.create_task(in_thread(_look, directory, wanted, stopped))
    try:
        await asyncio.wait({looking})
    finally:
        stopped.set()
        await settle({looking}, grace_seconds=0.0)
    return looking.result()


def _look(directory: Path, wanted: SearchedFiles, stopped: threading.Event) -> Survey:
    found, unread, waiting = Survey(), Names(), [os.fspath(directory)]
    if wanted.attributes and not _look_at_attributes(waiting[0], directory, found):
        wanted = replace(wanted, attributes=False)
    while waiting and not stopped.is_set():
        folder = waiting.pop()
        try:
            waiting += _look_into(folder, directory, wanted, found)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            unread.add(f"{os.path.relpath(folder, directory)} ({error.strerror})")
    if unread.count:
        log.warning(
            "Cannot look into directories for files that are not saved as they are",
            extra={"fields": {"directories": str(unread)}},
        )
    return found


def _look_into(folder: str, directory: Path, wanted: SearchedFiles, found: Survey) -> list[str]:
    """Look through one directory of a volume, and return the directories in it. Raises OSError."""
    below, odd = list[str](), list[str]()
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.path)
            else:
                _look_at_file(entry, directory, wanted, found)
            if wanted.names and not _is_utf8(entry.name):
                odd.append(entry.name)
            if wanted.names and entry.name.endswith(PLACEHOLDER_SUFFIX):
                found.placeholders.add(os.path.relpath(entry.path, directory))
            if wanted.attributes:
                _look_at_attributes(entry.path, directory, found)
    if odd:
        _note_odd(found, os.path.relpath(folder, directory), odd, os.listdir(folder))
    return below


def _look_at_file(entry: os.DirEntry[str], directory: Path, wanted: SearchedFiles, found: Survey) -> None:
    """Look at what is no directory. Files and links that are only looked at for their type need no call."""
    with suppress(OSError):  # it has gone meanwhile
        if entry.is_symlink():
            if wanted.targets and not _is_utf8(os.readlink(entry.path)):
                found.retargeted.add(os.path.relpath(entry.path, directory))
        elif entry.is_file(follow_symlinks=False):
            if wanted.links and entry.stat(follow_symlinks=False).st_nlink > 1:
                found.linked.add(os.path.relpath(entry.path, directory))
        elif stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode) in wanted.types:
            found.special.add(os.path.relpath(entry.path, directory))


def _look_at_attributes(path: str, directory: Path, found: Survey) -> bool:
    """Look for extended attributes of a file; returns whether its file system can have any."""
    try:
        attributes = os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        return error.errno not in _NO_ATTRIBUTES
    own = [
        name for name in attributes if name not in _OF_THE_SYSTEM and not name.startswith(_OF_FILE_SYSTEMS)
    ]
    if own:
        found.attributed.add(f"{os.path.relpath(path, directory)} ({', '.join(sorted(own)[:_MOST_NAMES])})")
    return True


def _note_odd(found: Survey, folder: str, odd: Iterable[str], all_names: Iterable[str]) -> None:
    used = Counter(as_utf8(name) for name in all_names)
    for name in odd:
        path = os.path.normpath(os.path.join(folder, name))
        found.renamed.add(path)
        if used[as_utf8(name)] > 1:
            found.merged.add(path)


def as_utf8(name: str) -> str:
    """The name that kopia keeps: each byte that is not UTF-8 replaced."""
    return "".join("\ufffd" if "\udc80" <= character <= "\udcff" else character for character in name)


def _is_utf8(name: str) -> bool:
    return name.isascii() or as_utf8(name) == name


def _shown(path: str) -> str:
    """A path with all bytes that are not UTF-8 and all unprintable characters escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
