"""Connections that accept a request and never answer it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pinnace.store_access.errors import StoreUnavailable
from pinnace.store_access.requests import RequestPolicy, new_session, send, tls_context

SILENCE_SECONDS = 0.5
HASTY = RequestPolicy(base_seconds=0.0, silence_seconds=SILENCE_SECONDS, patience_seconds=SILENCE_SECONDS / 2)
"""A silence ends after the time in which another attempt may begin, as with the default policy."""


class HangingServer:
    """Answers on all but the first connections."""

    def __init__(self, hanging: int) -> None:
        self.url = ""
        self.connections = 0
        self._hanging = hanging

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["HangingServer"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        hangs = self.connections <= self._hanging
        await reader.readuntil(b"\r\n\r\n")
        if not hangs:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.read()
        writer.close()


async def test_a_request_that_hangs_is_tried_again_on_another_connection() -> None:
    async with HangingServer(1).serving() as server, new_session(tls_context(), use_proxy=False) as session:
        reply = await send(session, "GET", server.url, policy=HASTY)
    assert (reply.body, server.connections) == (b"ok", 2)


async def test_a_service_that_never_answers_is_an_error_after_two_silences() -> None:
    async with HangingServer(9).serving() as server, new_session(tls_context(), use_proxy=False) as session:
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            await send(session, "GET", server.url, policy=HASTY)
    assert server.connections == 2
