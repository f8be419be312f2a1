"""What restic prints, from old to new versions, whole and cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.volumes.restic.output import (
    MAXIMUM_LINE_BYTES,
    BackupOutput,
    parse_snapshot_id,
    parse_total_size,
)
from pinnace.volumes.uploader.errors import UnexpectedOutput
from pinnace.volumes.uploader.output import ByteCounts, Tail

STATUS = b'{"message_type":"status","percent_done":0.5,"total_bytes":20,"bytes_done":10}\n'
SUMMARY = b'{"message_type":"summary","total_bytes_processed":21,"snapshot_id":"6301addd"}\n'
EMPTY = b'{"message_type":"status","percent_done":0}\n'


def fed(*chunks: bytes) -> BackupOutput:
    output = BackupOutput()
    for chunk in chunks:
        output.feed(chunk)
    return output


@pytest.mark.spec("PVL-030")
def test_a_missing_summary_is_an_error() -> None:
    with pytest.raises(UnexpectedOutput, match="unable to find summary in restic backup command output"):
        fed(STATUS, STATUS).final_progress()


@pytest.mark.spec("PVL-031")
def test_a_cut_summary_is_an_error() -> None:
    with pytest.raises(
        UnexpectedOutput, match="unable to get summary line from restic backup command output"
    ):
        fed(STATUS, SUMMARY.rstrip(b"\n")).final_progress()


@pytest.mark.spec("PVL-032")
@pytest.mark.parametrize("chunks", [(STATUS, SUMMARY), (SUMMARY, STATUS), (b"{}\n", SUMMARY, b"no JSON\n")])
def test_the_summary_counts_wherever_it_stands(chunks: tuple[bytes, ...]) -> None:
    assert fed(*chunks).final_progress() == ByteCounts(total_bytes=21, bytes_done=21)


@pytest.mark.spec("PVL-033")
@pytest.mark.parametrize(("data", "last"), [(b"a\nb\nc\n", b"c"), (b"a\nb", b"a"), (b"", b"")])
def test_the_last_complete_line_is_kept(data: bytes, last: bytes) -> None:
    assert fed(data).last_line == last


@pytest.mark.spec("PVL-034")
@pytest.mark.parametrize(
    "line",
    [EMPTY, b"scan finished\n", b"", b"[]\n", b'{"bytes_done":"x"}\n'],
    ids=["no bytes", "text", "nothing", "list", "strange"],
)
def test_a_line_without_bytes_is_no_progress(line: bytes) -> None:
    assert fed(line).progress() is None


def test_progress_is_the_last_status() -> None:
    assert fed(EMPTY, STATUS).progress() == ByteCounts(total_bytes=20, bytes_done=10)


@given(st.lists(st.integers(min_value=1, max_value=40)))
def test_output_is_read_alike_wherever_it_is_cut(sizes: list[int]) -> None:
    data, output, start = STATUS + SUMMARY + EMPTY, BackupOutput(), 0
    for size in [*sizes, len(STATUS + SUMMARY + EMPTY)]:
        output.feed(data[start : start + size])
        start += size

    assert output.last_line == EMPTY.rstrip()
    assert output.final_progress().total_bytes == 21


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    output = fed(SUMMARY, *[b"x" * (MAXIMUM_LINE_BYTES // 2)] * 3, b"\n", STATUS)

    assert output.last_line == STATUS.rstrip()
    assert output.final_progress().total_bytes == 21


@pytest.mark.spec("PVL-035")
@pytest.mark.parametrize(
    ("data", "count"), [(b"[]", 0), (b"null", 0), (b'[{"short_id":"a"},{"short_id":"b"}]', 2)]
)
def test_exactly_one_snapshot_is_expected(data: bytes, count: int) -> None:
    with pytest.raises(UnexpectedOutput, match=f"expected one matching snapshot, got {count}"):
        parse_snapshot_id(data)


@pytest.mark.spec("PVL-035")
def test_the_short_id_is_taken() -> None:
    assert parse_snapshot_id(b'[{"id":"6301adddd6f5","short_id":"6301addd","tags":["a=b"]}]\n') == "6301addd"


@pytest.mark.parametrize("data", [b"", b"not JSON", b"[{}]", b"[1]"])
def test_a_strange_list_is_an_error(data: bytes) -> None:
    with pytest.raises(UnexpectedOutput):
        parse_snapshot_id(data)


def test_the_total_size_is_read() -> None:
    assert parse_total_size(b'{"total_size":30,"total_file_count":1}\n') == 30
    with pytest.raises(UnexpectedOutput, match="size of the snapshot"):
        parse_total_size(b"{}")


def test_the_tail_keeps_the_end_and_says_that_it_is_cut() -> None:
    tail = Tail(4)
    for chunk in (b"ab", b"cd", b"ef"):
        tail.feed(chunk)

    assert (tail.data, tail.text) == (b"cdef", "…cdef")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ('"snapshot_id":"6301addd"', "6301addd"),
        (f'"snapshot_id":"6301addd{"0" * 56}"', "6301addd"),
        ('"snapshot_id":"--repo=x"', ""),
        ('"snapshot_id":"63"', ""),
        ('"snapshot_id":7', ""),
        ('"files_new":1', ""),
    ],
)
def test_the_snapshot_is_named_by_the_summary(said: str, found: str) -> None:
    output = BackupOutput()
    output.feed(f'{{"message_type":"summary",{said}}}\n'.encode())
    assert output.snapshot_id() == found


def test_without_summary_there_is_no_snapshot() -> None:
    assert BackupOutput().snapshot_id() == ""
