"""The writer against tarfile, gzip and GNU tar, and what is left behind when it fails."""

import asyncio
import errno
import gzip
import json
import shutil
import tarfile
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinnace.archive import deflate, writer
from pinnace.archive.errors import ArchiveError, ArchiveWriteError
from pinnace.archive.writer import ArchiveWriter
from tests.support.clock import FakeClock
from tests.support.failing import small_disk
from tests.support.tasks import settled
from tests.unit.archive.helpers import NOW, run, write_archive

LONG = "resources/customresourcedefinitions.apiextensions.k8s.io/v1-preferredversion/cluster/"
NAMES = [
    "resources/pods/namespaces/ns/pod.json",
    LONG + "a" * 80 + ".json",  # fits by splitting at a slash
    LONG + "a" * 253 + ".json",  # needs a PAX record
    "x" * 100,
    "x" * 101,
    "y" * 154 + "/" + "x" * 100,
    "y" * 155 + "/" + "x" * 100,
    "y" * 156 + "/" + "x" * 100,
    "resources/clusterroles.rbac.authorization.k8s.io/cluster/system:node.json",
    "resources/odd/cluster/äö€.json",
]


@pytest.mark.spec("BKP-021")
async def test_version_file_is_first_and_every_member_reads_back(tmp_path: Path) -> None:
    members = [(name, json.dumps({"n": name}).encode()) for name in NAMES]
    path = await write_archive(tmp_path / "a.tar.gz", members)
    with tarfile.open(path) as tar:
        infos = tar.getmembers()
        assert [info.name for info in infos] == ["metadata/version", *NAMES]
        assert all(info.isreg() and info.mode == 0o755 for info in infos)
        assert all((info.uid, info.gid, info.uname, info.gname) == (0, 0, "", "") for info in infos)
        assert {info.mtime for info in infos} == {int(NOW.timestamp())}
        contents = [tar.extractfile(info).read() for info in infos]  # type: ignore[union-attr]
    assert contents[0] == b"1.1.0\n"
    assert contents[1:] == [data for _, data in members]


async def test_gnu_tar_lists_the_same_names(tmp_path: Path) -> None:
    if not shutil.which("tar"):
        pytest.skip("no tar program here")
    path = await write_archive(tmp_path / "a.tar.gz", [(name, b"{}") for name in NAMES])
    listed = await asyncio.to_thread(run, "tar", "--quoting-style=literal", "-tzf", path)
    assert listed.stdout.decode().splitlines() == ["metadata/version", *NAMES]
    assert listed.stderr == b""


async def test_gzip_header_has_no_time_and_no_name(tmp_path: Path) -> None:
    path = await write_archive(tmp_path / "a.tar.gz", [])
    head = path.read_bytes()[:10]
    assert head[:4] == b"\x1f\x8b\x08\x00"
    assert head[4:8] == bytes(4)


async def test_the_tarball_is_a_single_gzip_member(tmp_path: Path) -> None:
    path = await write_archive(tmp_path / "a.tar.gz", [(f"n{number}", noise(700_000)) for number in range(5)])
    engine = zlib.decompressobj(31)
    assert len(engine.decompress(path.read_bytes())) > 3 * writer.BATCH_BYTES
    assert engine.eof
    assert engine.unused_data == b""


async def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    members = [(f"resources/pods/namespaces/ns/{number}.json", b"{}" * number) for number in range(500)]
    first = await write_archive(tmp_path / "a.tar.gz", members)
    second = await write_archive(tmp_path / "b.tar.gz", members)
    assert first.read_bytes() == second.read_bytes()


async def test_size_after_close_is_the_size_of_the_file(tmp_path: Path) -> None:
    async with ArchiveWriter(tmp_path / "a.tar.gz", clock=FakeClock()) as archive:
        for number in range(50):
            archive.add(f"resources/pods/cluster/{number}.json", bytes(range(256)) * 100)
            await archive.flush_if_full()
    assert archive.compressed_size_bytes == archive.path.stat().st_size
    assert archive.members == 51


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    members=st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=120),
            st.text(st.sampled_from("ab-."), min_size=1, max_size=200),
            st.binary(max_size=3000),
        ),
        max_size=8,
        unique_by=lambda member: member[:2],
    )
)
def test_tarfile_reads_back_what_was_written(tmp_path: Path, members: list[tuple[str, str, bytes]]) -> None:
    path = tmp_path / "property.tar.gz"
    path.unlink(missing_ok=True)
    expected = [(f"a/{first}/{second}", data) for first, second, data in members]
    asyncio.run(write_archive(path, expected))
    with tarfile.open(path) as tar:
        found = [(info.name, tar.extractfile(info).read()) for info in tar.getmembers()[1:]]  # type: ignore[union-attr]
    assert found == expected


