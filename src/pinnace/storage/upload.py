"""Uploading a stream in constant memory so that nothing half-done stays behind.

A server may go on with a request whose client hung up. So no request is ever interrupted here: on failure or
cancellation those in flight are waited for, and only then the upload is aborted. (docs/spec: STO 14.1)
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Protocol

from pinnace.aio.blocking import finish, not_interrupted, settle
from pinnace.storage.errors import StorageError
from pinnace.storage.interface import Body

PART_SIZE_BYTES = 5 << 20
"""Parts of a multipart upload: the least that S3 allows, and Velero's size. There may be 10,000, which makes
objects of up to 48 GiB; all but the last are of one size, as some compatible stores demand."""

_PARTS_IN_FLIGHT = 3
GRACE_SECONDS = 30.0
"""How long requests in flight may take to end by themselves, and then the abort."""


class PutRequests(Protocol):
    """The request of a service that stores an object at once."""

    async def put(self, key: str, data: bytes) -> None: ...


class UploadInParts(Protocol):
    """One upload of a body that is larger than a part."""

    async def run(self, first: bytes, parts: AsyncIterator[bytes], /) -> None: ...


class PartRequests(PutRequests, Protocol):
    """The requests of a service that makes an object of parts; s3/requests.py describes them."""

    async def create_upload(self, key: str) -> str: ...

    async def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str: ...

    async def complete_upload(
        self, key: str, upload_id: str, etags: Sequence[str], *, size_bytes: int
    ) -> None: ...

    async def abort_upload(self, key: str, upload_id: str) -> None: ...


async def upload(
    requests: PartRequests, key: str, body: Body, *, part_size_bytes: int = PART_SIZE_BYTES
) -> None:
    """Store `body`: in one request if it fits into a part, else in parts; few of them are in memory at once.

    After a failure or cancellation nothing is in flight any more, and a multipart upload has been aborted.
    The object may be there nevertheless, if only the answer of the service was lost.

    Raises:
        StorageError: the store failed. What the body raises comes through unchanged.
    """
    await whole_or_in_parts(requests, key, body, part_size_bytes, _Multipart(requests, key))


async def whole_or_in_parts(
    requests: PutRequests, key: str, body: Body, part_size_bytes: int, in_parts: UploadInParts
) -> None:
    """Store `body` in one request if it is smaller than a part, else by `in_parts`.

    Raises:
        StorageError: the store failed. What the body raises comes through unchanged.
    """
    if isinstance(body, bytes):
        await not_interrupted(requests.put(key, body), grace_seconds=GRACE_SECONDS)
        return
    async with aclosing(split_into_parts(body, part_size_bytes)) as parts:
        first = await anext(parts, b"")
        if len(first) < part_size_bytes:
            await not_interrupted(requests.put(key, first), grace_seconds=GRACE_SECONDS)
        else:
            await in_parts.run(first, parts)


async def split_into_parts(
    body: AsyncIterable[bytes], part_size_bytes: int = PART_SIZE_BYTES
) -> AsyncGenerator[bytes, None]:
    """The body cut into parts of one size; the last one is smaller, and may be empty."""
    gathered: list[bytes] = []
    room = part_size_bytes
    async for block in body:
        while len(block) >= room:
            gathered.append(block[:room])
            block, room = block[room:], part_size_bytes
            part = b"".join(gathered)
            gathered.clear()
            yield part
        if block:
            gathered.append(block)
            room -= len(block)
    yield b"".join(gathered)


class _Multipart:
    """One multipart upload."""

    def __init__(self, requests: PartRequests, key: str) -> None:
        self._requests = requests
        self._key = key
        self._id: str | None = None
        self._sending: list[asyncio.Task[str]] = []
        self._size_bytes = 0

    async def run(self, first: bytes, rest: AsyncIterator[bytes]) -> None:
        try:
            await not_interrupted(self._create(), grace_seconds=GRACE_SECONDS)
            await self._send(first)
            async for part in rest:
                if part:
                    await self._send(part)
            etags = [await _result(task) for task in self._sending]
            await not_interrupted(self._complete(etags), grace_seconds=GRACE_SECONDS)
        except BaseException:  # cancellation too: parts must not stay in the bucket; passed on as it is
            await settle(set(self._sending), grace_seconds=GRACE_SECONDS)
            await self._abort()
            raise

    async def _create(self) -> None:
        self._id = await self._requests.create_upload(self._key)

    async def _send(self, part: bytes) -> None:
        """Send a part beside those in flight; their number is limited."""
        if len(self._sending) >= _PARTS_IN_FLIGHT:
            await _result(self._sending[-_PARTS_IN_FLIGHT])
        assert self._id is not None, "create() comes first"
        number = len(self._sending) + 1
        self._size_bytes += len(part)
        work = self._requests.put_part(self._key, self._id, number, part)
        self._sending.append(asyncio.create_task(work))

    async def _complete(self, etags: list[str]) -> None:
        assert self._id is not None, "create() comes first"
        await self._requests.complete_upload(self._key, self._id, etags, size_bytes=self._size_bytes)

    async def _abort(self) -> None:
        if self._id is None:
            return
        try:
            await finish(self._requests.abort_upload(self._key, self._id), limit_seconds=GRACE_SECONDS)
        except (StorageError, TimeoutError):
            return  # the store is away; the failure that brought us here is what counts


async def _result(task: "asyncio.Task[str]") -> str:
    """The result of a task, which is not cancelled with the caller as a bare `await` would do."""
    await asyncio.wait({task})
    return task.result()
