"""A store whose writes pass a fence, for a server that may lose its lease. (docs/adr/078)"""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from datetime import datetime, timedelta
from typing import Any

from pinnace.aio.fence import Fence, FenceClosed, write_of
from pinnace.storage.errors import NotLeading, StoreConfigError
from pinnace.storage.interface import Body, ObjectStore, UploadsStore
from pinnace.storage.object_lock import LockingStore, ObjectVersion, Retention, VersionsStore


class FencedStore:
    """An ObjectStore that begins no write while the fence is closed, and NotLeading is raised instead.

    The fence is checked before each write, at each block of a body, and by stores over HTTP before each of
    their requests. What they would send to undo a write that the fence has cut off is not sent either.
    """

    def __init__(self, store: ObjectStore, fence: Fence) -> None:
        self._store = store
        self._fence = fence

    async def put(self, key: str, body: Body) -> None:
        """See ObjectStore.put."""
        with self._write(f"object {key!r} was not stored"):
            await self._fence.passed()
            if isinstance(body, bytes):
                await self._store.put(key, body)
            else:
                async with aclosing(self._blocks(body)) as blocks:
                    await self._store.put(key, blocks)

    async def put_new(self, key: str, data: bytes) -> bool:
        """See ObjectStore.put_new."""
        with self._write(f"object {key!r} was not stored"):
            await self._fence.passed()
            return await self._store.put_new(key, data)

    async def delete(self, key: str) -> None:
        """See ObjectStore.delete."""
        with self._write(f"object {key!r} was not deleted"):
            await self._fence.passed()
            await self._store.delete(key)

    async def abort_uploads(
        self, prefix: str, *, since: datetime | None = None, before: datetime | None = None
    ) -> int:
        """See UploadsStore.abort_uploads; nothing for stores of other kinds."""
        if not isinstance(self._store, UploadsStore):
            return 0
        with self._write(f"unfinished uploads of {prefix!r} were not aborted"):
            await self._fence.passed()
            return await self._store.abort_uploads(prefix, since=since, before=before)

    async def put_locked(self, key: str, body: Body, retention: Retention) -> None:
        """See LockingStore.put_locked; an error for stores of other kinds."""
        if not isinstance(self._store, LockingStore):
            raise StoreConfigError("this store holds no objects")
        with self._write(f"object {key!r} was not stored"):
            await self._fence.passed()
            if isinstance(body, bytes):
                await self._store.put_locked(key, body, retention)
            else:
                async with aclosing(self._blocks(body)) as blocks:
                    await self._store.put_locked(key, blocks, retention)

    async def delete_version(self, version: ObjectVersion) -> None:
        """See VersionsStore.delete_version; an error for stores of other kinds."""
        if not isinstance(self._store, VersionsStore):
            raise StoreConfigError("this store keeps no versions")
        with self._write(f"a version of {version.key!r} was not deleted"):
            await self._fence.passed()
            await self._store.delete_version(version)

    def get(self, key: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See ObjectStore.get."""
        return self._store.get(key)

    async def exists(self, key: str) -> bool:
        """See ObjectStore.exists."""
        return await self._store.exists(key)

    async def size(self, key: str) -> int:
        """See ObjectStore.size."""
        return await self._store.size(key)

    async def list_prefixes(self, prefix: str) -> list[str]:
        """See ObjectStore.list_prefixes."""
        return await self._store.list_prefixes(prefix)

    async def list_keys(self, prefix: str) -> list[str]:
        """See ObjectStore.list_keys."""
        return await self._store.list_keys(prefix)

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        """See ObjectStore.signed_url."""
        return await self._store.signed_url(key, ttl)

    async def close(self) -> None:
        """See ObjectStore.close."""
        await self._store.close()

    def __getattr__(self, name: str) -> Any:
        # `get_range`, `bucket_lock` and so on of the stores that have them.
        return getattr(self._store, name)

    async def _blocks(self, body: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        async for block in body:
            await self._fence.passed()
            yield block
        await self._fence.passed()  # what ends the upload follows

    @contextmanager
    def _write(self, refused: str) -> Iterator[None]:
        try:
            with write_of(self._fence):
                yield
        except FenceClosed as closed:
            raise NotLeading(f"{refused}: {closed}") from closed
