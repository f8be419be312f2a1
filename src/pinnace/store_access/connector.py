"""The connections of a session to an object store or a cloud; all end with the session.

aiohttp starts the TLS shutdown of a connection that is not kept, forgets the connection, and lets the event
loop wait for the other side. A program that then closes the session and the loop would leave it open.

All connections are made here, so the addresses of tenants' stores are checked here, after names have been
resolved.
"""

import asyncio
import socket
from collections.abc import Iterable
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from pinnace.aio.fence import FenceClosed, check_request, has_fence
from pinnace.api.values.error_texts import error_text
from pinnace.store_access.addresses import Addresses, literal_address
from pinnace.store_access.errors import StoreUnavailable

_END_SECONDS = 5.0
_READS = frozenset({"GET", "HEAD"})
_RESOLVE_SECONDS = 10.0


class Connector(aiohttp.TCPConnector):
    """A connector that is closed when all its connections have ended.

    Args:
        addresses: where connections may go; None is anywhere. A session with them must not use a proxy, which
            would resolve names by itself.
        settings: as of TCPConnector.
    """

    def __init__(self, *, addresses: Addresses | None = None, **settings: Any) -> None:
        if addresses is not None:
            settings["resolver"] = CheckedResolver(aiohttp.DefaultResolver(), addresses)
        super().__init__(**settings)
        self._addresses = addresses
        self._ends: dict[asyncio.Transport, asyncio.Future[None]] = {}

    async def connect(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """See BaseConnector.connect. Raises AddressRefused, and FenceClosed for a request of a write."""
        if self._addresses is not None:
            self._addresses.check_literal(req.url.raw_host or "")  # an address is not resolved
        connection = await super().connect(req, traces, timeout)
        transport, protocol = _plain(connection.transport), connection.protocol
        if transport is not None and protocol is not None and transport not in self._ends:
            end = protocol.closed
            if end is not None:
                self._ends[transport] = end
                end.add_done_callback(lambda _: self._ends.pop(transport, None))
        if req.method not in _READS:
            try:
                check_request()
            except FenceClosed:
                connection.release()
                raise
            if has_fence() and transport is not None and protocol is not None:
                protocol.transport = cast(asyncio.Transport, _CheckedTransport(transport))
        return connection

    async def close(self, *, abort_ssl: bool = False) -> None:
        """See BaseConnector.close; connections that wait for the TLS shutdown are dropped."""
        await super().close(abort_ssl=abort_ssl)
        for transport in list(self._ends):
            transport.abort()
        if self._ends:
            await asyncio.wait(list(self._ends.values()), timeout=_END_SECONDS)


def _plain(transport: Any) -> asyncio.Transport | None:
    """The transport itself, of a connection that a write has used before."""
    plain: asyncio.Transport | None = (
        transport.inner if isinstance(transport, _CheckedTransport) else transport
    )
    return plain


class _CheckedTransport:
    """A transport that checks the fence of the write whenever something is sent.

    Between the connecting and the sending of a request, the process can have been paused.
    """

    def __init__(self, inner: asyncio.Transport) -> None:
        self.inner = inner

    def write(self, data: bytes) -> None:
        """See asyncio.WriteTransport.write. Raises FenceClosed."""
        check_request()
        self.inner.write(data)

    def writelines(self, data: Iterable[bytes]) -> None:
        """See asyncio.WriteTransport.writelines. Raises FenceClosed."""
        check_request()
        self.inner.writelines(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


async def check_host(host: str, addresses: Addresses) -> None:
    """Check the addresses of a host, for a program that makes its connections itself.

    Raises:
        AddressRefused: an address is not allowed.
        StoreUnavailable: it cannot be resolved.
    """
    if not addresses.allows_host(host):
        await resolve_checked(host, addresses)


async def resolve_checked(host: str, addresses: Addresses) -> str:
    """An address of a host that connections may go to, for a protocol other than HTTP.

    Connecting to it, and not to the name, keeps a second resolution from giving another address.

    Raises:
        AddressRefused: an address is not allowed.
        StoreUnavailable: it cannot be resolved.
    """
    addresses.check_literal(host)
    if (literal := literal_address(host)) is not None:
        return str(literal)
    resolver = CheckedResolver(aiohttp.DefaultResolver(), addresses)
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            found = await resolver.resolve(host, family=socket.AF_UNSPEC)
    except (OSError, TimeoutError) as error:
        raise StoreUnavailable(f"the host {host[:253]!r} cannot be resolved: {error_text(error)}") from error
    finally:
        await resolver.close()
    return found[0]["host"]


class CheckedResolver(AbstractResolver):
    """Resolves names, and refuses those with an address that is not allowed."""

    def __init__(self, resolver: AbstractResolver, addresses: Addresses) -> None:
        self._resolver = resolver
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """See AbstractResolver.resolve. Raises AddressRefused."""
        found = await self._resolver.resolve(host, port, family)
        self._addresses.check(host, [each["host"] for each in found])
        return found

    async def close(self) -> None:
        """See AbstractResolver.close."""
        await self._resolver.close()
