"""Making small archives for the tests, with our writer or with tarfile."""

import gzip
import io
import subprocess
import tarfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from pinnace.archive.writer import ArchiveWriter
from tests.support.clock import FakeClock

NOW = datetime(2021, 8, 11, 21, 43, 26, tzinfo=UTC)


async def write_archive(path: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    async with ArchiveWriter(path, clock=FakeClock(now=NOW)) as writer:
        for name, data in members:
            writer.add(name, data)
            await writer.flush_if_full()
    return path


def tar_bytes(
    members: Iterable[tuple[tarfile.TarInfo | str, bytes]], tar_format: int = tarfile.GNU_FORMAT
) -> bytes:
    """An uncompressed tar file; a member is a name or a whole TarInfo, with its data."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tar_format) as tar:
        for member, data in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            if info.isreg():
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def store(path: Path, tar: bytes) -> Path:
    path.write_bytes(gzip.compress(tar, mtime=0))
    return path


def entries(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir()]


def run(*command: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(word) for word in command], capture_output=True, check=True, timeout=30)


def typed(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    return info
