import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.aio.lines import LineSplitter, LineTooLong

MIB = 1 << 20


def test_lines_beyond_the_maximum_are_refused() -> None:
    splitter = LineSplitter(10)
    assert list(splitter.feed(b"12345")) == []
    with pytest.raises(LineTooLong, match="larger than 10 bytes"):
        list(splitter.feed(b"678901"))


@pytest.mark.parametrize("in_pieces", [False, True])
@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line)), st.data())
def test_lines_do_not_depend_on_where_chunks_end(
    in_pieces: bool, lines: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter, found, start = LineSplitter(MIB, in_pieces=in_pieces), list[bytes](), 0
    while start < len(stream):
        size = data.draw(st.integers(1, 30))
        found += splitter.feed(stream[start : start + size])
        start += size
    assert found == lines
    assert not splitter.has_rest


def test_long_lines_come_in_pieces_where_that_is_wanted() -> None:
    splitter = LineSplitter(100, in_pieces=True)
    found = [*splitter.feed(b"a" * 210), *splitter.feed(b"b\nshort\n\nre"), *splitter.feed(b"st")]

    assert found == [b"a" * 100, b"a" * 100, b"a" * 10 + b"b", b"short"]
    assert list(splitter.end()) == [b"rest"]
    assert list(splitter.end()) == []
