"""An ObjectStore over the requests of one service, shared by S3, GCS and Azure.

`Requests` is what the requests of a service must do. The store checks keys, opens the session and closes it.
Nothing is asked of the network before the first call.
"""

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta
from typing import Protocol, Self

import aiohttp

from pinnace.aio.blocking import not_interrupted
from pinnace.storage.downloads import Download, ObjectURL
from pinnace.storage.interface import Body, ListPage, check_key, check_prefix, check_range
from pinnace.storage.object_lock import BucketLock, ObjectVersion, Retention
from pinnace.storage.upload import GRACE_SECONDS
from pinnace.store_access.addresses import Addresses
from pinnace.store_access.requests import RequestPolicy, new_session

SignURL = Callable[[str, timedelta], Awaitable[str]]
"""Makes the URL to read an object with, given its key and how long the URL is to work."""


class Requests(Protocol):
    """Authorized requests to one bucket or container. All raise StorageError."""

    async def upload(self, key: str, body: Body) -> None:
        """Store a body; after a failure or cancellation nothing is in flight any more."""
        ...

    async def put_new(self, key: str, data: bytes) -> bool:
        """Store an object unless there is one; return whether it was stored."""
        ...

    async def exists(self, key: str) -> bool:
        """Whether there is such an object; a missing bucket is an error."""
        ...

    async def size(self, key: str) -> int:
        """The size of an object in bytes. Raises ObjectNotFound."""
        ...

    async def version(self, key: str) -> str:
        """The ETag of an object; empty without one. Raises ObjectNotFound."""
        ...

    async def delete(self, key: str) -> None:
        """Delete an object; a missing one is success, a missing bucket an error."""
        ...

    def pages(self, prefix: str, *, delimiter: str = "") -> AsyncIterator[ListPage]:
        """A listing, page by page."""
        ...

    def source(self, key: str) -> ObjectURL:
        """Where an object is read from."""
        ...

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        """A URL to read the object with."""
        ...

    def holding(self, retention: Retention) -> Self:
        """The same requests, whose uploads are held."""
        ...

    async def check_retention(self, key: str, retention: Retention) -> None:
        """See that an object that was just stored is held as long as asked."""
        ...

    async def bucket_lock(self) -> BucketLock:
        """What the bucket has, also without the right to hold objects."""
        ...

    async def versions(self, prefix: str) -> list[ObjectVersion]:
        """All versions of the keys that begin with `prefix`."""
        ...

    async def held_until(self, version: ObjectVersion) -> datetime | None:
        """Until when a version cannot be deleted. Raises BackupLocked for a hold without an end."""
        ...

    async def delete_version(self, version: ObjectVersion) -> None:
        """Delete a version for good; a missing one is success. Raises BackupLocked."""
        ...


class HTTPStore(ABC):
    """Base of the stores of services; `_connect` provides the requests of the service.

    Args:
        tls: the trusted certificates.
        policy: retries and deadlines.
        addresses: where connections may go; None is anywhere.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | bool,
        policy: RequestPolicy,
        addresses: Addresses | None = None,
    ) -> None:
        self._tls = tls
        self._addresses = addresses
        self._policy = policy
        self._session: aiohttp.ClientSession | None = None
        self._opening = asyncio.Lock()
        self._opened: Requests | None = None

    @abstractmethod
    async def _connect(self, session: aiohttp.ClientSession) -> Requests:
        """The service's requests, given the session that they use. Raises StorageError."""

    async def put(self, key: str, body: Body) -> None:
        """See ObjectStore.put."""
        check_key(key)
        await (await self._requests()).upload(key, body)

    async def put_new(self, key: str, data: bytes) -> bool:
        """See ObjectStore.put_new."""
        check_key(key)
        storing = (await self._requests()).put_new(key, data)
        return await not_interrupted(storing, grace_seconds=GRACE_SECONDS)

    @asynccontextmanager
    async def get(self, key: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """See ObjectStore.get."""
        async with self._download(key, None) as blocks:
            yield blocks

    @asynccontextmanager
    async def get_range(self, key: str, offset: int, length: int) -> AsyncIterator[AsyncIterator[bytes]]:
        """See RangedStore.get_range."""
        check_range(offset, length)
        async with self._download(key, (offset, length)) as blocks:
            yield blocks

    @asynccontextmanager
    async def _download(self, key: str, span: tuple[int, int] | None) -> AsyncIterator[AsyncIterator[bytes]]:
        check_key(key)
        requests = await self._requests()
        assert self._session is not None, "it is made with the requests"
        download = Download(self._session, requests.source(key), self._policy, span=span)
        try:
            await download.open()
            async with aclosing(download.blocks()) as blocks:
                yield blocks
        finally:
            download.close()

    async def exists(self, key: str) -> bool:
        """See ObjectStore.exists."""
        check_key(key)
        return await (await self._requests()).exists(key)

    async def size(self, key: str) -> int:
        """See ObjectStore.size."""
        check_key(key)
        return await (await self._requests()).size(key)

    async def version(self, key: str) -> str:
        """See VersionedStore.version."""
        check_key(key)
        return await (await self._requests()).version(key)

    async def list_prefixes(self, prefix: str) -> list[str]:
        """See ObjectStore.list_prefixes."""
        check_prefix(prefix)
        pages = (await self._requests()).pages(prefix, delimiter="/")
        return sorted({found async for page in pages for found in page.prefixes})

    async def list_keys(self, prefix: str) -> list[str]:
        """See ObjectStore.list_keys. Markers of pseudo-directories (`b1/`) are keys as well."""
        check_prefix(prefix)
        pages = (await self._requests()).pages(prefix)
        return sorted([key async for page in pages for key in page.keys], reverse=True)

    async def delete(self, key: str) -> None:
        """See ObjectStore.delete."""
        await (await self._requests()).delete(key)

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        """See ObjectStore.signed_url."""
        check_key(key)
        return await (await self._requests()).signed_url(key, ttl)

    async def put_locked(self, key: str, body: Body, retention: Retention) -> None:
        """See LockingStore.put_locked."""
        check_key(key)
        requests = await self._requests()
        await requests.holding(retention).upload(key, body)
        await requests.check_retention(key, retention)

    async def bucket_lock(self) -> BucketLock:
        """See LockingStore.bucket_lock."""
        return await (await self._requests()).bucket_lock()

    async def versions(self, prefix: str) -> list[ObjectVersion]:
        """See VersionsStore.versions."""
        check_prefix(prefix)
        return await (await self._requests()).versions(prefix)

    async def held_until(self, version: ObjectVersion) -> datetime | None:
        """See VersionsStore.held_until."""
        return await (await self._requests()).held_until(version)

    async def delete_version(self, version: ObjectVersion) -> None:
        """See VersionsStore.delete_version."""
        await (await self._requests()).delete_version(version)

    async def close(self) -> None:
        """See ObjectStore.close."""
        session, self._session, self._opened = self._session, None, None
        if session is not None:
            await session.close()

    async def _requests(self) -> Requests:
        async with self._opening:
            if self._opened is None:
                if self._session is None:
                    self._session = new_session(self._tls, addresses=self._addresses)
                self._opened = await self._connect(self._session)
            return self._opened
