"""Reads the items of one stored backup by its index, or by a pass over the tarball if there is no index.

Memory does not grow with the number of items: both are streams. What is read through the index is compared
with the checksum in it; where they differ the index is left aside, as the tarball is what a restore uses.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from itertools import groupby, islice
from pathlib import Path
from secrets import token_hex
from typing import Protocol, TypeVar

import orjson

from pinnace.aio.blocking import in_thread
from pinnace.aio.temporary import problem_text
from pinnace.api.objects import JSONObject
from pinnace.api.values.shell_words import argument
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.archive.content import check_decodable, checksum_of, facts_of_foreign
from pinnace.archive.deflate import CODEC_ERRORS, new_decompressor
from pinnace.archive.errors import ArchiveError, MissingItem
from pinnace.archive.item_index import DamagedIndex, IndexedItem, IndexParser, Span, entry_of
from pinnace.archive.paths import ItemLocation
from pinnace.archive.reader import ArchiveIndex
from pinnace.browse.errors import BrowseError, FileWithheld, IndexUnusable, MissingFile, NoParts, NoRoom
from pinnace.browse.scanning import items_of_tarball

T = TypeVar("T")

_BATCH = 500
_MAX_SPAN_BYTES = 64 * 1024**2
"""Spans beyond this, as those of Velero's tarballs may be, are not fetched for a single item."""


class StoredFiles(Protocol):
    """The files of one backup."""

    def stream(self, kind: DownloadTargetKind) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A file as it is stored. Raises MissingFile on entering."""
        ...

    def part(self, kind: DownloadTargetKind, span: Span) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A part of a file. Raises MissingFile or NoParts on entering."""
        ...


