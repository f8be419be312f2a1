"""The gzip'd JSON files, and hostile ones."""

import gzip
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.storage.documents import DocumentError, ListDocument, TreeDocument
from pinnace.storage.encoding import (
    compress,
    decompress_stream,
    encode_list,
    encode_object,
    read_document,
)
from pinnace.storage.errors import StorageError, UnreadableObject

json_objects = st.dictionaries(
    st.text(max_size=5),
    st.one_of(st.none(), st.booleans(), st.text(), st.lists(st.integers(-9, 9))),
    max_size=4,
)


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


class AnyBlocks:
    """A document that takes everything."""

    def feed(self, block: bytes) -> None:
        """Take a block."""

    def finish(self) -> None:
        """Nothing is kept."""


async def collected(data: bytes, size: int) -> bytes:
    return b"".join([block async for block in decompress_stream(pieces(data, size), key="k")])


def test_the_gzip_header_has_no_name_and_no_time() -> None:
    header = compress(b"x")[:8]

    assert header[:3] == b"\x1f\x8b\x08"
    assert header[3] == 0  # no flags, hence no name
    assert header[4:8] == b"\0\0\0\0"


@pytest.mark.spec("STO-021")
def test_empty_ones() -> None:
    assert gzip.decompress(encode_list([])) == b"null\n"
    assert gzip.decompress(encode_object({})) == b"{}\n"


def test_compact_with_a_newline() -> None:
    assert gzip.decompress(encode_list([{"b": 1, "a": "ü"}])) == '[{"a":"ü","b":1}]\n'.encode()


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(StorageError, match="cannot encode"):
        encode_object({"a": object()})


@given(st.lists(json_objects, max_size=4), st.integers(1, 50))
async def test_lists_round_trip(items: list[dict[str, object]], size: int) -> None:
    found = await read_document(pieces(encode_list(items), size), ListDocument(), key="k")

    assert list(found) == items


@given(json_objects, st.integers(1, 50))
async def test_objects_round_trip(value: dict[str, object], size: int) -> None:
    assert await read_document(pieces(encode_object(value), size), TreeDocument(), key="k") == value


async def test_data_that_was_decompressed_on_the_way_is_taken() -> None:
    assert await read_document(pieces(b"[1]\n", 1), TreeDocument(), key="k") == [1]


async def test_several_members_and_padding() -> None:
    data = compress(b'["one",') + compress(b'"two"]') + b"\0" * 10

    assert await read_document(pieces(data, 7), TreeDocument(), key="k") == ["one", "two"]


async def test_a_document_is_left_at_the_block_that_exceeds_a_limit() -> None:
    blocks = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal blocks
        yield compress(b"[")
        packed = compress(b" " * (1 << 20))
        while True:
            blocks += 1
            yield packed

    with pytest.raises(DocumentError, match="larger than"):
        await read_document(endless(), ListDocument(most_bytes=10 << 20), key="k")
    assert blocks == 10


@pytest.mark.parametrize("data", [compress(b"x" * 1000)[:-9], b"\x1f\x8b\x08garbage", b"\x1f\x8b"])
async def test_damaged_gzip(data: bytes) -> None:
    with pytest.raises(UnreadableObject, match=r"damaged gzip data|cut off"):
        await read_document(pieces(data, 7), AnyBlocks(), key="k")
    with pytest.raises(UnreadableObject, match=r"damaged gzip data|cut off"):
        await collected(data, 7)


@given(st.binary(max_size=3000), st.integers(1, 50), st.booleans())
async def test_streams_give_the_same(data: bytes, size: int, twice: bool) -> None:
    packed = compress(data) * (2 if twice else 1)

    assert await collected(packed, size) == data * (2 if twice else 1)


async def test_a_stream_is_unpacked_in_small_blocks() -> None:
    packed = compress(b"\0" * (20 << 20))
    sizes = [len(block) async for block in decompress_stream(pieces(packed, 1 << 16), key="k")]

    assert sum(sizes) == 20 << 20
    assert max(sizes) <= 1 << 20


@pytest.mark.parametrize("text", [b"", b"x", b"plain log\n"])
async def test_a_stream_that_was_unpacked_on_the_way(text: bytes) -> None:
    assert await collected(text, 1) == text
