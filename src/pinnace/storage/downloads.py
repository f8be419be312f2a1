"""Downloads as streams that go on where a connection broke."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import aiohttp
from yarl import URL

from pinnace.api.values.digits import is_digits
from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.store_access.requests import (
    Complaint,
    Reply,
    RequestPolicy,
    Tries,
    may_differ_later,
    not_an_answer,
    origin_of,
    reason_of,
    web_page,
)

_BLOCK_BYTES = 1 << 18
_MAX_REFUSAL_BYTES = 1 << 16
_PROGRESS_BYTES = 1 << 20
"""Two breaks with fewer bytes between them are one fault: a few bytes for each attempt would never end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectURL:
    """The URL of an object, and what authorizes reading it.

    Attributes:
        url: complete and quoted.
        headers: the headers of a request, given those that are to be sent with it; they may be signed.
        refusal: the error that an answer means.
        query: an authorization that is appended to the URL and not signed; empty for none.
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
    """One object's bytes, or a part of them. Open it, iterate `blocks()` once, close it.

    Args:
        span: offset and length of the part; None for all.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        source: ObjectURL,
        policy: RequestPolicy,
        *,
        span: tuple[int, int] | None = None,
    ) -> None:
        self._session = session
        self._source = source
        self._policy = policy
        self._answer: aiohttp.ClientResponse | None = None
        self._etag: str | None = None
        self._start = self._offset = span[0] if span is not None else 0
        self._last = str(span[0] + span[1] - 1) if span is not None else ""
        self._moved = 0  # since the last break
        self._slow_bytes, self._slow_seconds = 0, 0.0  # since the last progress
        self._tries: Tries | None = None

    async def open(self) -> None:
        """Send the request, again after transient faults, and check its answer.

        Raises:
            StorageError: what `ObjectURL.refusal` makes of it, no answer, or one that is not the service's.
        """
        while True:
            tries = self._begin_try()
            try:
                reply = await self._request()
            except (aiohttp.ClientError, TimeoutError) as error:
                await self._fail_or_wait(error)
                continue
            if reply is None:
                return
            if tries.used_up or not (_is_strange(reply) or may_differ_later(reply)):
                break
            await tries.wait()
        if _is_strange(reply):
            what = f"cannot read {self._source.key!r}"
            raise not_an_answer(self._source.url, reply, no_object(reply), what=what)
        raise await self._source.refusal(reply)

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        """The bytes. Raises StorageError where they cannot all be had."""
        while self._answer is not None:
            try:
                while block := await self._next_block(self._answer):
                    self._offset += len(block)
                    self._moved += len(block)
                    if self._moved >= _PROGRESS_BYTES:
                        self._tries = None  # of the next break: a long download may have many
                    yield block
            except (aiohttp.ClientError, TimeoutError) as error:
                self.close()
                self._begin_try()
                await self._fail_or_wait(error)
                await self.open()
            else:
                return

    async def _next_block(self, answer: aiohttp.ClientResponse) -> bytes:
        """The next bytes; none at the end. Only the time of waiting for them counts.

        Raises:
            StoreUnavailable: for as long as a part may take to be sent, hardly anything came. Each byte ends
                a silence, so a service could otherwise hold the reader for ever.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        block = await answer.content.read(_BLOCK_BYTES)
        self._slow_bytes += len(block)
        self._slow_seconds += loop.time() - began
        if self._slow_bytes >= _PROGRESS_BYTES:
            self._slow_bytes, self._slow_seconds = 0, 0.0
        elif self._slow_seconds > self._policy.upload_seconds and block:
            raise StoreUnavailable(
                f"cannot read {self._source.key!r}: {origin_of(self._source.url)} sent only "
                f"{self._slow_bytes} bytes in {self._slow_seconds:.0f} seconds"
            )
        return block

    def close(self) -> None:
        """Hang up. Idempotent."""
        if self._answer is not None:
            self._answer.close()
            self._answer = None

    def _begin_try(self) -> Tries:
        if self._tries is None:
            self._tries, self._moved = self._policy.began(), 0
        self._tries.count += 1
        return self._tries

    async def _fail_or_wait(self, error: Exception) -> None:
        assert self._tries is not None, "a try comes first"
        certificate = isinstance(error, aiohttp.ClientConnectorCertificateError)
        if certificate or self._tries.used_up:
            origin = origin_of(self._source.url)
            raise StoreUnavailable(
                f"cannot read {self._source.key!r}: cannot reach {origin}: {reason_of(error)}"
            ) from error
        await self._tries.wait()

    async def _request(self) -> Reply | None:
        """Keep an answer that is the object from where we are; return any other."""
        wanted = {"accept-encoding": "identity"}
        is_part = bool(self._offset or self._last)
        if is_part:
            wanted["range"] = f"bytes={self._offset}-{self._last}"
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=self._policy.connect_seconds,
            sock_read=min(self._policy.silence_seconds, self._policy.request_seconds),
        )
        url, headers = await self._source.complete_url(), await self._source.headers(wanted)
        async with asyncio.timeout(self._policy.request_seconds):
            answer = await self._session.get(
                URL(url, encoded=True), headers=headers, allow_redirects=False, timeout=timeout
            )
        try:
            reply = Reply(status=answer.status, headers=answer.headers, body=b"")
            if answer.status != (206 if is_part else 200) or _is_strange(reply):
                return replace(reply, body=await answer.content.read(_MAX_REFUSAL_BYTES))
            etag = answer.headers.get("ETag")
            if is_part and not _begins_at(self._offset, answer.headers.get("Content-Range", "")):
                place = f"{self._source.key!r} from byte {self._offset} on"
                raise StorageError(f"cannot read {place}: another part came, or none")
            if self._offset > self._start and etag != self._etag:
                raise StorageError(f"cannot read {self._source.key!r}: it changed while it was read")
        except BaseException:  # cancellation too: the connection must not stay open
            answer.close()
            raise
        self._etag, self._answer = etag, answer
        return None


def _begins_at(offset: int, content_range: str) -> bool:
    """Whether an answer has at least one byte, and the first of them is the one that was asked for."""
    found = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", content_range)
    return found is not None and int(found[1]) == offset <= int(found[2])


def _is_strange(reply: Reply) -> bool:
    """Whether an answer claims to be the object but cannot be."""
    return reply.status in (200, 206) and bool(no_object(reply))


def no_object(reply: Reply, complaint: Complaint = web_page, what: str = "object") -> str:
    """The complaint about an answer that claims that there is an object; empty if there is none.

    Args:
        complaint: that of the service about any answer.
    """
    if found := complaint(reply):
        return found
    if "ETag" not in reply.headers or not is_digits(reply.headers.get("Content-Length", "")):
        return f"it gave the {what} no ETag and size"  # without a size, an early end would look like the end
    return ""
