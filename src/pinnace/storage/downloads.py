"""Downloads as streams that go on where a connection broke, for services without obstore."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

import aiohttp
from yarl import URL

from pinnace.http.requests import (
    CONNECT_SECONDS,
    RETRIED_STATUSES,
    Reply,
    RetryPolicy,
    origin_of,
    reason_of,
)
from pinnace.storage.errors import StorageError, StoreUnavailable

_BLOCK_BYTES = 1 << 18
_MAX_REFUSAL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an object is read from.

    Attributes:
        url: complete and quoted.
        headers: the headers of a request, given those that are to be sent with it; they may be signed.
        refusal: the error that an answer means.
        query: what authorizes as a part of the URL, and is no part of what is signed; empty for nothing.
    """

    key: str
    url: str
    headers: Callable[[Mapping[str, str]], Awaitable[Mapping[str, str]]]
    refusal: Callable[[Reply], Awaitable[StorageError]]
    query: Callable[[], Awaitable[str]] | None = None

    async def complete_url(self) -> str:
        """The URL to send the request to."""
        query = await self.query() if self.query is not None else ""
        return f"{self.url}{'&' if '?' in self.url else '?'}{query}" if query else self.url


class Download:
    """One object's bytes. Open it, iterate `blocks()` once, close it."""

    def __init__(self, session: aiohttp.ClientSession, source: Source, policy: RetryPolicy) -> None:
        self._session = session
        self._source = source
        self._policy = policy
        self._answer: aiohttp.ClientResponse | None = None
        self._etag: str | None = None
        self._offset = 0
        self._tries = 0

    async def open(self) -> None:
        """Send the request, again after transient faults, and check its answer.

        Raises:
            StorageError: what `Source.refusal` makes of it, or nobody answered.
        """
        while True:
            self._tries += 1
            try:
                reply = await self._request()
            except (aiohttp.ClientError, TimeoutError) as error:
                await self._fail_or_wait(error)
                continue
            if reply is None:
                return
            if self._tries >= self._policy.attempts or reply.status not in RETRIED_STATUSES:
                raise await self._source.refusal(reply)
            await self._policy.wait(self._tries)

    async def blocks(self) -> AsyncIterator[bytes]:
        """The bytes. Raises StorageError where they cannot all be had."""
        while self._answer is not None:
            try:
                async for block in self._answer.content.iter_chunked(_BLOCK_BYTES):
                    self._offset += len(block)
                    self._tries = 0  # of the next break: a long download may have many
                    yield block
            except (aiohttp.ClientError, TimeoutError) as error:
                self.close()
                self._tries += 1
                await self._fail_or_wait(error)
                await self.open()
            else:
                return

    def close(self) -> None:
        """Hang up. Idempotent."""
        if self._answer is not None:
            self._answer.close()
            self._answer = None

    async def _fail_or_wait(self, error: Exception) -> None:
        certificate = isinstance(error, aiohttp.ClientConnectorCertificateError)
        if certificate or self._tries >= self._policy.attempts:
            origin = origin_of(self._source.url)
            raise StoreUnavailable(
                f"cannot read {self._source.key!r}: cannot reach {origin}: {reason_of(error)}"
            ) from error
        await self._policy.wait(self._tries)

    async def _request(self) -> Reply | None:
        """Keep an answer that is the object from where we are; return any other."""
        wanted = {"accept-encoding": "identity"}
        if self._offset:
            wanted["range"] = f"bytes={self._offset}-"
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=self._policy.request_seconds
        )
        answer = await self._session.get(
            URL(await self._source.complete_url(), encoded=True),
            headers=await self._source.headers(wanted),
            allow_redirects=False,
            timeout=timeout,
        )
        try:
            if answer.status != (206 if self._offset else 200):
                body = await answer.content.read(_MAX_REFUSAL_BYTES)
                return Reply(status=answer.status, headers=answer.headers, body=body)
            etag = answer.headers.get("ETag")
            if self._offset and (etag is None or etag != self._etag):
                raise StorageError(f"cannot read {self._source.key!r}: it changed while it was read")
        except BaseException:  # cancellation too: the connection must not stay open
            answer.close()
            raise
        self._etag, self._answer = etag, answer
        return None
