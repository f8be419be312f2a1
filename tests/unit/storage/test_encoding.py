"""The gzip'd JSON files, and hostile ones."""

import gzip
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.storage.encoding import (
    compress,
    decode_list,
    decode_object,
    decompress,
    decompress_stream,
    encode_list,
    encode_object,
)
from pinnace.storage.errors import StorageError, UnreadableObject

LIMIT = 1 << 20
json_objects = st.dictionaries(
    st.text(max_size=5),
    st.one_of(st.none(), st.booleans(), st.text(), st.lists(st.integers(-9, 9))),
    max_size=4,
)


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


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


@given(st.lists(json_objects, max_size=4))
def test_lists_round_trip(items: list[dict[str, object]]) -> None:
    data = decompress(encode_list(items), key="k", limit_bytes=LIMIT)

    assert decode_list(data, key="k") == items


@given(json_objects)
def test_objects_round_trip(value: dict[str, object]) -> None:
    data = decompress(encode_object(value), key="k", limit_bytes=LIMIT)

    assert decode_object(data, key="k") == value


@pytest.mark.parametrize("text", [b"null", b"[]", b"{}"])
def test_none_in_all_its_forms(text: bytes) -> None:
    assert decode_list(text, key="k") == []
    assert decode_object(text, key="k") == {}


@pytest.mark.parametrize("text", [b"", b"foo", b"7", b'"x"', b"[1]", b"[" * 5000, b'{"a":', b"\xff\xfe"])
def test_other_json_names_the_key(text: bytes) -> None:
    for decode in (decode_list, decode_object):
        with pytest.raises(UnreadableObject, match="object 'the-key' cannot be read") as caught:
            decode(text, key="the-key")
        assert "\n" not in str(caught.value)


def test_data_that_was_decompressed_on_the_way_is_taken() -> None:
    assert decompress(b"null\n", key="k", limit_bytes=LIMIT) == b"null\n"


def test_several_members_and_padding() -> None:
    data = compress(b"one ") + compress(b"two") + b"\0" * 10

    assert decompress(data, key="k", limit_bytes=LIMIT) == b"one two"


def test_a_bomb_is_refused() -> None:
    bomb = compress(b"\0" * (50 << 20))
    with pytest.raises(UnreadableObject, match=f"larger than {LIMIT} bytes"):
        decompress(bomb, key="k", limit_bytes=LIMIT)
    with pytest.raises(UnreadableObject, match="larger than 10 bytes"):
        decompress(compress(b"123456") * 2, key="k", limit_bytes=10)
    assert decompress(compress(b"12345") * 2, key="k", limit_bytes=10) == b"1234512345"


@pytest.mark.parametrize("data", [compress(b"x" * 1000)[:-9], b"\x1f\x8b\x08garbage", b"\x1f\x8b"])
async def test_damaged_gzip(data: bytes) -> None:
    with pytest.raises(UnreadableObject, match=r"damaged gzip data|cut off"):
        decompress(data, key="k", limit_bytes=LIMIT)
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
