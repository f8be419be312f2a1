"""Objects as files below one directory: the store that needs no server.

A key is the path below the root. An object becomes visible by one rename, after its bytes are on the disk,
so a crash leaves at most a file in the hidden spool directory, which the next writer removes. Everything is
created private (directories 0700, files 0600): a backup contains Secrets.

A root that is gone, or is another directory than at the opening, was unmounted: that is an error of every
call and never an empty store. (docs/adr/007)

Known limits: a file system cannot hold an object `a` beside an object `a/b`, and it may fold case.
"""

import errno
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

from pinnace.aio.blocking import in_thread
from pinnace.aio.temporary import TOO_MANY_OPEN
from pinnace.storage.errors import ObjectNotFound, StorageError, StoreConfigError, StoreUnavailable
from pinnace.storage.filesystem.spool import (
    SPOOL_DIRECTORY,
    SpooledFile,
    check_directory,
    remove_if_empty,
    remove_leftovers,
    sync_directory,
)
from pinnace.storage.interface import READ_SIZE_BYTES, Body, check_key, check_prefix, check_range

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
"""Errors that say that a file is not there: one whose name is too long cannot be."""
_TEXTS = {
    errno.EMFILE: TOO_MANY_OPEN,
    errno.ENFILE: TOO_MANY_OPEN,
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ELOOP: "symbolic links are not followed",
    errno.ENAMETOOLONG: "the name is too long for the file system",
    errno.ENAMETOOLONG: "the name is too long for the file system, which takes 255 bytes",
}


