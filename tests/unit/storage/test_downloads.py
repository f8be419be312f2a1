"""Downloads from services that send too little."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from pinnace.storage.downloads import Download, ObjectURL
from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.store_access.requests import Reply, RequestPolicy, new_session, tls_context

SIZE_BYTES = 20 << 20


@asynccontextmanager
async def dripping(block: bytes, pause_seconds: float) -> AsyncIterator[str]:
    """The URL of a server that sends an object block by block, each after a pause."""

    tasks: set[asyncio.Task[object]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: %d\r\n\r\n' % SIZE_BYTES)
            for _ in range(SIZE_BYTES // len(block)):
                writer.write(block)
                await writer.drain()
                await asyncio.sleep(pause_seconds)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return  # the client has gone, as it should, or the test ends
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)  # the transport closes itself in the next turn

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/object"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read(url: str, policy: RequestPolicy) -> int:
    async def headers(_wanted: Mapping[str, str]) -> Mapping[str, str]:
        return {}

    async def refusal(reply: Reply) -> StorageError:
        return StorageError(f"status {reply.status}")

    async with new_session(tls_context(), use_proxy=False) as session:
        source = ObjectURL(key="object", url=url, headers=headers, refusal=refusal)
        download = Download(session, source, policy)
        await download.open()
        try:
            return sum([len(block) async for block in download.blocks()])
        finally:
            download.close()


async def test_a_service_that_never_stops_dripping_does_not_hold_the_reader() -> None:
    policy = RequestPolicy(silence_seconds=5.0, upload_seconds=0.1)
    async with dripping(b"x", 0.005) as url, asyncio.timeout(30):
        with pytest.raises(StoreUnavailable, match=r"sent only \d+ bytes in \d+ seconds"):
            await read(url, policy)


async def test_a_slow_download_that_makes_progress_is_not_given_up() -> None:
    # The whole takes longer than a part may, each MiB far less.
    policy = RequestPolicy(silence_seconds=5.0, upload_seconds=1.0)
    async with dripping(bytes(1 << 20), 0.06) as url:
        assert await read(url, policy) == SIZE_BYTES
