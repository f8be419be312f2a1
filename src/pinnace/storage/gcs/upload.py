"""Uploading a stream to GCS in constant memory: in one request, or as a resumable upload in chunks.

A resumable upload is not visible before its last chunk. Its chunks go one after the other; a chunk that is
sent again after a fault is no harm, as the service ignores what it already has.
"""

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Protocol

from pinnace.aio.blocking import finish, in_thread, not_interrupted
from pinnace.api.values.digits import is_digits
from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.storage.interface import Body
from pinnace.storage.upload import GRACE_SECONDS, PutRequests, whole_or_in_parts
from pinnace.store_access.requests import Complaint, Reply, web_page

CHUNK_BYTES = 8 << 20
"""The chunks of a resumable upload; the service wants multiples of 256 KiB. Larger ones take more memory."""

_GONE = (204, 404, 410, 499)
"""Answers to the deletion of an upload; 499 is the documented one."""


def no_object(key: str, reply: Reply) -> str:
    """The complaint about an answer that claims to be the metadata of an object."""
    found = resource_of(reply)
    if found.get("name") != key or not is_digits(str(found.get("size", ""))):
        return web_page(reply) or "the body does not describe the object"
    return ""


def resource_of(reply: Reply) -> dict[str, Any]:
    """The JSON object that an answer consists of; empty if it is none."""
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


class Stored:
    """Size and sum of the data that has been sent, to be compared with those that the service reports."""

    def __init__(self) -> None:
        self._size_bytes = 0
        self._md5 = hashlib.md5(usedforsecurity=False)

    def add(self, data: bytes) -> None:
        """Take note of what is sent next."""
        self._size_bytes += len(data)
        self._md5.update(data)

    def complaint(self, key: str, reply: Reply) -> str:
        """The complaint about an answer that claims that the object is stored."""
        if complaint := no_object(key, reply):
            return complaint
        found = resource_of(reply)
        if int(found["size"]) != self._size_bytes:
            return f"{self._size_bytes} bytes were sent, but it has {found['size']}"
        digest = base64.b64encode(self._md5.digest()).decode("ascii")
        if found.get("md5Hash", digest) != digest:
            return f"the sum {found['md5Hash']} is not that of what was sent ({digest})"
        return ""


class UploadRequests(PutRequests, Protocol):
    """The requests that an upload needs; requests.py implements them."""

    async def create_upload(self, key: str) -> str: ...

    async def send(
        self,
        method: str,
        url: str,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        complaint: Complaint = web_page,
    ) -> Reply: ...

    async def check(self, what: str, reply: Reply) -> None: ...


async def upload(requests: UploadRequests, key: str, body: Body) -> None:
    """Store `body`. After a failure or cancellation nothing is in flight and the upload has been deleted.

    Raises:
        StorageError: the store failed. What the body raises comes through unchanged.
    """
    await whole_or_in_parts(requests, key, body, CHUNK_BYTES, _Resumable(requests, key))


class _Resumable:
    """One resumable upload."""

    def __init__(self, requests: UploadRequests, key: str) -> None:
        self._requests = requests
        self._what = f"cannot write {key!r}"
        self._key = key
        self._url = ""
        self._sent = 0
        self._stored = Stored()

    async def run(self, chunk: bytes, rest: AsyncIterator[bytes]) -> None:
        try:
            await not_interrupted(self._create(), grace_seconds=GRACE_SECONDS)
            async for following in rest:
                await not_interrupted(self._send(chunk, last=False), grace_seconds=GRACE_SECONDS)
                chunk = following
            await not_interrupted(self._send(chunk, last=True), grace_seconds=GRACE_SECONDS)
        except BaseException:  # cancellation too: the upload must not stay behind; passed on as it is
            await self._abort()
            raise

    async def _create(self) -> None:
        self._url = await self._requests.create_upload(self._key)

    async def _send(self, chunk: bytes, *, last: bool) -> None:
        """Send a chunk, and send the part of it again that the service did not keep."""
        end = self._sent + len(chunk)
        total = str(end) if last else "*"
        rest = memoryview(chunk)
        await in_thread(self._stored.add, chunk)
        complaint = partial(self._stored.complaint, self._key) if last else web_page
        while True:
            span = f"{self._sent}-{end - 1}" if rest else "*"
            headers = {"content-range": f"bytes {span}/{total}"}
            reply = await self._requests.send("PUT", self._url, bytes(rest), headers, complaint=complaint)
            if reply.status != 308:
                if reply.status in (404, 410):
                    # Also 'no such upload' may mean that an earlier try was carried out but not answered.
                    raise StoreUnavailable(f"{self._what}: the store has forgotten the upload")
                await self._requests.check(self._what, reply)
                if not last:
                    raise StorageError(f"{self._what}: the store ended the upload too early")
                self._sent = end
                return
            kept = _kept_bytes(reply.headers.get("Range", ""))
            if not last and kept == end:
                self._sent = end
                return
            if not self._sent < kept <= end:
                raise StorageError(f"{self._what}: the store keeps nothing of the upload")
            rest = rest[kept - self._sent :]
            self._sent = kept

    async def _abort(self) -> None:
        if not self._url:
            return
        try:
            reply = await finish(self._requests.send("DELETE", self._url), limit_seconds=GRACE_SECONDS)
            if reply.status not in _GONE:
                await self._requests.check(self._what, reply)
        except (StorageError, TimeoutError):
            return  # the store is unavailable; it drops the upload, which is invisible, after a week


def _kept_bytes(value: str) -> int:
    """How much of an upload the service has, by its header `Range: bytes=0-1023`."""
    end = value.rpartition("-")[2]
    return int(end) + 1 if value.startswith("bytes=0-") and is_digits(end) else 0
