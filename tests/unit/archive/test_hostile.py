"""Damaged and malicious archives: refused with a clear text, never a crash, a hang or a stray file."""

import asyncio
import gzip
import io
import os
import tarfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pinnace.archive import reader, tarformat
from pinnace.archive.errors import ArchiveError
from pinnace.archive.reader import ArchiveIndex, ArchiveLimits
from pinnace.archive.scan import TarStream, clean_path
from tests.unit.archive.helpers import entries, store, tar_bytes, typed

ITEM = "resources/pods/cluster/p.json"
GOOD = tar_bytes([("metadata/version", b"1.1.0\n"), (ITEM, b"{}" * 400)])


async def refusal(path: Path, limits: ArchiveLimits | None = None) -> str:
    """The text with which an archive is refused; nothing but the archive may be left in its directory."""
    with pytest.raises(ArchiveError) as caught:
        await ArchiveIndex.open(path, path.parent, with_versions=True, limits=limits)
    assert entries(path.parent) == [path.name]
    return str(caught.value)


@pytest.mark.spec("BEY-009", "AFT-163")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("../x", "../x"),
        ("../ab/x", "leaves the directory"),
        ("resources/../../etc/x.json", "leaves the directory"),
        ("resources/pods/..", "leaves the directory"),
        ("..", "leaves the directory"),
        ("/etc/passwd", "absolute names"),
        ("//etc/passwd", "absolute names"),
        ("n" * 5000, "not a valid name"),
    ],
)
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE])
async def test_names_that_leave_the_directory_are_refused(
    tmp_path: Path, name: str, text: str, kind: bytes
) -> None:
    tar = tar_bytes([(typed(name, kind), b"")])
    assert text in await refusal(store(tmp_path / "a.tar.gz", tar))


async def test_a_duplicate_entry_is_refused_by_name(tmp_path: Path) -> None:
    tar = tar_bytes([(ITEM, b"{}"), ("resources/pods/cluster/./p.json", b"{}")])
    assert await refusal(store(tmp_path / "a.tar.gz", tar)) == f"{ITEM}: is twice in the archive"


async def test_every_truncation_of_the_gzip_stream_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(GOOD)
    path = tmp_path / "a.tar.gz"
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        assert "file" in await refusal(path)


@pytest.mark.parametrize("length", [1, 511, 513, 1023, 1025, 1537, 2047, 2049])
async def test_a_truncated_tar_stream_is_refused(tmp_path: Path, length: int) -> None:
    assert "cut off" in await refusal(store(tmp_path / "a.tar.gz", GOOD[:length]))


@pytest.mark.parametrize("members", [b"", GOOD[: 512 * 5]], ids=["nothing", "cut-between-members"])
async def test_a_missing_end_mark_is_refused(tmp_path: Path, members: bytes) -> None:
    assert "has no end mark" in await refusal(store(tmp_path / "a.tar.gz", members))


async def test_garbage_behind_the_gzip_stream_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(GOOD) + b"garbage")
    assert "followed by data that is not gzip" in await refusal(path)


async def test_padding_and_further_members_of_gzip_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(GOOD[:700]) + gzip.compress(GOOD[700:]) + bytes(3000))
    with await ArchiveIndex.open(path, tmp_path, with_versions=False) as index:
        assert index.read("pods", "", "p") == b"{}" * 400


async def test_garbage_behind_the_tar_stream_is_refused(tmp_path: Path) -> None:
    assert "data follows the end mark" in await refusal(store(tmp_path / "a.tar.gz", GOOD + b"x" * 512))


async def test_a_wrong_gzip_checksum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    whole = bytearray(gzip.compress(GOOD))
    whole[-6] ^= 1
    path.write_bytes(whole)
    assert "not a valid gzip file" in await refusal(path)


@pytest.mark.parametrize(
    ("position", "text"),
    [(0, "wrong checksum"), (148, "checksum"), (130, "wrong checksum"), (300, "wrong checksum")],
)
async def test_a_flipped_bit_in_a_tar_header_is_refused(tmp_path: Path, position: int, text: str) -> None:
    tar = bytearray(GOOD)
    tar[1024 + position] ^= 4
    assert text in await refusal(store(tmp_path / "a.tar.gz", bytes(tar)))


async def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(b"<html>404</html>")
    assert "not a valid gzip file" in await refusal(path)
    assert "not a tar file" in await refusal(store(path, b"<html>" * 500))
    path.write_bytes(b"")
    assert "empty" in await refusal(path)


async def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"reading absent\.tar\.gz: No such file"):
        await ArchiveIndex.open(tmp_path / "absent.tar.gz", tmp_path, with_versions=False)


@pytest.mark.spec("AFT-165")
@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (ArchiveLimits(max_entries=1), "more than 1 entries"),
        (ArchiveLimits(max_item_bytes=799), f"{ITEM}: 800 bytes; at most 799 are allowed"),
        (ArchiveLimits(max_uncompressed_bytes=1000), "more than 1000 bytes"),
    ],
)
async def test_an_archive_beyond_a_limit_is_refused(tmp_path: Path, limits: ArchiveLimits, text: str) -> None:
    assert text in await refusal(store(tmp_path / "a.tar.gz", GOOD), limits)


