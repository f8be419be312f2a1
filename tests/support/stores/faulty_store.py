"""A wrapper of an object store that fails or dies where a test says so."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.storage.interface import Body, ObjectStore, VersionedStore


class FaultyStore:
    """Passes everything on, except what `fault` has an error for.

    Args:
        inner: the store that does the work.
        fault: called with the operation (`put`, `delete`, ...) and its key or prefix before it is done.
    """

    def __init__(
        self, inner: ObjectStore, fault: Callable[[str, str], StorageError | None] = lambda *_: None
    ) -> None:
        self.inner = inner
        self.fault = fault
        self.calls: list[tuple[str, str]] = []

    def _check(self, operation: str, key: str) -> None:
        self.calls.append((operation, key))
        if (error := self.fault(operation, key)) is not None:
            raise error

    async def put(self, key: str, body: Body) -> None:
        self._check("put", key)
        await self.inner.put(key, body)

    async def put_new(self, key: str, data: bytes) -> bool:
        self._check("put", key)
        return await self.inner.put_new(key, data)

    def get(self, key: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self._check("get", key)
        return self.inner.get(key)

    async def exists(self, key: str) -> bool:
        self._check("exists", key)
        return await self.inner.exists(key)

    async def size(self, key: str) -> int:
        self._check("size", key)
        return await self.inner.size(key)

    async def version(self, key: str) -> str:
        self._check("size", key)
        assert isinstance(self.inner, VersionedStore)
        return await self.inner.version(key)

    async def list_prefixes(self, prefix: str) -> list[str]:
        self._check("list_prefixes", prefix)
        return await self.inner.list_prefixes(prefix)

    async def list_keys(self, prefix: str) -> list[str]:
        self._check("list_keys", prefix)
        return await self.inner.list_keys(prefix)

    async def delete(self, key: str) -> None:
        self._check("delete", key)
        await self.inner.delete(key)

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        self._check("signed_url", key)
        return await self.inner.signed_url(key, ttl)

    async def close(self) -> None:
        await self.inner.close()


class DyingStore(FaultyStore):
    """Carries out `lifetime` writes and deletions; from then on nothing works, as if the process had died.

    Args:
        after_effect: the last write that is carried out is reported as failed: the answer never came.
    """

    def __init__(self, inner: ObjectStore, lifetime: int, *, after_effect: bool) -> None:
        super().__init__(inner, self._dead)
        self._left = lifetime
        self._after_effect = after_effect

    def _dead(self, operation: str, key: str) -> StorageError | None:
        if self._left <= 0:
            return StoreUnavailable("dead")
        if operation in ("put", "delete"):
            self._left -= 1
        return None

    async def put(self, key: str, body: Body) -> None:
        await super().put(key, body)
        self._answer()

    async def put_new(self, key: str, data: bytes) -> bool:
        stored = await super().put_new(key, data)
        self._answer()
        return stored

    async def delete(self, key: str) -> None:
        await super().delete(key)
        self._answer()

    def _answer(self) -> None:
        if self._after_effect and self._left <= 0:
            raise StoreUnavailable("died before the answer")
