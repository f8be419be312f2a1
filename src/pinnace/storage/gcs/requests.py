"""Requests to Google Cloud Storage, by its JSON interface. (docs/spec: STO 14.2)"""

import base64
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlsplit

import aiohttp

from pinnace.aio.blocking import in_thread
from pinnace.api.objects import mapping, objects, text
from pinnace.api.values.digits import is_digits
from pinnace.api.values.times import format_time, known_time
from pinnace.clouds.aws.signing import quote_query
from pinnace.storage.downloads import ObjectURL
from pinnace.storage.errors import BackupLocked, ObjectNotFound, StorageError, StoreConfigError
from pinnace.storage.gcs.upload import Stored, no_object, resource_of, upload
from pinnace.storage.http_store import SignURL
from pinnace.storage.interface import DELETE_ATTEMPTS, MAX_LISTED, Body, ListPage
from pinnace.storage.object_lock import BucketLock, LockMode, ObjectVersion, Retention, check_held
from pinnace.store_access.json import json_error, json_object
from pinnace.store_access.requests import (
    Complaint,
    Reply,
    Request,
    RequestPolicy,
    origin_of,
    send,
    send_request,
    web_page,
)

_MODES: Final = {LockMode.GOVERNANCE: "Unlocked", LockMode.COMPLIANCE: "Locked"}
_HELD: Final = ("retentionPolicyNotMet", "objectUnderActiveHold")
_WITHOUT_LOCK: Final = (
    "has no object lock: object retention is enabled when a bucket is made, or later in the console of"
    " Google Cloud"
)
_MOST_SECONDS: Final = 100 * 366 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class GCSRequests:
    """Authorized requests to one bucket.

    Attributes:
        session: closed by its owner.
        endpoint: without a slash at its end.
        token: asked for every request.
        kms_key_name: encrypts new objects; empty is the bucket's default.
        sign: makes signed URLs of keys.
        retention: that of every object that is uploaded.
    """

    session: aiohttp.ClientSession
    bucket: str
    endpoint: str
    token: Callable[[], Awaitable[str]]
    policy: RequestPolicy
    kms_key_name: str
    sign: SignURL
    retention: Retention | None = None

    async def upload(self, key: str, body: Body) -> None:
        """See Requests.upload."""
        await upload(self, key, body)

    async def put(self, key: str, data: bytes) -> None:
        """Store a whole object in one request."""
        stored = Stored()
        await in_thread(stored.add, data)
        url, headers = self._upload_url(key, "media"), _BINARY
        if metadata := self._metadata(key):
            url = self._upload_url(key, "multipart")
            headers, data = _with_metadata(metadata, data)
        reply = await self.send("POST", url, data, headers, complaint=partial(stored.complaint, key))
        await self.check(f"cannot write {key!r}", reply)

    async def put_new(self, key: str, data: bytes) -> bool:
        """See Requests.put_new."""
        stored = Stored()
        stored.add(data)
        url = f"{self._upload_url(key, 'multipart')}&ifGenerationMatch=0"
        headers, body = _with_metadata({"name": key}, data)
        reply = await self.send("POST", url, body, headers, complaint=partial(stored.complaint, key))
        if reply.status == 412:
            return False
        await self.check(f"cannot write {key!r}", reply)
        return True

    async def create_upload(self, key: str) -> str:
        """Begin a resumable upload and return the URL of its session."""
        what, url = f"cannot write {key!r}", self._upload_url(key, "resumable")
        headers, body = _BINARY, b""
        if metadata := self._metadata(key):
            headers = {"content-type": "application/json", "x-upload-content-type": _BINARY["content-type"]}
            body = json.dumps(metadata).encode()
        reply = await self.send("POST", url, body, headers, complaint=_no_upload)
        await self.check(what, reply)
        # Whatever host it names: credentials go to the endpoint alone.
        parts = urlsplit(reply.headers["Location"])
        return f"{origin_of(self.endpoint)}{parts.path}?{parts.query}"

    async def pages(self, prefix: str, *, delimiter: str = "") -> AsyncIterator[ListPage]:
        """See Requests.pages."""
        params = {"prefix": prefix, "fields": "kind,items(name),prefixes,nextPageToken"}
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
        params = {"prefix": key, "maxResults": "1", "fields": "kind,items(name)"}
        return _names((await self._page(params)).get("items")) == [key]

    async def size(self, key: str) -> int:
        """See Requests.size."""
        return int((await self._properties(key))["size"])

    async def version(self, key: str) -> str:
        """See Requests.version."""
        return str((await self._properties(key)).get("etag") or "")

    async def _properties(self, key: str) -> dict[str, Any]:
        what = f"cannot look for {key!r}"
        reply = await self.send("GET", self._object_url(key), complaint=partial(no_object, key))
        if reply.status == 404 and not await self.exists(key):
            raise ObjectNotFound(key)
        await self.check(what, reply)
        return json_object(reply.body, what)

    async def delete(self, key: str) -> None:
        """See Requests.delete."""
        what = f"cannot delete {key!r}"
        for _ in range(DELETE_ATTEMPTS):
            reply = await self.send("DELETE", self._object_url(key))
            if reply.status == 204:
                return
            if reply.status != 404:
                await self.check(what, reply)
            # Raises where the bucket is missing. A proxy in front of a store can answer anything.
            if not await self.exists(key):
                return
        raise StorageError(
            f"{what}: the store answered with HTTP status {reply.status}, and it is still there"
        )

    def holding(self, retention: Retention) -> "GCSRequests":
        """See Requests.holding: the retention of an object, in its metadata."""
        return replace(self, retention=retention)

    async def check_retention(self, key: str, retention: Retention) -> None:
        """See Requests.check_retention."""
        until = _retained_until(await self._properties(key))
        check_held(key, retention, until, "the right storage.objects.setRetention")

    async def bucket_lock(self) -> BucketLock:
        """See Requests.bucket_lock; the default is the retention policy of the bucket."""
        what = f"cannot ask bucket {self.bucket!r} for its object lock"
        params = {"fields": "name,objectRetention,retentionPolicy"}
        url = f"{self.endpoint}/storage/v1/b/{quote(self.bucket, safe='')}?{quote_query(params)}"
        reply = await self.send("GET", url, complaint=partial(_no_bucket, self.bucket))
        await self.check(what, reply)
        found = json_object(reply.body, what)
        default = _period(found.get("retentionPolicy"))
        if mapping(found, "objectRetention").get("mode") == "Enabled":
            return BucketLock(is_enabled=True, default=default)
        return BucketLock(is_enabled=False, default=default, reason=f"bucket {self.bucket!r} {_WITHOUT_LOCK}")

    async def versions(self, prefix: str) -> list[ObjectVersion]:
        """See Requests.versions: the generations; without versioning, an object has one."""
        what = f"cannot list the versions in bucket {self.bucket!r}"
        params = {
            "prefix": prefix,
            "versions": "true",
            "fields": "kind,items(name,generation),nextPageToken",
        }
        found: list[ObjectVersion] = []
        while True:
            page = await self._page(params)
            found += [
                ObjectVersion(key=str(item["name"]), version=str(item.get("generation", "")))
                for item in page.get("items") or []
            ]
            if any(not is_digits(each.version) for each in found):
                raise StorageError(f"{what}: an object has no generation")
            if len(found) > MAX_LISTED:
                raise StorageError(f"{what}: there are more than {MAX_LISTED} below {prefix!r}")
            if not (token := page.get("nextPageToken")):
                return found
            if token == params.get("pageToken"):
                raise StorageError(f"{what}: the store repeats the same page")
            params["pageToken"] = token

    async def held_until(self, version: ObjectVersion) -> datetime | None:
        """See Requests.held_until: by its own retention, or the bucket's policy."""
        what, url = f"cannot look how long {version.key!r} is held", self._version_url(version)
        reply = await self.send("GET", url, complaint=partial(no_object, version.key))
        if reply.status == 404:
            return None
        await self.check(what, reply)
        found = json_object(reply.body, what)
        if found.get("temporaryHold") is True or found.get("eventBasedHold") is True:
            raise BackupLocked(f"a hold of the store, which has no end, is on {version.key!r}", None)
        ends = (_retained_until(found), known_time(text(found, "retentionExpirationTime")))
        return max((end for end in ends if end is not None), default=None)

    async def delete_version(self, version: ObjectVersion) -> None:
        """See Requests.delete_version."""
        reply = await self.send("DELETE", self._version_url(version))
        reasons = {text(error, "reason") for error in objects(resource_of(reply), "error", "errors")}
        if reply.status == 403 and not reasons.isdisjoint(_HELD):
            raise BackupLocked(f"{version.key!r} is held by object lock, and the store says no end", None)
        if reply.status != 404:
            await self.check(f"cannot delete a version of {version.key!r}", reply)

    def source(self, key: str) -> ObjectURL:
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
        return ObjectURL(key=key, url=url, headers=self._headers, refusal=refusal)

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        """See Requests.signed_url."""
        return await self.sign(key, ttl)

    async def send(
        self,
        method: str,
        url: str,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        complaint: Complaint = web_page,
    ) -> Reply:
        """An authorized request, tried again after transient faults."""

        async def authorized() -> Mapping[str, str]:
            return await self._headers(headers or {})

        request = Request(method=method, url=url, headers=authorized, data=data, complaint=complaint)
        return await send_request(self.session, request, policy=self.policy)

    async def check(self, what: str, reply: Reply) -> None:
        """Raise StorageError for an answer that is a refusal."""
        if reply.status in (200, 201, 204):
            return
        error = json_error(what, reply.status, reply.body)
        # Requests for an object handle 404 themselves: here the bucket is missing.
        raise StoreConfigError(str(error)) if reply.status == 404 else error

    async def _page(self, params: Mapping[str, str]) -> dict[str, Any]:
        what = f"cannot list bucket {self.bucket!r}"
        url = f"{self._bucket_url()}?{quote_query(params)}"
        reply = await self.send("GET", url, complaint=partial(_no_list, params["prefix"]))
        await self.check(what, reply)
        return json_object(reply.body, what)

    async def _headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        return {**headers, "authorization": f"Bearer {await self.token()}"}

    def _bucket_url(self) -> str:
        return f"{self.endpoint}/storage/v1/b/{quote(self.bucket, safe='')}/o"

    def _object_url(self, key: str) -> str:
        return f"{self._bucket_url()}/{quote(key, safe='')}"

    def _version_url(self, version: ObjectVersion) -> str:
        return f"{self._object_url(version.key)}?{quote_query({'generation': version.version})}"

    def _metadata(self, key: str) -> Mapping[str, Any]:
        """The metadata that an upload gives its object; empty for none."""
        if self.retention is None:
            return {}
        until = format_time(self.retention.until)
        return {
            "name": key,
            "retention": {"mode": _MODES[self.retention.mode], "retainUntilTime": until},
        }

    def _upload_url(self, key: str, kind: str) -> str:
        params = {"uploadType": kind, "name": key}
        if self.kms_key_name:
            params["kmsKeyName"] = self.kms_key_name
        return f"{self.endpoint}/upload/storage/v1/b/{quote(self.bucket, safe='')}/o?{quote_query(params)}"