class FilesystemStore:
    """An ObjectStore in a local directory.

    Symbolic links below the root are never followed nor listed: users who may write to the directory must not
    gain the reach of the process that reads it. The root itself may be one.
    """

    def __init__(self, root: Path, *, create: bool = True) -> None:
        """Args:
            root: the directory; relative paths are taken from the current directory now, not later.
            create: one that does not exist is an empty store, and is made by the first put.

        Raises:
            StoreConfigError: the path is empty or names something that is not a directory.
            StoreUnavailable: there is no such directory, and it is not to be made.
        """
        if not str(root) or "\0" in str(root):
            raise StoreConfigError("the directory of a filesystem location must not be empty")
        self._root = root.absolute()
        try:
            self._opened = _identity(self._root)
        except OSError as error:
            raise StoreConfigError(f"cannot use {self._root}: {error.strerror}") from error
        if self._opened is None and not create:
            raise StoreUnavailable(_missing(self._root))
        self._swept = False

    async def put(self, key: str, body: Body) -> None:
        """See ObjectStore.put."""
        await self._put(key, body, replace=True)

    async def put_new(self, key: str, data: bytes) -> bool:
        """See ObjectStore.put_new."""
        return await self._put(key, data, replace=False)

    async def _put(self, key: str, body: Body, *, replace: bool) -> bool:
        """Store an object; return whether it was stored, as one that exists may not be replaced."""
        what = f"cannot write {key!r}"
        target = self._path(key)
        await in_thread(self._check_root)
        if not self._swept:
            with _translated(what):
                await in_thread(remove_leftovers, self._root / SPOOL_DIRECTORY)
            self._swept = True
        spooled = SpooledFile(self._root, create_root=self._opened is None)
        try:
            with _translated(what):
                await in_thread(spooled.open)
            async with aclosing(_blocks(body)) as blocks:
                async for block in blocks:
                    with _translated(what):
                        await in_thread(spooled.write, block)
            with _translated(what):
                return await in_thread(spooled.publish, target, replace=replace)
        finally:
            with _translated(what):
                await in_thread(spooled.discard)

    @asynccontextmanager
    async def get(self, key: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """See ObjectStore.get."""
        path = self._path(key)
        opened = ExitStack()  # outside the thread, so that a cancelled opening is closed as well
        try:
            with _translated(f"cannot read {key!r}"):
                descriptor = await in_thread(_open_for_reading, self._root, path, opened)
            if descriptor is None:
                await in_thread(self._check_root)
                raise ObjectNotFound(key)
            async with aclosing(_read_blocks(descriptor, key)) as blocks:
                yield blocks
        finally:
            await in_thread(opened.close)

    @asynccontextmanager
    async def get_range(self, key: str, offset: int, length: int) -> AsyncIterator[AsyncIterator[bytes]]:
        """See RangedStore.get_range."""
        check_range(offset, length)
        path = self._path(key)
        opened = ExitStack()
        try:
            with _translated(f"cannot read {key!r}"):
                descriptor = await in_thread(_open_for_reading, self._root, path, opened)
            if descriptor is None:
                await in_thread(self._check_root)
                raise ObjectNotFound(key)
            size_bytes = os.fstat(descriptor).st_size
            if offset >= size_bytes:
                raise StorageError(f"cannot read {key!r} from byte {offset} on: it has {size_bytes}")
            async with aclosing(_range_blocks(descriptor, key, offset, length)) as blocks:
                yield blocks
        finally:
            await in_thread(opened.close)

    async def exists(self, key: str) -> bool:
        """See ObjectStore.exists."""
        return await self._look(key) is not None

    async def size(self, key: str) -> int:
        """See ObjectStore.size."""
        return (await self._found(key)).st_size

    async def version(self, key: str) -> str:
        """See VersionedStore.version: each put makes a new file, which has another number and time."""
        found = await self._found(key)
        return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"

    async def _found(self, key: str) -> os.stat_result:
        """The status of a file. Raises ObjectNotFound."""
        found = await self._look(key)
        if found is None:
            raise ObjectNotFound(key)
        return found

    async def _look(self, key: str) -> os.stat_result | None:
        path = self._path(key)
        with _translated(f"cannot look for {key!r}"):
            found = await in_thread(_found, self._root, path)
        if found is None:
            await in_thread(self._check_root)
        return found

    async def list_prefixes(self, prefix: str) -> list[str]:
        """See ObjectStore.list_prefixes. Directories without any object below them are not seen."""
        directory = self._directory(prefix)
        with _translated(f"cannot list {prefix!r}"):
            names = await in_thread(_directories_in_use, self._root, directory)
        await in_thread(self._check_root)  # after it, for what went away on the way is missing from the list
        return sorted(f"{prefix}{name}/" for name in names)

    async def list_keys(self, prefix: str) -> list[str]:
        """See ObjectStore.list_keys."""
        directory = self._directory(prefix)
        with _translated(f"cannot list {prefix!r}"):
            paths = await in_thread(lambda: list(_files_below(self._root, directory)))
        await in_thread(self._check_root)
        return sorted((path.relative_to(self._root).as_posix() for path in paths), reverse=True)

    async def delete(self, key: str) -> None:
        """See ObjectStore.delete. Directories that become empty are removed with the object."""
        path = self._path(key)
        with _translated(f"cannot delete {key!r}"):
            await in_thread(_unlink, self._root, path)
        await in_thread(self._check_root)

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        """A `file://` URL: any user who may read the file may read the object, and `ttl` has no effect."""
        return self._path(key).as_uri()

    async def close(self) -> None:
        """Nothing is kept open between calls."""

    def _check_root(self) -> None:
        """Raise StoreUnavailable unless the root is the directory that was opened, or never existed."""
        if self._opened is None:
            return
        with _translated(f"cannot use {self._root}"):
            found = _identity(self._root)
        if found is None:
            raise StoreUnavailable(_missing(self._root))
        if found != self._opened:
            raise StoreUnavailable(f"the directory {self._root} was replaced by another one while in use")

    def _path(self, key: str) -> Path:
        """The file of a key. Raises StorageError for a key that could leave the root or hide in it."""
        check_key(key)
        segments = key.split("/")
        if segments[0] == SPOOL_DIRECTORY:
            raise StorageError(f"invalid key {key!r}: {SPOOL_DIRECTORY} is the store's own")
        return self._root.joinpath(*segments)

    def _directory(self, prefix: str) -> Path:
        check_prefix(prefix)
        return self._path(prefix[:-1]) if prefix else self._root


def _identity(root: Path) -> tuple[int, int] | None:
    """File system and directory of a root, None if there is none. Raises StoreConfigError for a file."""
    try:
        found = root.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        raise StoreConfigError(f"{root} is not a directory")
    return found.st_dev, found.st_ino


def _missing(root: Path) -> str:
    return f"the directory {root} does not exist: mount it, or create it if the location is new"


def _leads_to(root: Path, directory: Path) -> bool:
    """Whether `directory` exists below `root` without a link on the way; a link raises ELOOP."""
    current = root
    for segment in directory.relative_to(root).parts:
        current = current / segment
        try:
            check_directory(current)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            return False
    return directory.is_dir()


def _found(root: Path, path: Path) -> os.stat_result | None:
    """The file of an object, None if there is none."""
    if not _leads_to(root, path.parent):
        return None
    try:
        found = path.lstat()
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _open_for_reading(root: Path, path: Path, opened: ExitStack) -> int | None:
    if not _leads_to(root, path.parent):
        return None
    try:
        # Not blocking: opening a FIFO would otherwise wait for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return None
    opened.callback(os.close, descriptor)
    return descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _entries(root: Path, directory: Path) -> list[os.DirEntry[str]]:
    """Files and directories in `directory`, without links, devices and the spool; missing means none."""
    if not _leads_to(root, directory):
        return []
    try:
        with os.scandir(directory) as scan:
            entries = list(scan)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        entry
        for entry in entries
        if (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False))
        and not (directory == root and entry.name == SPOOL_DIRECTORY)
    ]


