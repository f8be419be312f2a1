"""Writes a backup tarball: `add` is cheap and never waits, compression and disk are one worker thread's.

Memory is bounded: one batch is filled while at most one other is being compressed; `flush_if_full` waits for
the worker when it falls behind. Any failure to write is fatal and comes out at the next flush or at close:
a tarball cut off by a full disk must never pass for a backup. (docs/spec: BKP 14)
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from pinnace.aio.temporary import problem_text
from pinnace.archive.deflate import new_compressor
from pinnace.archive.errors import ArchiveWriteError
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
"""Uncompressed bytes handed to the worker at once: large enough that the hand-over does not show."""


class ArchiveWriter:
    """An open tarball. Use as an async context manager: a normal exit closes, an exception discards.

    The first member is `metadata/version`. After `close` (or a normal exit) the file is complete. After an
    exception inside the block, cancellation included, the file is removed.

    Args:
        path: where to write; must not exist yet.
        clock: gives the modification time of the members.
    """

    def __init__(self, path: Path, *, clock: Callable[[], datetime]) -> None:
        self.path = path
        self.compressed_size_bytes = 0
        self.members = 0
        self._clock = clock
        # Two buffers change places: items are copied while they are in the processor's cache, nothing is
        # allocated for a batch, and the worker reads one while the other is filled.
        self._batch = BytesIO()
        self._spare = BytesIO()
        self._modified = b""
        self._compressor = new_compressor()
        self._file: BinaryIO | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ArchiveWriteError(
                f"creating {self.path.name}: {problem_text(self.path.parent, error)}"
            ) from error
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="archive-writer")
        self._modified = modified_field(int(self._clock().timestamp()))
        self.add(VERSION_FILE, f"{FORMAT_VERSION}\n".encode())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            self.discard()

    def add(self, name: str, data: bytes) -> None:
        """Append one member. Call `flush_if_full` now and then, or memory grows."""
        directory, slash, file = name.rpartition("/")
        self.add_copies((MemberDirectory(directory + slash),), file, b"", data)

    def add_copies(
        self, directories: Iterable[MemberDirectory], name: str, head: bytes, rest: bytes | memoryview
    ) -> None:
        """Append a file to several directories; compressed, all copies but the first are very small.

        Args:
            directories: where to.
            name: of the file.
            head, rest: its content, in two parts so that the caller need not put them together.
        """
        size_bytes = len(head) + len(rest)
        file = MemberFile(name, size_field(size_bytes), self._modified)
        fill = padding(size_bytes)
        write = self._batch.write
        for directory in directories:
            write(directory.header(file))
            write(head)
            write(rest)
            write(fill)
            self.members += 1

    @property
    def is_full(self) -> bool:
        """Whether a batch is together, so that `flush_if_full` has something to do."""
        return self._batch.tell() >= BATCH_BYTES

    async def flush_if_full(self) -> None:
        """Hand a full batch to the worker, waiting first for the one before it.

        Raises:
            ArchiveWriteError: an earlier batch could not be written.
        """
        if not self.is_full:
            return
        # Several tasks may add; one at a time waits for the worker and hands over.
        async with self._turn:
            if self.is_full:
                await self._settle()
                self._hand_over()

    async def close(self) -> None:
        """Write what is left and the end of the archive, and close the file. Does nothing the second time.

        Raises:
            ArchiveWriteError: not everything reached the disk; the file has been removed.
        """
        if self._file is None:
            return
        try:
            await self._settle()
            self._batch.write(END_OF_ARCHIVE)
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
        with contextlib.suppress(OSError):  # it goes away; why it cannot be closed does not matter
            file.close()
        self.path.unlink(missing_ok=True)

    def _hand_over(self) -> None:
        batch, self._batch, self._spare = self._batch, self._spare, self._batch
        self._modified = modified_field(int(self._clock().timestamp()))
        self._submit(lambda: self._write(batch))

    def _submit(self, job: Callable[[], None]) -> None:
        if self._worker is None:
            raise ArchiveWriteError(f"{self.path.name}: the archive is not open")
        self._pending = self._worker.submit(job)

    async def _settle(self) -> None:
        """Wait for the worker; raises what it failed with."""
        if self._pending is None:
            return
        try:
            await asyncio.wrap_future(self._pending)
        except OSError as error:
            raise ArchiveWriteError(
                f"writing {self.path.name}: {problem_text(self.path.parent, error)}"
            ) from error
        self._pending = None

    def _write(self, batch: BytesIO) -> None:
        with batch.getbuffer() as buffer, buffer[: batch.tell()] as filled:
            compressed = self._compressor.compress(filled)
        batch.seek(0)
        self._put(compressed)

    def _finish(self) -> None:
        assert self._file is not None
        self._put(self._compressor.flush())
        self._file.close()

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
        self._worker = self._pending = self._file = None