@pytest.fixture
def full_disk() -> Iterator[None]:
    with small_disk():
        yield


def noise(size: int) -> bytes:
    """Bytes that do not compress."""
    return b"".join(hash((size, number)).to_bytes(8, "big", signed=True) for number in range(size // 8))


async def test_full_disk_is_an_error_and_leaves_no_file(tmp_path: Path, full_disk: None) -> None:
    path = tmp_path / "a.tar.gz"
    with pytest.raises(ArchiveWriteError, match=r"writing a\.tar\.gz: .*[Ll]arge"):
        await write_archive(path, [(f"n{number}", noise(600_000)) for number in range(4)])
    assert not path.exists()


async def test_no_more_than_two_batches_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, put = threading.Event(), ArchiveWriter._put

    def slow_disk(self: ArchiveWriter, data: bytes) -> None:
        assert release.wait(20)
        put(self, data)

    monkeypatch.setattr(ArchiveWriter, "_put", slow_disk)
    added: list[int] = []
    async with ArchiveWriter(tmp_path / "a.tar.gz", clock=FakeClock()) as archive:

        async def fill() -> None:
            for number in range(6):
                archive.add(f"n{number}", noise(writer.BATCH_BYTES))
                added.append(number)
                await archive.flush_if_full()

        filling = asyncio.create_task(fill())
        await settled()
        assert added == [0, 1, 2]
        release.set()
        await filling
    with tarfile.open(archive.path) as tar:
        assert [(info.name, info.size) for info in tar.getmembers()[1:]] == [
            (f"n{number}", writer.BATCH_BYTES) for number in range(6)
        ]


async def test_a_caller_that_is_cancelled_takes_no_batch_from_the_worker(tmp_path: Path) -> None:
    release = threading.Event()
    async with ArchiveWriter(tmp_path / "a.tar.gz", clock=FakeClock()) as archive:
        assert archive._worker is not None
        archive._worker.submit(release.wait, 20)  # busy, so that no batch is begun
        for number in range(3):
            archive.add(f"n{number}", noise(writer.BATCH_BYTES))
            if number < 2:
                await archive.flush_if_full()
        waiting = asyncio.create_task(archive.flush_if_full())
        await settled()
        assert waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()
    with tarfile.open(archive.path) as tar:
        assert tar.getnames()[1:] == ["n0", "n1", "n2"]


async def test_full_disk_at_close_is_an_error(tmp_path: Path, full_disk: None) -> None:
    path = tmp_path / "a.tar.gz"
    archive = await ArchiveWriter(path, clock=FakeClock()).__aenter__()
    archive.add("n", noise(200_000))  # less than a batch: nothing is written before close
    with pytest.raises(ArchiveWriteError):
        await archive.close()
    assert not path.exists()


async def test_an_error_at_the_last_byte_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(self: ArchiveWriter) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer.ArchiveWriter, "_finish", no_space)
    with pytest.raises(ArchiveWriteError, match="No space left on device"):
        await write_archive(tmp_path / "a.tar.gz", [("n", b"{}")])
    assert not (tmp_path / "a.tar.gz").exists()


async def test_cancellation_removes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    started = asyncio.Event()

    async def run() -> None:
        async with ArchiveWriter(path, clock=FakeClock()) as archive:
            archive.add("n", noise(1_200_000))
            await archive.flush_if_full()
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not path.exists()


async def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_text("precious")
    with pytest.raises(ArchiveWriteError, match=r"creating a\.tar\.gz: File exists"):
        await write_archive(path, [])
    assert path.read_text() == "precious"


async def test_a_tarball_that_cannot_be_created_leaves_no_index(tmp_path: Path) -> None:
    index = tmp_path / "index.json.gz"
    with pytest.raises(ArchiveWriteError):
        async with ArchiveWriter(tmp_path / "missing" / "a.tar.gz", clock=FakeClock(), index=index):
            pass
    assert not index.exists()


async def test_a_member_too_large_for_a_tar_header_is_refused(tmp_path: Path) -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 9 * 1024**3

    with pytest.raises(ArchiveError, match="too many for one member"):
        await write_archive(tmp_path / "a.tar.gz", [("n", Huge())])


def test_fallback_codec_is_interchangeable(tmp_path: Path) -> None:
    compressor = deflate.new_compressor(use_isal=False)
    path = tmp_path / "x.gz"
    path.write_bytes(compressor.compress(b"abc" * 10_000) + compressor.flush())
    assert gzip.decompress(path.read_bytes()) == b"abc" * 10_000
    for use_isal in (False, True):
        with path.open("rb") as source:
            assert b"".join(deflate.inflate(source, use_isal=use_isal)) == b"abc" * 10_000