def _files_below(root: Path, directory: Path) -> Iterator[Path]:
    pending = [directory]
    while pending:
        for entry in _entries(root, pending.pop()):
            if entry.is_dir(follow_symlinks=False):
                pending.append(Path(entry.path))
            else:
                yield Path(entry.path)


def _directories_in_use(root: Path, directory: Path) -> list[str]:
    return [
        entry.name
        for entry in _entries(root, directory)
        if entry.is_dir(follow_symlinks=False)
        and next(_files_below(root, Path(entry.path)), None) is not None
    ]


def _unlink(root: Path, path: Path) -> None:
    if not _leads_to(root, path.parent):
        return
    try:
        path.unlink()
    except OSError as error:
        if error.errno not in (*_ABSENT, errno.EISDIR):
            raise
        return
    sync_directory(path.parent)
    for directory in path.parents:
        if directory == root or not remove_if_empty(directory):
            return


async def _blocks(body: Body) -> AsyncGenerator[bytes, None]:
    """The body in blocks of at least READ_SIZE_BYTES but the last, so that threads are entered seldom."""
    if isinstance(body, bytes):
        yield body
        return
    gathered = bytearray()
    async for block in body:
        gathered += block
        if len(gathered) >= READ_SIZE_BYTES:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


async def _read_blocks(descriptor: int, key: str) -> AsyncGenerator[bytes, None]:
    size_bytes, read_bytes = os.fstat(descriptor).st_size, 0
    while True:
        with _translated(f"cannot read {key!r}"):
            block = await in_thread(os.read, descriptor, READ_SIZE_BYTES)
        if not block:
            break
        read_bytes += len(block)
        yield block
    if read_bytes < size_bytes:
        raise StorageError(f"cannot read {key!r}: it ended after {read_bytes} of {size_bytes} bytes")


async def _range_blocks(descriptor: int, key: str, offset: int, length: int) -> AsyncGenerator[bytes, None]:
    while length:
        with _translated(f"cannot read {key!r}"):
            block = await in_thread(os.pread, descriptor, min(length, READ_SIZE_BYTES), offset)
        if not block:
            return
        offset, length = offset + len(block), length - len(block)
        yield block


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = _TEXTS.get(error.errno or 0) or error.strerror or type(error).__name__
        raise StorageError(f"{what}: {reason}") from error
