"""Makes a tarball of an older one with another content of some files."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pinnace.aio.blocking import in_thread
from pinnace.aio.clock import Clock
from pinnace.aio.temporary import problem_text
from pinnace.archive.deflate import inflate
from pinnace.archive.errors import ArchiveError
from pinnace.archive.paths import VERSION_FILE, parse_item_path
from pinnace.archive.scan import ArchiveLimits, TarStream
from pinnace.archive.writer import ArchiveWriter

_BATCH_BYTES: Final = 1024 * 1024

Batch = list[tuple[str, bytes]]


async def rewrite_archive(
    source: Path,
    target: Path,
    replaced: Mapping[str, bytes],
    *,
    clock: Clock,
    index: Path | None = None,
) -> None:
    """Copy a tarball, with the contents that `replaced` gives by path instead of those in the source.

    A replaced file that the source lacks is added. The source must be a tarball of `ArchiveWriter`, which has
    each item under its version: these copies are in the new index. Only files are copied, as backups have
    nothing else.

    Raises:
        ArchiveError: the source is damaged or hostile.
        ArchiveWriteError: the target cannot be written.
    """
    batches = _batches(source, replaced)
    async with ArchiveWriter(target, clock=clock, index=index) as writer:
        while batch := await in_thread(next, batches, None):
            for path, data in batch:
                _add(writer, path, data)
            await writer.flush_if_full()
        for path, data in replaced.items():
            _add(writer, path, data)
            await writer.flush_if_full()


def _add(writer: ArchiveWriter, path: str, data: bytes) -> None:
    location = parse_item_path(path)
    writer.add(path, data, indexed=location is not None and bool(location.version_directory))


def _batches(source: Path, replaced: Mapping[str, bytes]) -> Iterator[Batch]:
    """The files to copy, in batches; blocking. Raises ArchiveError."""
    try:
        with source.open("rb") as compressed:
            stream = TarStream(
                inflate(compressed), limits=ArchiveLimits(), compressed=compressed, stop=threading.Event()
            )
            batch: Batch = []
            batch_bytes = 0
            for member in stream.members():
                if not member.is_file or member.path in replaced or member.path == VERSION_FILE:
                    continue
                data = stream.read()
                batch.append((member.path, data))
                batch_bytes += len(data)
                if batch_bytes >= _BATCH_BYTES:
                    yield batch
                    batch, batch_bytes = [], 0
            if batch:
                yield batch
    except OSError as error:
        raise ArchiveError(f"reading {source.name}: {problem_text(source.parent, error)}") from error