async def test_bomb_is_stopped_by_its_ratio(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    with path.open("wb") as target:
        for number in range(8):
            tar = tar_bytes([(f"stray/{number}", bytes(16 * 1024 * 1024))])
            target.write(compressor.compress(tar[: 512 + 16 * 1024 * 1024]))
        target.write(compressor.flush())
    assert "this is not a backup" in await refusal(path)


def with_header(**fields: bytes) -> bytes:
    """A tar file of one member whose header fields are overwritten, with a checksum that fits."""
    places = {"size": (124, 12), "kind": (156, 1), "name": (0, 100), "magic": (257, 8)}
    block = bytearray(tar_bytes([("x", b"")])[:512])
    for field, value in fields.items():
        start, length = places[field]
        block[start : start + length] = value.ljust(length, b"\0")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + bytes(2048)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"size": b"\xff" * 12}, "size in the tar header is not valid"),
        ({"size": b"\x80\x00\x00\x00" + b"\xff" * 8}, "size in the tar header is not valid"),
        ({"size": b"\x80" + bytes(10) + b"\x01", "name": b"resources/pods/cluster/p.json"}, ""),
        ({"size": b"-00000000001"}, "not a number"),
        ({"size": b"99999999999"}, "not a number"),
        ({"kind": b"x", "size": b"77777777777"}, "too large"),
        ({"kind": b"L", "size": b"00000001000"}, "ends after a header"),
        ({"kind": b"S"}, "sparse"),
        ({"name": b"\xff\xfe"}, "not UTF-8"),
    ],
)
async def test_unusual_headers_are_read_or_refused(
    tmp_path: Path, fields: dict[str, bytes], text: str
) -> None:
    path = store(tmp_path / "a.tar.gz", with_header(**fields))
    if text:
        assert text in await refusal(path)
    else:
        with await ArchiveIndex.open(path, tmp_path, with_versions=False) as index:
            assert index.read("pods", "", "p") == b"\0"


@pytest.mark.parametrize(
    "data",
    [
        b"abc",
        b"99 path=x\n",
        b"9 path=xy",
        b"6 =xyz\n",
        b"0 \n",
        b"-5 a=b\n",
        b"5 a=\x00",
        b"4 a\n",
        b"1" * 30,
    ],
)
def test_malformed_pax_records_are_refused(data: bytes) -> None:
    with pytest.raises(ArchiveError, match="PAX header"):
        tarformat.parse_pax(data)


async def test_old_signed_checksums_are_accepted(tmp_path: Path) -> None:
    block = bytearray(tar_bytes([("resources/pods/cluster/ä.json", b"")], tarfile.GNU_FORMAT)[:512])
    block[148:156] = b" " * 8
    signed = sum(byte - 256 if byte > 127 else byte for byte in block)
    block[148:156] = b"%06o\0 " % signed
    path = store(tmp_path / "a.tar.gz", bytes(block) + bytes(1024))
    with await ArchiveIndex.open(path, tmp_path, with_versions=False) as index:
        assert index.names("pods", "") == ["ä"]


async def test_cancellation_stops_the_thread_and_frees_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, resume = threading.Event(), threading.Event()
    descriptors: list[int] = []
    make_spool: Callable[[Path], int] = reader._open_spool

    def slow_spool(directory: Path) -> int:
        descriptors.append(make_spool(directory))
        reached.set()
        resume.wait(10)
        return descriptors[0]

    monkeypatch.setattr(reader, "_open_spool", slow_spool)
    task = asyncio.create_task(
        ArchiveIndex.open(store(tmp_path / "a.tar.gz", GOOD), tmp_path, with_versions=False)
    )
    await asyncio.to_thread(reached.wait, 10)
    task.cancel()
    asyncio.get_running_loop().call_soon(resume.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptors[0])


@given(st.binary(max_size=300))
@example(b"a/../b")
@example(b"./a//b/.")
def test_a_clean_path_never_leaves_the_directory(raw: bytes) -> None:
    try:
        path = clean_path(raw)
    except ArchiveError:
        return
    resolved = os.path.normpath(os.path.join("/base/dir", path))
    assert resolved == "/base/dir" or resolved.startswith("/base/dir/")
    assert not path.startswith("/")


def our_names(tar: bytes) -> list[str] | None:
    """The regular files our parser sees, or None when it refuses the stream."""
    stream = TarStream(
        iter([tar]), limits=ArchiveLimits(), compressed=io.BytesIO(tar), stop=threading.Event()
    )
    try:
        return [member.path for member in stream.members() if member.is_file]
    except ArchiveError:
        return None


@settings(max_examples=5 * settings().max_examples)
@given(
    members=st.lists(
        st.tuples(
            st.text(st.sampled_from("ab/.é"), min_size=1, max_size=150).filter(lambda name: name[-1] != "/"),
            st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE]),
            st.binary(max_size=600),
        ),
        max_size=5,
    ),
    tar_format=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_same_files_as_tarfile_or_refused(members: list[tuple[str, bytes, bytes]], tar_format: int) -> None:
    tar = tar_bytes([(typed(name, kind, "target"), data) for name, kind, data in members], tar_format)
    found = our_names(tar)
    with tarfile.open(fileobj=io.BytesIO(tar)) as other:
        names = [info.name for info in other.getmembers()]
        files = [info.name for info in other.getmembers() if info.isreg()]
    if found is None:
        assert any(name.startswith("/") or ".." in name.split("/") for name in names)
    else:
        assert found == [clean_path(name.encode()) for name in files]


@settings(max_examples=5 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    """Any flipped bytes end in ArchiveError or a clean parse, never in another exception."""
    tar = bytearray(tar_bytes([("a" * 120, b"x" * 700), ("b", b"y")], tarfile.PAX_FORMAT)[: 512 * 9])
    for _ in range(data.draw(st.integers(1, 3))):
        tar[data.draw(st.integers(0, len(tar) - 1))] = data.draw(st.integers(0, 255))
    found = our_names(bytes(tar))
    assert found is None or all(isinstance(name, str) for name in found)
