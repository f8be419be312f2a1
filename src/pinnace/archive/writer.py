"""Writes a backup tarball: `add` is cheap and never waits, compression and disk are one worker thread's.

The tarball is one gzip member, since some readers silently stop at the end of the first. Each batch, cut
between two items, ends with a full flush: what follows is compressed without reference to it, so that one
item can be read later without the rest of the tarball. The index beside it (`item_index.py`), written in the
same pass, has the batch of each item and its place there.

Memory is bounded: one batch is filled while at most two others are with the worker; `flush_if_full` waits for
the worker when it falls behind. Any failure to write is fatal and is raised by the next flush or by close: a
tarball cut off by a full disk must never pass for a backup. (docs/spec: BKP 14)
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from pinnace.aio.clock import Clock
from pinnace.aio.temporary import problem_text
from pinnace.archive.deflate import FULL_FLUSH, new_compressor
from pinnace.archive.errors import ArchiveWriteError
from pinnace.archive.item_index import IndexWriter, Span
from pinnace.archive.paths import FORMAT_VERSION, VERSION_FILE
from pinnace.archive.tarformat import (
    END_OF_ARCHIVE,
    MemberDirectory,
    MemberFile,
    modified_field,
    padding,
    size_field,
)

BATCH_BYTES = 1024 * 1024
"""Uncompressed bytes handed to the worker at once, and between two full flushes: large enough that neither
the hand-over nor the fresh start of the compression shows, small enough to be read for one item."""
_MOST_WITH_WORKER = 2
"""A page of a list fills several batches at once. With two the worker goes on while the next page is decoded,
which takes a twentieth off the time of a backup. Three or five gain no more."""


class _Batch:
    """Members of the tarball that are compressed together, and where the first copy of each file lies."""

    __slots__ = ("buffer", "files")

    def __init__(self) -> None:
        self.buffer = BytesIO()
        self.files: list[tuple[str, str, int, int]] = []


class ArchiveWriter:
    """An open tarball. Use as an async context manager: a normal exit closes, an exception discards.

    The first member is `metadata/version`. After `close` (or a normal exit) the file is complete. After an
    exception inside the block, cancellation included, the file is removed.

    Args:
        path: where to write; must not exist yet.
        clock: gives the modification time of the members.
        index: where to write the index; must not exist yet. None writes none.
    """

    def __init__(self, path: Path, *, clock: Clock, index: Path | None = None) -> None:
        self.path = path
        self._index_path = index
        self._index: IndexWriter | None = None
        self.compressed_size_bytes = 0
        self.members = 0
        self._clock = clock
        self._compressor = new_compressor()
        # Buffers are used again: items are copied while they are in the processor's cache, nothing is
        # allocated for a batch, and the worker reads some while another is filled.
        self._batch = _Batch()
        self._spare: list[_Batch] = []
        self._modified = b""
        self._file: BinaryIO | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._pending: deque[Future[None]] = deque()
        self._flushing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        try:
            if self._index_path is not None:
                self._index = IndexWriter(self._index_path)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._discard_index()
            raise ArchiveWriteError(
                f"creating {self.path.name}: {problem_text(self.path.parent, error)}"
            ) from error
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="archive-writer")
        self._modified = modified_field(int(self._clock.now().timestamp()))
        self.add(VERSION_FILE, f"{FORMAT_VERSION}\n".encode())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            self.discard()

    def add(self, name: str, data: bytes, *, indexed: bool = True) -> None:
        """Append one member. Call `flush_if_full` now and then, or memory grows.

        Args:
            indexed: whether it is in the index, which has each item once.
        """
        directory, slash, file = name.rpartition("/")
        self.add_copies((MemberDirectory(directory + slash),), file, b"", data, indexed=indexed)

    def add_copies(
        self,
        directories: Iterable[MemberDirectory],
        name: str,
        head: bytes,
        rest: bytes | memoryview,
        *,
        indexed: bool = True,
    ) -> None:
        """Append a file to several directories; compressed, all copies but the first are very small.

        Args:
            directories: the directories that get a copy.
            name: of the file.
            head, rest: its content, in two parts so that the caller need not join them.
            indexed: whether the first copy is in the index.
        """
        size_bytes = len(head) + len(rest)
        file = MemberFile(name, size_field(size_bytes), self._modified)
        fill = padding(size_bytes)
        batch = self._batch
        write = batch.buffer.write
        is_first = indexed and self._index is not None
        for directory in directories:
            write(directory.header(file))
            if is_first:
                # The first copy is the one under the version; the others have the same content.
                batch.files.append((directory.path, name, batch.buffer.tell(), size_bytes))
                is_first = False
            write(head)
            write(rest)
            write(fill)
            self.members += 1

    @property
    def is_full(self) -> bool:
        """Whether the batch is full, so that `flush_if_full` has something to do."""
        return self._batch.buffer.tell() >= BATCH_BYTES

    async def flush_if_full(self) -> None:
        """Hand a full batch to the worker, waiting first if it has too many.

        Raises:
            ArchiveWriteError: an earlier batch could not be written.
        """
        if not self.is_full:
            return
        # Several tasks may add; one at a time waits for the worker and hands over.
        async with self._flushing:
            if self.is_full:
                await self._settle(_MOST_WITH_WORKER - 1)
                self._hand_over()

    async def close(self) -> None:
        """Write the last batch and the end of the archive, and close the file. Does nothing the second time.

        Raises:
            ArchiveWriteError: not everything reached the disk; the file has been removed.
        """
        if self._file is None:
            return
        try:
            self._batch.buffer.write(END_OF_ARCHIVE)
            self._hand_over()
            await self._settle()
            self._submit(self._finish)
            await self._settle()
        except BaseException:  # cancellation too: half a tarball must not stay; passed on as it is
            self.discard()
            raise
        self._release()

    def discard(self) -> None:
        """Stop the worker and remove the file. Waits for the batch in the worker, which is short."""
        if self._file is None:
            return
        file = self._file
        self._release()
        with contextlib.suppress(OSError):  # the file is removed; why it cannot be closed does not matter
            file.close()
        self.path.unlink(missing_ok=True)
        self._discard_index()

    def _discard_index(self) -> None:
        if self._index is not None:
            with contextlib.suppress(OSError):
                self._index.discard()

    def _hand_over(self) -> None:
        batch, self._batch = self._batch, self._spare.pop() if self._spare else _Batch()
        self._modified = modified_field(int(self._clock.now().timestamp()))
        self._submit(lambda: self._write(batch))

    def _submit(self, job: Callable[[], None]) -> None:
        if self._worker is None:
            raise ArchiveWriteError(f"{self.path.name}: the archive is not open")
        self._pending.append(self._worker.submit(job))

    async def _settle(self, left: int = 0) -> None:
        """Wait until the worker has at most `left` jobs. Raises ArchiveWriteError if one has failed."""
        while len(self._pending) > left or (self._pending and self._pending[0].done()):
            try:
                # A caller that is cancelled here must not take a batch that still waits from the worker: the
                # others go on, and the tarball would lack its items without a trace.
                await asyncio.shield(asyncio.wrap_future(self._pending[0]))
            except OSError as error:
                raise ArchiveWriteError(
                    f"writing {self.path.name}: {problem_text(self.path.parent, error)}"
                ) from error
            self._pending.popleft()

    def _write(self, batch: _Batch) -> None:
        # Not a copy, as the content is not changed while it is used here.
        content = batch.buffer.getvalue()
        filled = memoryview(content)[: batch.buffer.tell()]
        compressed = self._compressor.compress(filled) + self._compressor.flush(FULL_FLUSH)
        if self._index is not None:
            begin = self.compressed_size_bytes  # the first batch follows the gzip header in its own output
            self._index.add_batch(Span(begin, len(compressed), begin > 0), content, batch.files)
        batch.buffer.seek(0)
        batch.files.clear()
        self._put(compressed)
        self._spare.append(batch)

    def _finish(self) -> None:
        assert self._file is not None
        self._put(self._compressor.flush())
        self._file.close()
        if self._index is not None:
            self._index.close(self.compressed_size_bytes)

    def _put(self, data: bytes) -> None:
        assert self._file is not None
        view = memoryview(data)
        while view:
            written = self._file.write(view)
            self.compressed_size_bytes += written
            view = view[written:]

    def _release(self) -> None:
        if self._worker is not None:
            self._worker.shutdown(wait=True, cancel_futures=True)
        self._worker = self._file = None
        self._pending.clear()
