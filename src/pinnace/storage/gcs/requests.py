"""Requests to Google Cloud Storage, by its JSON interface. (docs/spec: STO 14.2)"""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import aiohttp

from pinnace.clouds.aws.signing import quote_query
from pinnace.http.json import json_error, json_object
from pinnace.http.requests import Reply, RetryPolicy, send
from pinnace.storage.downloads import Source
from pinnace.storage.errors import ObjectNotFound, StorageError, StoreConfigError
from pinnace.storage.gcs.upload import upload
from pinnace.storage.interface import Body, ListPage

SignURL = Callable[[str, timedelta], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GCSRequests:
    """Authorized requests to one bucket.

    Attributes:
        session: closed by its owner.
        endpoint: without a slash at its end.
        token: asked for every request.
        kms_key_name: encrypts new objects; empty is the bucket's default.
        sign: makes signed URLs of keys.
    """

    session: aiohttp.ClientSession
    bucket: str
    endpoint: str
    token: Callable[[], Awaitable[str]]
    policy: RetryPolicy
    kms_key_name: str
    sign: SignURL

    async def upload(self, key: str, body: Body) -> None:
        """See Requests.upload."""
        await upload(self, key, body)

    async def put(self, key: str, data: bytes) -> None:
        """Store a whole object in one request."""
        reply = await self.send("POST", self._upload_url(key, "media"), data, _BINARY)
        await self.check(f"cannot write {key!r}", reply)

    async def create_upload(self, key: str) -> str:
        """Begin a resumable upload and return the URL of its session."""
        what = f"cannot write {key!r}"
        reply = await self.send("POST", self._upload_url(key, "resumable"), b"", _BINARY)
        await self.check(what, reply)
        url = reply.headers.get("Location")
        if not url:
            raise StorageError(f"{what}: the store gave the upload no URL")
        return url

    async def pages(self, prefix: str, *, delimiter: str = "") -> AsyncIterator[ListPage]:
        """See Requests.pages."""
        params = {"prefix": prefix, "fields": "items(name),prefixes,nextPageToken"}
        if delimiter:
            params["delimiter"] = delimiter
        while True:
            page = await self._page(params)
            yield ListPage(keys=_names(page.get("items")), prefixes=list(page.get("prefixes") or []))
            token = page.get("nextPageToken")
            if not token:
                return
            if token == params.get("pageToken"):
                raise StorageError(f"cannot list bucket {self.bucket!r}: the store repeats the same page")
            params["pageToken"] = token

    async def exists(self, key: str) -> bool:
        """See Requests.exists: a listing, which knows a missing bucket from a missing object.

        The first of all keys that begin with `key` is `key` itself.
        """
        params = {"prefix": key, "maxResults": "1", "fields": "items(name)"}
        return _names((await self._page(params)).get("items")) == [key]

    async def delete(self, key: str) -> None:
        """See Requests.delete."""
        reply = await self.send("DELETE", self._object_url(key))
        if reply.status != 404:
            await self.check(f"cannot delete {key!r}", reply)
        else:
            await self.exists(key)  # raises where the bucket is what was not found

    def source(self, key: str) -> Source:
        """See Requests.source."""

        async def refusal(reply: Reply) -> StorageError:
            if reply.status != 404:
                return json_error(f"cannot read {key!r}", reply.status, reply.body)
            try:
                await self.exists(key)
            except StorageError as error:
                return error
            return ObjectNotFound(key)

        url = f"{self._object_url(key)}?alt=media"
        return Source(key=key, url=url, headers=self._headers, refusal=refusal)

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        """See Requests.signed_url."""
        return await self.sign(key, ttl)

    async def send(
        self, method: str, url: str, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """An authorized request, tried again after transient faults."""

        async def authorized() -> Mapping[str, str]:
            return await self._headers(headers or {})

        return await send(self.session, method, url, policy=self.policy, headers=authorized, data=data)

    async def check(self, what: str, reply: Reply) -> None:
        """Raise StorageError for an answer that is a refusal."""
        if reply.status in (200, 201, 204):
            return
        error = json_error(what, reply.status, reply.body)
        # Of all requests but those for an object, only the bucket can be what was not found.
        raise StoreConfigError(str(error)) if reply.status == 404 else error

    async def _page(self, params: Mapping[str, str]) -> dict[str, Any]:
        what = f"cannot list bucket {self.bucket!r}"
        reply = await self.send("GET", f"{self._bucket_url()}?{quote_query(params)}")
        await self.check(what, reply)
        return json_object(reply.body, what)

    async def _headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        return {**headers, "authorization": f"Bearer {await self.token()}"}

    def _bucket_url(self) -> str:
        return f"{self.endpoint}/storage/v1/b/{quote(self.bucket, safe='')}/o"

    def _object_url(self, key: str) -> str:
        return f"{self._bucket_url()}/{quote(key, safe='')}"

    def _upload_url(self, key: str, kind: str) -> str:
        params = {"uploadType": kind, "name": key}
        if self.kms_key_name:
            params["kmsKeyName"] = self.kms_key_name
        return f"{self.endpoint}/upload/storage/v1/b/{quote(self.bucket, safe='')}/o?{quote_query(params)}"


_BINARY = {"content-type": "application/octet-stream"}


def _names(items: Any) -> list[str]:
    return [str(item["name"]) for item in items or []]


async def sign_blob(
    session: aiohttp.ClientSession,
    *,
    endpoint: str,
    account: str,
    token: str,
    data: bytes,
    policy: RetryPolicy,
) -> bytes:
    """Have IAM sign for a service account whose key we do not have. Raises StorageError."""
    what = f"cannot sign as {account}"

    async def headers() -> Mapping[str, str]:
        return {"authorization": f"Bearer {token}", "content-type": "application/json"}

    body = json.dumps({"payload": base64.b64encode(data).decode("ascii")}).encode()
    url = f"{endpoint}/v1/projects/-/serviceAccounts/{quote(account, safe='@')}:signBlob"
    reply = await send(session, "POST", url, policy=policy, headers=headers, data=body)
    if reply.status != 200:
        raise json_error(what, reply.status, reply.body)
    try:
        return base64.b64decode(json_object(reply.body, what)["signedBlob"], validate=True)
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{what}: the answer holds no signature") from error
