"""Reading all items of a tarball, and the index that is written of it."""

import gzip
import random
import tarfile
import zlib
from pathlib import Path

import pytest

from pinnace.archive import deflate
from pinnace.archive.errors import ArchiveError
from pinnace.archive.tarformat import MemberDirectory
from pinnace.archive.writer import ArchiveWriter
from pinnace.browse import scanning
from pinnace.browse.scanning import items_of_tarball, write_index
from tests.support.clock import FakeClock
from tests.support.stores.indexed_backups import entries


async def test_the_index_of_a_tarball_is_that_of_its_writer(tmp_path: Path) -> None:
    """Over many flushed parts, with content that compresses well and content that does not."""
    tarball, written, read = tmp_path / "b.tar.gz", tmp_path / "written.gz", tmp_path / "read.gz"
    numbers = random.Random(7)
    contents = {
        f"item-{number}": b'{"data":"%b"}'
        % (b"a" * 3_000_000 if number % 10 == 0 else numbers.randbytes(150_000).hex().encode())
        for number in range(25)
    }
    heads = "resources/configmaps/v1-preferredversion/", "resources/configmaps/"
    directories = [MemberDirectory(f"{head}namespaces/shop/") for head in heads]

    async with ArchiveWriter(tarball, clock=FakeClock(), index=written) as writer:
        for name, content in contents.items():
            writer.add_copies(directories, f"{name}.json", b"", content)
            await writer.flush_if_full()
    count = write_index(tarball, read)

    assert count == len(contents)
    assert entries(read) == entries(written)
    assert {place.name: content for place, content in items_of_tarball(tarball)} == contents


def _tarball(path: Path, flush: int) -> list[bytes]:
    """A tarball of 40 items that is flushed after each. Returns the items."""
    contents = [b'{"n":%d,"x":"%b"}' % (number, b"abc" * 24_000) for number in range(40)]
    compressor = zlib.compressobj(6, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        for number, content in enumerate(contents):
            info = tarfile.TarInfo(f"resources/pods/namespaces/shop/p{number}.json")
            info.size = len(content)
            text = info.tobuf() + content + bytes(-len(content) % 512)
            file.write(compressor.compress(text) + compressor.flush(flush))
        file.write(compressor.compress(bytes(1024)) + compressor.flush())
    return contents


@pytest.mark.found("P5")
@pytest.mark.parametrize(
    ("flush", "parts"), [(zlib.Z_FULL_FLUSH, 39), (zlib.Z_SYNC_FLUSH, 0)], ids=["full", "sync"]
)
def test_only_full_flushes_begin_parts(tmp_path: Path, flush: int, parts: int) -> None:
    """Data behind another flush refers back to what was before it."""
    tarball = tmp_path / "b.tar.gz"
    contents = _tarball(tarball, flush)

    placed = list(scanning.placed_items(tarball))

    assert [content for _, content, _ in placed] == contents
    assert sum(place.span.is_part for _, _, place in placed) == parts
    stored = tarball.read_bytes()
    for _, content, place in placed:
        engine = zlib.decompressobj(-15 if place.span.is_part else 31)
        assert engine.decompress(stored[place.span.offset :])[place.offset :].startswith(content)


def test_flushes_without_end_are_not_tried_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hostile file of five bytes for each flush: the work stays in proportion to what is read."""
    tarball = tmp_path / "b.tar.gz"
    _tarball(tarball, zlib.Z_FULL_FLUSH)
    stored = tarball.read_bytes()
    mark = stored.index(deflate.FLUSH_MARK) + len(deflate.FLUSH_MARK)
    tarball.write_bytes(stored[:mark] + (b"\0" + deflate.FLUSH_MARK) * 400_000 + stored[mark:])
    engines: list[bool] = []

    def counted(*, raw: bool = False) -> deflate.Decompressor:
        engines.append(raw)
        return deflate.new_decompressor(raw=raw)

    monkeypatch.setattr(scanning, "new_decompressor", counted)

    assert sum(1 for _ in scanning.placed_items(tarball)) == 40
    assert 1 < sum(engines) < 60  # of 400,040


@pytest.mark.parametrize("behind", [b"\x1f", b"\x1fx", b"garbage", b"\0\0garbage"], ids=repr)
def test_what_follows_the_last_gzip_member_is_named(tmp_path: Path, behind: bytes) -> None:
    tarball = tmp_path / "b.tar.gz"
    tarball.write_bytes(gzip.compress(bytes(1024)) + behind)

    with pytest.raises(
        ArchiveError, match="cut off" if behind == b"\x1f" else "followed by data that is not gzip"
    ):
        list(items_of_tarball(tarball))