class StoredBackup:
    """A backup to look into.

    Args:
        name: the name of the backup.
        files: where its files are read from.
        folder: an existing private folder with room for the tarball, for backups without an index.
        tell: called with one line about what makes reading slower, or what is listed doubtful.
        tarball_bytes: asks for the size of the tarball; its answer is None if that is unknown, and it raises
            MissingFile if there is no tarball.
        flags: what `backup index` needs to find the same backup, such as a location where a server is asked.
    """

    def __init__(
        self,
        name: str,
        files: StoredFiles,
        folder: Path,
        tell: Callable[[str], None],
        tarball_bytes: Callable[[], Awaitable[int | None]] | None = None,
        *,
        flags: str = "",
    ) -> None:
        self.name = name
        self._flags = flags
        self.files = files
        self._folder = folder
        self._tell = tell
        self._tarball_bytes = tarball_bytes
        self._tarball: Path | None = None
        self._spool: ArchiveIndex | None = None
        self._without_index = False

    def leave_index_aside(self, reason: str) -> None:
        """Ignore the index from now on, and read the tarball. The user is told."""
        self._without_index = True
        self._tell(f"The index of backup {self.name} is not used: {reason}. Its tarball is read instead.")

    async def entries(self) -> AsyncGenerator[list[IndexedItem], None]:
        """The items of the backup, some hundred at a time, in the order of the archive.

        Raises:
            IndexUnusable: what came so far may be wrong; call again after `leave_index_aside`.
            BrowseError: the tarball cannot be read either.
        """
        if not self._without_index:
            try:
                async with aclosing(self._indexed()) as batches:
                    async for batch in batches:
                        yield batch
                return
            except FileWithheld as error:
                self.leave_index_aside(str(error))
            except MissingFile:
                self._without_index = True
                self._tell(
                    f"Backup {self.name} has no index, its tarball is read from beginning to end"
                    f" (`backup index {argument(self.name)}{self._flags}` writes one)."
                )
        async with aclosing(self._scanned()) as found:
            async for pairs in found:
                yield [_entry(location, content) for location, content in pairs]

    async def contents(
        self, entries: Iterable[IndexedItem]
    ) -> AsyncGenerator[tuple[IndexedItem, bytes], None]:
        """The content of items, in no particular order.

        Raises:
            IndexUnusable: what came so far is sound, but the rest cannot be read by the index.
            BrowseError: the tarball cannot be read either.
        """
        wanted = list(entries)
        if not wanted:
            return
        if self._without_index or any(entry.span.length > _MAX_SPAN_BYTES for entry in wanted):
            for entry in wanted:
                content = await self._spooled(entry)
                self._check(entry, content)
                yield entry, content
            return
        wanted.sort(key=lambda entry: (entry.span, entry.offset))
        for span, found in groupby(wanted, key=lambda entry: entry.span):
            inside = list(found)
            text = await self._beginning(span, max(entry.offset + entry.size_bytes for entry in inside))
            for entry in inside:
                content = text[entry.offset : entry.offset + entry.size_bytes]
                self._check(entry, content)
                yield entry, content

    async def content(self, entry: IndexedItem) -> bytes:
        """The content of one item. Raises as `contents`."""
        async with aclosing(self.contents([entry])) as found:
            async for _, content in found:
                return content
        raise BrowseError(f"backup {self.name}: {entry.name} cannot be read")

    def _check(self, entry: IndexedItem, content: bytes) -> None:
        if len(content) != entry.size_bytes or checksum_of(content) != entry.checksum:
            raise IndexUnusable(
                self.name,
                f"it DISAGREES WITH THE TARBALL about {entry.resource} {_path(entry)}: the checksum differs",
            )

    async def _indexed(self) -> AsyncGenerator[list[IndexedItem], None]:
        parser = IndexParser()
        try:
            async with self.files.stream(DownloadTargetKind.ITEM_INDEX) as stream:
                async for block in stream:
                    batches = parser.feed(block)
                    while batch := await in_thread(next, batches, None):
                        yield batch
            parser.finish()
        except DamagedIndex as error:
            raise IndexUnusable(self.name, str(error)) from error
        await self._compare_sizes(parser.tarball_bytes)

    async def _compare_sizes(self, indexed_bytes: int) -> None:
        """Tell if the index was written for another tarball; asked once.

        It is still used: its checksums guard what is read by it, and of a tarball that is cut off it gives
        access to what is left.
        """
        if self._tarball_bytes is None:
            return
        ask, self._tarball_bytes = self._tarball_bytes, None
        try:
            size_bytes = await ask()
        except MissingFile:
            doubt = "has no tarball: what its index lists cannot be restored"
        else:
            if size_bytes is None or size_bytes == indexed_bytes:
                return
            doubt = (
                f"has a tarball of {size_bytes} bytes and the index of one of {indexed_bytes} bytes:"
                f" what is listed may not be in it (`backup verify {argument(self.name)}` says more)"
            )
        self._tell(f"Backup {self.name} {doubt}.")

    async def _beginning(self, span: Span, needed_bytes: int) -> bytes:
        """The decompressed beginning of a span, up to the end of the last item wanted."""
        if needed_bytes > _MAX_SPAN_BYTES:
            raise IndexUnusable(
                self.name, f"it places an item {needed_bytes} bytes into a part of the tarball"
            )
        data = await self._part(span)
        return await in_thread(self._inflated, data, needed_bytes, span.is_part)

    async def _part(self, span: Span) -> bytes:
        if self._tarball is None:
            try:
                async with self.files.part(DownloadTargetKind.BACKUP_CONTENTS, span) as stream:
                    return b"".join([block async for block in stream])
            except NoParts:
                self._tell(
                    f"The files of backup {self.name} can only be read as a whole: the tarball is downloaded."
                )
        path = await self.tarball()
        return await in_thread(_read_part, path, span)

    def _inflated(self, data: bytes, needed_bytes: int, is_part: bool) -> bytes:
        text = b""
        try:
            while data and len(text) < needed_bytes:
                engine = new_decompressor(raw=is_part)
                text += engine.decompress(data, needed_bytes - len(text))
                data = engine.unused_data
                if not engine.eof:
                    break
        except CODEC_ERRORS as error:
            raise IndexUnusable(self.name, f"the tarball has no gzip data where it says: {error}") from error
        return text

    async def tarball(self) -> Path:
        """The tarball as a private file, downloaded once.

        Raises:
            BrowseError: it is missing, or cannot be stored.
        """
        if self._tarball is None:
            path = self._folder / f"{token_hex(8)}.tar.gz"
            try:
                async with self.files.stream(DownloadTargetKind.BACKUP_CONTENTS) as stream:
                    with await in_thread(path.open, "xb") as file:
                        async for block in stream:
                            await in_thread(file.write, block)
                self._tarball = path
            except OSError as error:
                reason = problem_text(self._folder, error)
                raise NoRoom(f"the tarball of backup {self.name} cannot be stored: {reason}") from error
            finally:
                if self._tarball is None:
                    path.unlink(missing_ok=True)
        return self._tarball

    async def _spooled(self, entry: IndexedItem) -> bytes:
        """An item of a tarball that was decompressed into a file, once."""
        try:
            if self._spool is None:
                self._spool = await ArchiveIndex.open(await self.tarball(), self._folder, with_versions=True)
            return self._spool.read(
                entry.resource, entry.namespace, entry.name, entry.version_directory or None
            )
        except MissingItem as error:
            raise IndexUnusable(self.name, str(error)) from error
        except ArchiveError as error:
            raise BrowseError(f"the tarball of backup {self.name} cannot be read: {error}") from error

    def close(self) -> None:
        """Remove what is kept of the tarball. It is got again when it is needed again."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        if self._tarball is not None:
            self._tarball.unlink(missing_ok=True)
            self._tarball = None

    async def _scanned(self) -> AsyncGenerator[list[tuple[ItemLocation, bytes]], None]:
        path = await self.tarball()
        try:
            async with aclosing(in_batches(items_of_tarball(path))) as batches:
                async for batch in batches:
                    yield batch
        except (ArchiveError, OSError) as error:
            raise BrowseError(f"the tarball of backup {self.name} cannot be read: {error}") from error


async def in_batches(items: Iterator[T]) -> AsyncGenerator[list[T], None]:
    """The items of an iterator that works in a thread, some hundred at a time."""
    while batch := await in_thread(_take, items):
        yield batch


def _take(items: Iterator[T]) -> list[T]:
    return list(islice(items, _BATCH))


def decoded(content: bytes, backup: str, entry: IndexedItem) -> JSONObject:
    """The object that is the content of an item. Raises BrowseError if it is not a JSON object."""
    try:
        check_decodable(content)
        found = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BrowseError(f"backup {backup}: {entry.resource} {entry.name}: not JSON: {error.msg}") from error
    except ArchiveError as error:
        raise BrowseError(f"backup {backup}: {entry.resource} {entry.name}: {error}") from error
    if not isinstance(found, dict):
        raise BrowseError(f"backup {backup}: {entry.resource} {entry.name} is not an object")
    return found


def _entry(location: ItemLocation, content: bytes) -> IndexedItem:
    return entry_of(location, content, facts_of_foreign(content))


def _path(entry: IndexedItem) -> str:
    return f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name


def _read_part(path: Path, span: Span) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(span.offset)
            return file.read(min(span.length, _MAX_SPAN_BYTES))
    except OSError as error:
        raise BrowseError(f"the downloaded tarball cannot be read: {error.strerror}") from error
