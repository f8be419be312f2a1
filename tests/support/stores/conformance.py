"""The behaviour of every ObjectStore, as one class of tests that each adapter runs.

A subclass gives the fixtures `store`, an empty store, and `missing`, a store whose bucket, container or
directory does not exist (any more). Tests for unfinished uploads are in the
adapters' own modules, as only they know where such uploads are.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from itertools import pairwise
from typing import ClassVar

import pytest

from pinnace.storage.errors import ObjectNotFound, StorageError
from pinnace.storage.interface import ObjectStore, RangedStore, VersionedStore, read_all

MEBIBYTE = 1 << 20
LIMIT = 64 * MEBIBYTE

ODD_KEYS = [
    "plain",
    "prefix/backups/b1/velero-backup.json",
    "with space/a b",
    "plus+and%25percent",
    "percent%2Fescaped%20text",
    "üñïçødé/日本語",
    "a&b=c?d#e",
    "quote'double\"<angle>",
    "semi;colon:comma,at@dollar$star*bang!paren()",
    "brackets[]{}|^`~",
    "trailing.dot.",
    "..hidden/...dots",
    "x" * 200,
]
BAD_KEYS = ["", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", "./a", "a/.", "a/./b", "a\0b"]


async def blocks(count: int, *, size: int = MEBIBYTE) -> AsyncIterator[bytes]:
    """A body of unknown length; every block differs from the one before."""
    for number in range(count):
        yield bytes([number % 251]) * size


class BrokenBodyError(Exception):
    """The error that a body raises half-way."""


async def broken(count: int) -> AsyncIterator[bytes]:
    """A body that fails after `count` blocks."""
    async for block in blocks(count):
        yield block
    raise BrokenBodyError


class Hanging:
    """A body that delivers some blocks and then waits for ever; `reached` tells when."""

    def __init__(self, count: int) -> None:
        self.reached = asyncio.Event()
        self.cancelled = False
        self._count = count

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for block in blocks(self._count):
            yield block
        self.reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def content(store: ObjectStore, key: str) -> bytes:
    """The whole object."""
    return await read_all(store, key, limit_bytes=LIMIT)


class RangeConformance:
    """Inherit beside StoreConformance, for a store that can read parts of objects."""

    @pytest.mark.parametrize(
        ("offset", "length"),
        [(0, 1), (0, 3 * MEBIBYTE), (1, 2), (MEBIBYTE - 1, 2), (2 * MEBIBYTE, 10 * MEBIBYTE)],
        ids=["first byte", "all", "early", "across blocks", "beyond the end"],
    )
    async def test_reads_a_part_of_an_object(self, store: ObjectStore, offset: int, length: int) -> None:
        body = b"".join([block async for block in blocks(3)])
        await store.put("a/b", body)

        assert isinstance(store, RangedStore)
        async with store.get_range("a/b", offset, length) as stream:
            found = b"".join([block async for block in stream])

        assert found == body[offset : offset + length]

    async def test_a_part_that_does_not_exist_is_an_error(self, store: ObjectStore) -> None:
        assert isinstance(store, RangedStore)
        await store.put("a/b", b"12345")

        for offset, length in ((5, 1), (100, 1), (-1, 2), (0, 0)):
            with pytest.raises(StorageError):
                async with store.get_range("a/b", offset, length) as stream:
                    [block async for block in stream]
        with pytest.raises(ObjectNotFound):
            async with store.get_range("a/c", 0, 1):
                pass


class StoreConformance:
    """Inherit, and define `store` and `missing`."""

    more_than_a_page: ClassVar[int] = 1003
    has_conditional_writes: ClassVar[bool] = True
    """Whether the service checks that an object does not exist and writes it in one step."""

    async def test_a_new_object_does_not_replace_another(self, store: ObjectStore) -> None:
        assert await store.put_new("a/new", b"first")
        assert not await store.put_new("a/new", b"second")
        assert await content(store, "a/new") == b"first"
        await store.delete("a/new")
        assert await store.put_new("a/new", b"third")
        assert await content(store, "a/new") == b"third"

    async def test_of_new_objects_of_one_key_one_is_stored(self, store: ObjectStore) -> None:
        stored = await asyncio.gather(*(store.put_new("a/new", b"%d" % number) for number in range(4)))

        writers = [b"%d" % number for number in range(4) if stored[number]]
        assert await content(store, "a/new") in writers
        if self.has_conditional_writes:
            assert len(writers) == 1

    async def test_a_new_object_in_a_missing_bucket_is_an_error(self, missing: ObjectStore) -> None:
        with pytest.raises(StorageError):
            await missing.put_new("a/new", b"data")

    @pytest.mark.parametrize("body", [b"", b"x", b"\0\xff" * 5000], ids=["empty", "one", "binary"])
    async def test_gives_back_what_was_put(self, store: ObjectStore, body: bytes) -> None:
        await store.put("a/b", body)

        assert await content(store, "a/b") == body
        assert await store.exists("a/b")

    @pytest.mark.parametrize("count", [0, 1, 12], ids=["empty", "small", "in parts"])
    async def test_knows_the_size_of_an_object(self, store: ObjectStore, count: int) -> None:
        await store.put("a/b", blocks(count))

        assert await store.size("a/b") == count * MEBIBYTE
        with pytest.raises(ObjectNotFound):
            await store.size("a/c")

    @pytest.mark.parametrize("key", ODD_KEYS)
    async def test_keeps_odd_keys_as_they_are(self, store: ObjectStore, key: str) -> None:
        await store.put(key, key.encode())

        assert await content(store, key) == key.encode()
        assert await store.exists(key)
        assert await store.list_keys("") == [key]
        await store.delete(key)
        assert not await store.exists(key)
        assert await store.list_keys("") == []

    @pytest.mark.parametrize("key", BAD_KEYS)
    async def test_refuses_keys_that_are_none(self, store: ObjectStore, key: str) -> None:
        with pytest.raises(StorageError, match="invalid key"):
            await store.put(key, b"x")
        with pytest.raises(StorageError, match="invalid key"):
            async with store.get(key):
                pass
        with pytest.raises(StorageError, match="invalid key"):
            await store.exists(key)
        with pytest.raises(StorageError, match="invalid key"):
            await store.size(key)

    async def test_refuses_a_prefix_without_its_slash(self, store: ObjectStore) -> None:
        with pytest.raises(StorageError, match="invalid prefix"):
            await store.list_keys("backups/b1")
        with pytest.raises(StorageError, match="invalid prefix"):
            await store.list_prefixes("backups")

    async def test_an_object_has_another_version_after_a_change(self, store: ObjectStore) -> None:
        if not isinstance(store, VersionedStore):
            return
        await store.put("a/b", b"one")
        before = await store.version("a/b")
        assert before
        assert await store.version("a/b") == before

        await store.put("a/b", b"two")

        assert await store.version("a/b") != before
        with pytest.raises(ObjectNotFound):
            await store.version("a/missing")

    async def test_replaces_an_object(self, store: ObjectStore) -> None:
        await store.put("a", b"first, and longer")
        await store.put("a", b"second")

        assert await content(store, "a") == b"second"

    async def test_streams_a_large_body_of_unknown_length(self, store: ObjectStore) -> None:
        await store.put("large", blocks(20))

        digest = 0
        async with store.get("large") as stream:
            async for block in stream:
                digest += len(block)
        assert digest == 20 * MEBIBYTE
        assert await content(store, "large") == b"".join([block async for block in blocks(20)])

    @pytest.mark.parametrize("count", [0, 1, 3], ids=["none", "one", "tiny"])
    async def test_streams_small_bodies(self, store: ObjectStore, count: int) -> None:
        await store.put("small", blocks(count, size=7))

        assert await content(store, "small") == b"".join([block async for block in blocks(count, size=7)])

    async def test_streams_an_object_into_another(self, store: ObjectStore) -> None:
        await store.put("from", blocks(9))
        async with store.get("from") as stream:
            await store.put("to", stream)

        assert await content(store, "to") == await content(store, "from")

    async def test_a_reader_may_stop_early(self, store: ObjectStore) -> None:
        await store.put("large", blocks(12))
        async with store.get("large") as stream:
            first = await anext(stream)

        assert first.startswith(b"\0")
        assert await store.exists("large")

    @pytest.mark.parametrize("count", [1, 12], ids=["small", "in parts"])
    async def test_a_body_that_fails_leaves_nothing(self, store: ObjectStore, count: int) -> None:
        with pytest.raises(BrokenBodyError):
            await store.put("backups/b1/file", broken(count))

        assert not await store.exists("backups/b1/file")
        assert await store.list_keys("") == []
        assert await store.list_prefixes("") == []

    async def test_a_body_that_fails_leaves_the_old_object(self, store: ObjectStore) -> None:
        await store.put("a", b"old")
        with pytest.raises(BrokenBodyError):
            await store.put("a", broken(12))

        assert await content(store, "a") == b"old"

    @pytest.mark.parametrize("count", [0, 1, 12], ids=["at once", "small", "in parts"])
    async def test_a_cancelled_put_leaves_nothing(self, store: ObjectStore, count: int) -> None:
        body = Hanging(count)
        putting = asyncio.create_task(store.put("backups/b1/file", body))
        await body.reached.wait()
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting

        assert body.cancelled
        assert not await store.exists("backups/b1/file")
        assert await store.list_prefixes("") == []

    async def test_the_store_works_on_after_a_cancelled_put(self, store: ObjectStore) -> None:
        body = Hanging(12)
        putting = asyncio.create_task(store.put("a", body))
        await body.reached.wait()
        putting.cancel()
        await asyncio.wait({putting})
        await store.put("a", b"later")

        assert await content(store, "a") == b"later"

    @pytest.mark.found("Z4")
    @pytest.mark.parametrize(
        "key", [f"backups/{'n' * 300}/a", f"backups/a/{'n' * 300}.json", "k/" * 700 + "k"]
    )
    async def test_a_key_that_is_too_long_is_stored_or_not_there(self, store: ObjectStore, key: str) -> None:
        """A backup whose name a store refuses can be deleted: nothing of it is there."""
        try:
            await store.put(key, b"content")
        except StorageError:
            assert not await store.exists(key)
            with pytest.raises(ObjectNotFound):
                await store.size(key)
            with pytest.raises(ObjectNotFound):
                await content(store, key)
            assert await store.list_keys(f"{key.rpartition('/')[0]}/") == []
        else:
            assert await content(store, key) == b"content"
        await store.delete(key)
        assert not await store.exists(key)

    async def test_missing_objects(self, store: ObjectStore) -> None:
        await store.put("a/b", b"x")

        with pytest.raises(ObjectNotFound) as caught:
            async with store.get("a/nothing"):
                pass
        assert caught.value.key == "a/nothing"
        assert "\n" not in str(caught.value)
        assert not await store.exists("a/nothing")
        assert not await store.exists("a")
        assert not await store.exists("a/b/c")

    async def test_deleting_what_is_not_there_succeeds(self, store: ObjectStore) -> None:
        await store.put("a/b", b"x")
        await store.delete("a/nothing")
        await store.delete("nowhere/at/all")
        await store.delete("a/b")
        await store.delete("a/b")

        assert await store.list_keys("") == []

    async def test_an_empty_store_lists_nothing(self, store: ObjectStore) -> None:
        assert await store.list_keys("") == []
        assert await store.list_keys("backups/") == []
        assert await store.list_prefixes("") == []
        assert await store.list_prefixes("backups/") == []

    @pytest.mark.parametrize(
        "call",
        [
            lambda store: store.list_prefixes(""),
            lambda store: store.list_prefixes("backups/"),
            lambda store: store.list_keys("backups/"),
            lambda store: store.exists("backups/b1/b1.tar.gz"),
            lambda store: store.size("backups/b1/b1.tar.gz"),
            lambda store: content(store, "backups/b1/b1.tar.gz"),
            lambda store: store.put("backups/b1/b1.tar.gz", b"x"),
            lambda store: store.delete("backups/b1/b1.tar.gz"),
        ],
        ids=["list", "list below", "keys", "exists", "size", "get", "put", "delete"],
    )
    async def test_what_is_not_there_is_no_empty_store(
        self, missing: ObjectStore, call: Callable[[ObjectStore], Awaitable[object]]
    ) -> None:
        """A backup that is not listed is deleted from the cluster: an unmounted disk must not look empty."""
        with pytest.raises(StorageError) as caught:
            await call(missing)

        assert not isinstance(caught.value, ObjectNotFound)
        assert "\n" not in str(caught.value)

    async def test_lists_common_prefixes(self, store: ObjectStore) -> None:
        for key in ("root.txt", "backups/b1/x", "backups/b1/y/z", "backups/b10/x", "restores/r1/x"):
            await store.put(key, b"")

        assert await store.list_prefixes("") == ["backups/", "restores/"]
        assert await store.list_prefixes("backups/") == ["backups/b1/", "backups/b10/"]
        assert await store.list_prefixes("backups/b1/") == ["backups/b1/y/"]
        assert await store.list_prefixes("plugins/") == []

    async def test_lists_keys_in_descending_order_within_the_prefix(self, store: ObjectStore) -> None:
        for key in ("backups/b1/x", "backups/b1/a/deep", "backups/b1/y", "backups/b10/x", "backups/b"):
            await store.put(key, b"")

        assert await store.list_keys("backups/b1/") == [
            "backups/b1/y",
            "backups/b1/x",
            "backups/b1/a/deep",
        ]
        assert len(await store.list_keys("")) == 5

    async def test_a_prefix_without_objects_left_is_gone(self, store: ObjectStore) -> None:
        await store.put("backups/b1/a", b"")
        await store.put("backups/b2/a", b"")
        await store.delete("backups/b1/a")

        assert await store.list_prefixes("backups/") == ["backups/b2/"]
        await store.delete("backups/b2/a")
        assert await store.list_prefixes("") == []

    async def test_lists_more_than_a_page(self, store: ObjectStore) -> None:
        limit = asyncio.Semaphore(16)

        async def put(number: int) -> None:
            async with limit:
                await store.put(f"backups/b{number:04}/f", b"")

        async with asyncio.TaskGroup() as group:
            for number in range(self.more_than_a_page):
                group.create_task(put(number))

        keys = await store.list_keys("backups/")
        assert len(keys) == self.more_than_a_page
        assert all(left > right for left, right in pairwise(keys))
        prefixes = [f"backups/b{number:04}/" for number in range(self.more_than_a_page)]
        assert await store.list_prefixes("backups/") == prefixes

    async def test_concurrent_puts_of_one_key_leave_one_of_them_whole(self, store: ObjectStore) -> None:
        bodies = [bytes([number]) * (2 * MEBIBYTE) for number in range(5)]
        async with asyncio.TaskGroup() as group:
            for body in bodies:
                group.create_task(store.put("a/b/c", body))

        assert await content(store, "a/b/c") in bodies

    async def test_a_signed_url_needs_no_object(self, store: ObjectStore) -> None:
        url = await store.signed_url("backups/b1/b1.tar.gz", timedelta(minutes=10))

        assert "backups/b1/b1.tar.gz" in url

    async def test_can_be_closed_twice(self, store: ObjectStore) -> None:
        await store.put("a", b"x")
        await store.close()
        await store.close()