_BINARY: Final[Mapping[str, str]] = {"content-type": "application/octet-stream"}


def _with_metadata(metadata: Mapping[str, Any], data: bytes) -> tuple[Mapping[str, str], bytes]:
    """The headers and the body of an upload of an object with its metadata (multipart/related)."""
    boundary = secrets.token_hex(16)
    parts = (("application/json", json.dumps(metadata).encode()), ("application/octet-stream", data))
    body = b"".join(
        b"--%b\r\ncontent-type: %b\r\n\r\n%b\r\n" % (boundary.encode(), kind.encode(), part)
        for kind, part in parts
    )
    headers = {"content-type": f"multipart/related; boundary={boundary}"}
    return headers, body + b"--%b--\r\n" % boundary.encode()


def _retained_until(resource: Mapping[str, Any]) -> datetime | None:
    return known_time(text(resource, "retention", "retainUntilTime"))


def _period(policy: object) -> timedelta:
    """The period of a bucket's retention policy; zero for none."""
    seconds = str(policy.get("retentionPeriod", "")) if isinstance(policy, dict) else ""
    return timedelta(seconds=min(int(seconds[:12]), _MOST_SECONDS)) if is_digits(seconds) else timedelta()


def _no_bucket(bucket: str, reply: Reply) -> str:
    """The complaint about an answer that claims to be the metadata of a bucket."""
    if resource_of(reply).get("name") != bucket:
        return web_page(reply) or "the body does not describe the bucket"
    return ""


def _no_upload(reply: Reply) -> str:
    """The complaint about an answer that claims that an upload has begun."""
    return "" if reply.headers.get("Location") else web_page(reply) or "it gave the upload no URL"


def _no_list(prefix: str, reply: Reply) -> str:
    """The complaint about an answer to a listing."""
    found = resource_of(reply)
    if found.get("kind") != "storage#objects":
        return web_page(reply) or "the body is not a list of objects"
    try:
        names = [*_names(found.get("items")), *(found.get("prefixes") or [])]
        strange = any(not name.startswith(prefix) for name in names)
    except (TypeError, KeyError, AttributeError):
        return "the body is not a list of objects"
    return f"the list has names that do not begin with {prefix!r}" if strange else ""


def _names(items: Any) -> list[str]:
    return [str(item["name"]) for item in items or []]


async def sign_blob(
    session: aiohttp.ClientSession,
    *,
    endpoint: str,
    account: str,
    token: str,
    data: bytes,
    policy: RequestPolicy,
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
