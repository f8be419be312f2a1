"""The connections of a session to an object store or a cloud, none of which outlives the session.

aiohttp says goodbye to a TLS connection that is not kept, forgets it, and leaves waiting for the other side's
goodbye to the event loop. Who closes the session and then the loop leaves such a connection behind, open.
"""

import asyncio
from typing import Any

import aiohttp
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

_END_SECONDS = 5.0


class Connector(aiohttp.TCPConnector):
    """A connector that is closed when all its connections have ended."""

    def __init__(self, **settings: Any) -> None:
        """Args: as of TCPConnector."""
        super().__init__(**settings)
        self._ends: dict[asyncio.Transport, asyncio.Future[None]] = {}

    async def connect(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """See BaseConnector.connect."""
        connection = await super().connect(req, traces, timeout)
        transport, protocol = connection.transport, connection.protocol
        if transport is not None and protocol is not None and transport not in self._ends:
            end = protocol.closed
            if end is not None:
                self._ends[transport] = end
                end.add_done_callback(lambda _: self._ends.pop(transport, None))
        return connection

    async def close(self, *, abort_ssl: bool = False) -> None:
        """See BaseConnector.close; what waits for a goodbye is cut."""
        await super().close(abort_ssl=abort_ssl)
        for transport in list(self._ends):
            transport.abort()
        if self._ends:
            await asyncio.wait(list(self._ends.values()), timeout=_END_SECONDS)
