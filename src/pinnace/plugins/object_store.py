"""The store of a location whose provider is an object-store plugin. (PLG 7.1, STO 8)"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import TypeVar

from pinnace.plugins.errors import PluginCrashed, PluginError, PluginGone
from pinnace.plugins.protocols import ObjectStorePlugin
from pinnace.storage.errors import ObjectNotFound, StorageError, StoreConfigError, StoreUnavailable
from pinnace.storage.interface import Body, check_key, check_prefix

ResultT = TypeVar("ResultT")

_DELIMITER = "/"


class PluginStore:
    """An `ObjectStore` (storage.interface) on a plugin of its own, which is configured at the first use.

    Whether an object that could not be stored completely becomes visible is up to the plugin: it learns of
    the failure by the end of its stream. Faults are not retried here; providers' libraries do that.

    Args:
        plugin: guarded, so that it raises nothing but PluginError; used by this store alone.
        config: of the location, with its bucket.
        release: ends the plugin.
    """

    def __init__(
        self, plugin: ObjectStorePlugin, config: Mapping[str, str], release: Callable[[], Awaitable[None]]
    ) -> None:
        self._plugin = plugin
        self._config = config
        self._bucket = config.get("bucket", "")
        self._release = release
        self._lock = asyncio.Lock()
        self._ready = False

    async def put(self, key: str, body: Body) -> None:
        """Store an object; what the body raises comes through unchanged."""
        check_key(key)
        plugin = await self._configured()
        try:
            await self._send(plugin, key, body)
        except StoreUnavailable as error:
            # The process may have ended for another call, and bytes can be sent again.
            if not isinstance(body, bytes) or not isinstance(error.__cause__, PluginCrashed):
                raise
            await self._send(plugin, key, body)

    async def _send(self, plugin: ObjectStorePlugin, key: str, body: Body) -> None:
        async with aclosing(_stream(body)) as stream:
            await _translated(plugin.put_object(self._bucket, key, stream))

    async def put_new(self, key: str, data: bytes) -> bool:
        """Store an object unless there is one; the protocol of plugins can only look first."""
        if await self.exists(key):
            return False
        await self.put(key, data)
        return True

    @asynccontextmanager
    async def get(self, key: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open an object. Its first block is awaited, as a missing object shows only then."""
        check_key(key)
        plugin = await self._configured()
        async with aclosing(_blocks(plugin.get_object(self._bucket, key))) as stream:
            try:
                first = await anext(stream, b"")
            except StorageError as error:
                if not isinstance(error, StoreUnavailable) and not await self.exists(key):
                    raise ObjectNotFound(key) from error
                raise
            yield _with_first(first, stream)

    async def exists(self, key: str) -> bool:
        """Whether an object can be read."""
        check_key(key)
        plugin = await self._configured()
        return await _translated(plugin.object_exists(self._bucket, key))

    async def size(self, key: str) -> int:
        """How many bytes an object has. The protocol of plugins has no call for it, so the object is read."""
        async with self.get(key) as stream:
            return sum([len(block) async for block in stream])

    async def list_prefixes(self, prefix: str) -> list[str]:
        """The common prefixes, sorted."""
        check_prefix(prefix)
        plugin = await self._configured()
        found = await _translated(plugin.list_common_prefixes(self._bucket, prefix, _DELIMITER))
        return sorted(set(found))

    async def list_keys(self, prefix: str) -> list[str]:
        """The keys, in descending order."""
        check_prefix(prefix)
        plugin = await self._configured()
        found = await _translated(plugin.list_objects(self._bucket, prefix))
        return sorted(set(found), reverse=True)

    async def delete(self, key: str) -> None:
        """Delete an object. Some providers' plugins fail when there is none, which is success here."""
        plugin = await self._configured()
        try:
            await _translated(plugin.delete_object(self._bucket, key))
        except StoreUnavailable:
            raise
        except StorageError:
            if await _translated(plugin.object_exists(self._bucket, key)):
                raise

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        """A URL to read an object with."""
        check_key(key)
        plugin = await self._configured()
        return await _translated(plugin.create_signed_url(self._bucket, key, ttl))

    async def close(self) -> None:
        """End the plugin."""
        await self._release()

    async def _configured(self) -> ObjectStorePlugin:
        async with self._lock:
            if not self._ready:
                try:
                    await self._plugin.init(self._config)
                except PluginGone as error:
                    raise StoreUnavailable(str(error)) from error
                except PluginError as error:
                    raise StoreConfigError(str(error)) from error
                self._ready = True
        return self._plugin


async def _translated(call: Awaitable[ResultT]) -> ResultT:
    try:
        return await call
    except PluginGone as error:
        raise StoreUnavailable(_one_line(error)) from error
    except PluginError as error:
        raise StorageError(_one_line(error)) from error


def _one_line(error: PluginError) -> str:
    return " ".join(str(error).split())


async def _blocks(stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    try:
        while (block := await _translated(_next(stream))) is not None:
            yield block
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


async def _next(stream: AsyncIterator[bytes]) -> bytes | None:
    return await anext(stream, None)


async def _with_first(first: bytes, stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    if first:
        yield first
    async for block in stream:
        yield block


async def _stream(body: Body) -> AsyncGenerator[bytes, None]:
    if isinstance(body, bytes):
        yield body
        return
    async for block in body:
        yield block
