"""Reading all items of a tarball, and the index that is written of it."""

import gzip
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pinnace.archive.errors import ArchiveError
from pinnace.archive.item_index import Entry, IndexParser
from pinnace.archive.tarformat import MemberDirectory
from pinnace.archive.writer import ArchiveWriter
from pinnace.browse.scanning import items_of_tarball, write_index


def entries(index: Path) -> list[Entry]:
    parser = IndexParser()
    found = [entry for batch in parser.feed(index.read_bytes()) for entry in batch]
    parser.finish()
    return found


async def test_the_index_of_a_tarball_is_that_of_its_writer(tmp_path: Path) -> None:
    """Over many gzip members, with content that compresses well and content that does not."""
    tarball, written, read = tmp_path / "b.tar.gz", tmp_path / "written.gz", tmp_path / "read.gz"
    numbers = random.Random(7)
    contents = {
        f"item-{number}": b'{"data":"%b"}'
        % (b"a" * 3_000_000 if number % 10 == 0 else numbers.randbytes(150_000).hex().encode())
        for number in range(25)
    }
    heads = "resources/configmaps/v1-preferredversion/", "resources/configmaps/"
    directories = [MemberDirectory(f"{head}namespaces/shop/") for head in heads]

    async with ArchiveWriter(
        tarball, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC), index=written
    ) as writer:
        for name, content in contents.items():
            writer.add_copies(directories, f"{name}.json", b"", content)
            await writer.flush_if_full()
    count = write_index(tarball, read)

    assert count == len(contents)
    assert entries(read) == entries(written)
    assert {place.name: content for place, content in items_of_tarball(tarball)} == contents


@pytest.mark.parametrize("behind", [b"\x1f", b"\x1fx", b"garbage", b"\0\0garbage"], ids=repr)
def test_what_follows_the_last_gzip_member_is_named(tmp_path: Path, behind: bytes) -> None:
    tarball = tmp_path / "b.tar.gz"
    tarball.write_bytes(gzip.compress(bytes(1024)) + behind)

    with pytest.raises(
        ArchiveError, match="cut off" if behind == b"\x1f" else "followed by data that is not gzip"
    ):
        list(items_of_tarball(tarball))
