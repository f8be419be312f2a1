"""Requests to the blobs of one container in Azure. (docs/spec: STO 14.3)"""

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from urllib.parse import unquote
from xml.etree import ElementTree

import aiohttp

from pinnace.aio.blocking import in_thread
from pinnace.aio.clock import Clock
from pinnace.clouds.aws.signing import quote_key, quote_query
from pinnace.storage.azure.account import SAS_VARIABLE, AccountKey, SharedAccess
from pinnace.storage.azure.signing import StorageAccount, read_sas, shared_key_headers, with_version
from pinnace.storage.downloads import ObjectURL, no_object
from pinnace.storage.errors import (
    BackupLocked,
    ObjectNotFound,
    StorageError,
    StoreConfigError,
    StoreUnavailable,
)
from pinnace.storage.interface import MAX_LISTED, Body, ListPage
from pinnace.storage.object_lock import BucketLock, LockMode, ObjectVersion, Retention, check_held
from pinnace.storage.upload import upload
from pinnace.store_access.requests import (
    Complaint,
    Reply,
    Request,
    RequestPolicy,
    child_text,
    error_for,
    error_within,
    local_name,
    other_root,
    parse_xml,
    send_request,
    web_page,
)

_EXISTS = ("BlobAlreadyExists", "ConditionNotMet")
_CURRENT = "OperationNotAllowedOnRootBlob"
"""The answer to the deletion of the current version by its id."""
_HELD = ("BlobImmutableDueToPolicy", "BlobImmutableDueToLegalHold")
_MODES = {LockMode.GOVERNANCE: "unlocked", LockMode.COMPLIANCE: "locked"}
_WITHOUT_LOCK = (
    "has no object lock: enable immutable storage with versioning (version-level immutability) for the"
    " container or its storage account"
)
_NONCE_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequests:
    """Authorized requests to one container.

    Attributes:
        session: closed by its owner.
        url: of the container, without a slash at its end.
        access: asked for every request.
        clock: the time of signatures.
        block_bytes: of uploads that do not fit into one.
        object_headers: sent with every blob that is uploaded: its immutability policy.
    """

    session: aiohttp.ClientSession
    account: str
    container: str
    url: str
    access: Callable[[], Awaitable[AccountKey | SharedAccess]]
    policy: RequestPolicy
    clock: Clock
    block_bytes: int
    object_headers: Mapping[str, str] = field(default_factory=dict)

    async def upload(self, key: str, body: Body) -> None:
        """See Requests.upload."""
        await upload(self, key, body, part_size_bytes=self.block_bytes)

    async def put(self, key: str, data: bytes) -> None:
        """Store a whole blob."""
        headers = {**self.object_headers, "x-ms-blob-type": "BlockBlob"}
        await self._store(key, self._blob_url(key), data, headers)

    async def put_new(self, key: str, data: bytes) -> bool:
        """See Requests.put_new."""
        headers = {"x-ms-blob-type": "BlockBlob", "if-none-match": "*"}
        reply = await self._sent(self._blob_url(key), data, headers)
        if reply.status in (409, 412) and reply.headers.get("x-ms-error-code") in _EXISTS:
            return False
        _check(f"cannot write {key!r}", reply)
        return True

    async def create_upload(self, key: str) -> str:
        """Return a prefix for the names of the blocks of an upload; no request is sent.

        It keeps the blocks of two uploads of one blob apart. The names are as long as Velero's, as the
        service wants all blocks of a blob to have names of one length.
        """
        return "".join(secrets.choice(_NONCE_CHARACTERS) for _ in range(3))

    async def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Send a block, which is invisible until it is in the list, and return its name."""
        name = base64.b64encode(f"{upload_id}{number:05}".encode()).decode("ascii")
        url = f"{self._blob_url(key)}?{quote_query({'comp': 'block', 'blockid': name})}"
        await self._store(key, url, data, {})
        return name

    async def complete_upload(
        self, key: str, upload_id: str, etags: Sequence[str], *, size_bytes: int
    ) -> None:
        """Make the blob of its blocks, and see that it has their size."""
        what = f"cannot write {key!r}"
        root = ElementTree.Element("BlockList")
        for name in etags:
            ElementTree.SubElement(root, "Latest").text = name
        url = f"{self._blob_url(key)}?comp=blocklist"
        body = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
        await self._store(key, url, body, self.object_headers)
        try:
            found = await self.size(key)
        except ObjectNotFound:
            raise StoreUnavailable(f"{what}: the store said it has it, but it is not there") from None
        if found != size_bytes:
            raise StoreUnavailable(f"{what}: {size_bytes} bytes were sent, but the store has {found}")

    async def _store(self, key: str, url: str, data: bytes, headers: Mapping[str, str]) -> None:
        """Send a body. Raises StorageError if it is refused."""
        _check(f"cannot write {key!r}", await self._sent(url, data, headers))

    async def _sent(self, url: str, data: bytes, headers: Mapping[str, str]) -> Reply:
        """The answer to a body with its sum, which the service compares, and sends back where it did."""
        digest = await in_thread(_md5, data)
        return await self._send(
            "PUT", url, data, {**headers, "content-md5": digest}, complaint=partial(_not_stored, digest)
        )

    async def abort_upload(self, key: str, upload_id: str) -> None:
        """Do nothing: blocks cannot be deleted. They are invisible, and dropped after a week."""

    async def pages(self, prefix: str, *, delimiter: str = "") -> AsyncIterator[ListPage]:
        """See Requests.pages."""
        what = f"cannot list container {self.container!r}"
        params = {"restype": "container", "comp": "list", "prefix": prefix}
        if delimiter:
            params["delimiter"] = delimiter
        while True:
            url = f"{self.url}?{quote_query(params)}"
            reply = await self._send("GET", url, complaint=partial(_no_list, prefix))
            _check(what, reply)
            page, marker = parse_page(reply.body, what)
            yield page
            if not marker:
                return
            if marker == params.get("marker"):
                raise StorageError(f"{what}: the store repeats the same page")
            params["marker"] = marker

    async def exists(self, key: str) -> bool:
        """See Requests.exists."""
        return await self._head(key) is not None

    async def size(self, key: str) -> int:
        """See Requests.size."""
        reply = await self._head(key)
        if reply is None:
            raise ObjectNotFound(key)
        return int(reply.headers["Content-Length"])

    async def version(self, key: str) -> str:
        """See Requests.version."""
        if (reply := await self._head(key)) is None:
            raise ObjectNotFound(key)
        return reply.headers.get("ETag", "")

    async def _head(self, key: str) -> Reply | None:
        """The answer to HEAD, None if there is no such blob."""
        reply = await self._send(
            "HEAD", self._blob_url(key), complaint=partial(no_object, complaint=_not_of_service, what="blob")
        )
        if _is_missing_blob(reply):
            return None
        _check(f"cannot look for {key!r}", reply)
        return reply

    async def delete(self, key: str) -> None:
        """See Requests.delete."""
        reply = await self._send("DELETE", self._blob_url(key))
        if not _is_missing_blob(reply):
            _check(f"cannot delete {key!r}", reply)

    def holding(self, retention: Retention) -> "ContainerRequests":
        """See Requests.holding: an immutability policy of the blob's version."""
        until = format_datetime(retention.until.astimezone(UTC), usegmt=True)
        policy = {
            "x-ms-immutability-policy-until-date": until,
            "x-ms-immutability-policy-mode": _MODES[retention.mode],
        }
        return replace(self, object_headers={**self.object_headers, **policy})

    async def check_retention(self, key: str, retention: Retention) -> None:
        """See Requests.check_retention."""
        reply = await self._head(key)
        until = None if reply is None else _immutable_until(reply)
        check_held(key, retention, until, "the right to set immutability policies")

    async def bucket_lock(self) -> BucketLock:
        """See Requests.bucket_lock. A default policy of the container is not told by this interface."""
        reply = await self._send("HEAD", f"{self.url}?restype=container")
        _check(f"cannot ask container {self.container!r} for its object lock", reply)
        if reply.headers.get("x-ms-immutable-storage-with-versioning-enabled") == "true":
            return BucketLock(is_enabled=True)
        return BucketLock(is_enabled=False, reason=f"container {self.container!r} {_WITHOUT_LOCK}")

    async def versions(self, prefix: str) -> list[ObjectVersion]:
        """See Requests.versions; there are no markers."""
        what = f"cannot list the versions in container {self.container!r}"
        params = {"restype": "container", "comp": "list", "include": "versions", "prefix": prefix}
        found: list[ObjectVersion] = []
        while True:
            url = f"{self.url}?{quote_query(params)}"
            reply = await self._send("GET", url, complaint=partial(_no_list, prefix))
            _check(what, reply)
            root = parse_xml(reply.body, what)
            found += [
                ObjectVersion(key=_name_of(each), version=child_text(each, "VersionId"))
                for each in root.iter()
                if local_name(each) == "Blob"
            ]
            if len(found) > MAX_LISTED:
                raise StorageError(f"{what}: there are more than {MAX_LISTED} below {prefix!r}")
            marker = child_text(root, "NextMarker")
            if not marker:
                return found
            if marker == params.get("marker"):
                raise StorageError(f"{what}: the store repeats the same page")
            params["marker"] = marker

    async def held_until(self, version: ObjectVersion) -> datetime | None:
        """See Requests.held_until."""
        reply = await self._send(
            "HEAD",
            self._version_url(version),
            complaint=partial(no_object, complaint=_not_of_service, what="blob"),
        )
        if _is_missing_blob(reply):
            return None
        _check(f"cannot look how long {version.key!r} is held", reply)
        if reply.headers.get("x-ms-legal-hold", "") == "true":
            raise BackupLocked(f"a legal hold, which has no end, is on {version.key!r}", None)
        return _immutable_until(reply)

    async def delete_version(self, version: ObjectVersion) -> None:
        """See Requests.delete_version. The current version becomes a former one first."""
        what = f"cannot delete a version of {version.key!r}"
        reply = await self._send("DELETE", self._version_url(version))
        if reply.headers.get("x-ms-error-code") == _CURRENT:
            await self.delete(version.key)
            reply = await self._send("DELETE", self._version_url(version))
        if reply.headers.get("x-ms-error-code") in _HELD:
            raise BackupLocked(f"{version.key!r} is held by object lock, and the store says no end", None)
        if not _is_missing_blob(reply):
            _check(what, reply)

    def source(self, key: str) -> ObjectURL:
        """See Requests.source."""

        async def refusal(reply: Reply) -> StorageError:
            return ObjectNotFound(key) if _is_missing_blob(reply) else _error(f"cannot read {key!r}", reply)

        async def headers(wanted: Mapping[str, str]) -> Mapping[str, str]:
            return await self._headers("GET", self._blob_url(key), 0, wanted)

        return ObjectURL(
            key=key, url=self._blob_url(key), headers=headers, refusal=refusal, query=self._query
        )

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        """See Requests.signed_url."""
        access = await self.access()
        if isinstance(access, SharedAccess):
            raise StoreConfigError(
                f"cannot sign a URL for {key!r}: that needs the key of the storage account, "
                f"and {SAS_VARIABLE} is none"
            )
        query = read_sas(
            StorageAccount(name=self.account, key=access.key),
            self.container,
            key,
            now=self.clock.now(),
            ttl=ttl,
            https=self.url.startswith("https:"),
        )
        return f"{self._blob_url(key)}?{query}"

    async def _send(
        self,
        method: str,
        url: str,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        complaint: Complaint | None = None,
    ) -> Reply:
        async def authorized() -> Mapping[str, str]:
            return await self._headers(method, url, len(data or b""), headers or {})

        query = await self._query()
        complete = f"{url}{'&' if '?' in url else '?'}{query}" if query else url
        request = Request(
            method=method, url=complete, headers=authorized, data=data, complaint=complaint or _not_of_service
        )
        return await send_request(self.session, request, policy=self.policy)

    async def _query(self) -> str:
        """The authorization that is appended to URLs; empty for none."""
        access = await self.access()
        return access.query if isinstance(access, SharedAccess) else ""

    async def _headers(
        self, method: str, url: str, size_bytes: int, headers: Mapping[str, str]
    ) -> Mapping[str, str]:
        # Given here, as aiohttp would otherwise add one of its own after the signature.
        complete = {"content-type": "application/octet-stream", **headers}
        access = await self.access()
        if isinstance(access, SharedAccess):
            return with_version(complete, self.clock.now())
        return shared_key_headers(
            method,
            url,
            StorageAccount(name=self.account, key=access.key),
            now=self.clock.now(),
            size_bytes=size_bytes,
            headers=complete,
        )

    def _blob_url(self, key: str) -> str:
        return f"{self.url}/{quote_key(key)}"

    def _version_url(self, version: ObjectVersion) -> str:
        """The URL of one version; without versioning, that of the blob."""
        url = self._blob_url(version.key)
        return f"{url}?{quote_query({'versionid': version.version})}" if version.version else url


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode("ascii")


def _immutable_until(reply: Reply) -> datetime | None:
    try:
        return parsedate_to_datetime(reply.headers["x-ms-immutability-policy-until-date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return None


def _not_of_service(reply: Reply) -> str:
    """The complaint about an answer without the header that each of the service's has."""
    if complaint := web_page(reply) or error_within(reply):
        return complaint
    return "" if "x-ms-request-id" in reply.headers else "it has no x-ms-request-id"


def _not_stored(digest: str, reply: Reply) -> str:
    """The complaint about an answer to a blob, block or list of blocks."""
    if complaint := _not_of_service(reply):
        return complaint
    if reply.status != 201:
        return "something that is created has the status 201"
    found = reply.headers.get("Content-MD5", digest)
    return "" if found == digest else f"the sum {found} is not that of what was sent ({digest})"


def _no_list(prefix: str, reply: Reply) -> str:
    """The complaint about an answer to a listing."""
    if complaint := _not_of_service(reply) or other_root(reply, "EnumerationResults"):
        return complaint
    page, _ = parse_page(reply.body, "")
    if any(not name.startswith(prefix) for name in (*page.keys, *page.prefixes)):
        return f"the list has names that do not begin with {prefix!r}"
    return ""


def _is_missing_blob(reply: Reply) -> bool:
    return reply.status == 404 and reply.headers.get("x-ms-error-code") == "BlobNotFound"


def _error(what: str, reply: Reply) -> StorageError:
    # The message goes on with lines about the request; HEAD has no body, and the code in a header.
    code = reply.headers.get("x-ms-error-code", "")
    error = error_for(what, reply.status, reply.body.partition(b"\nRequestId:")[0] + _rest(reply.body))
    text = str(error) if code in str(error) else f"{error} ({code})"
    return StoreConfigError(text) if code == "ContainerNotFound" else type(error)(text)


def _rest(body: bytes) -> bytes:
    """The end of an error's body, from where its message ends; empty if nothing was cut."""
    found = body.partition(b"\nRequestId:")[2]
    end = found.find(b"</Message>")
    return found[end:] if end >= 0 else b""


def _check(what: str, reply: Reply) -> None:
    if reply.status not in (200, 201, 202):
        raise _error(what, reply)


def parse_page(body: bytes, what: str) -> tuple[ListPage, str]:
    """A page of a listing, and where the next one begins; empty if there is none. Raises StorageError."""
    root = parse_xml(body, what)
    keys: list[str] = []
    prefixes: list[str] = []
    for element in root.iter():
        name = local_name(element)
        if name in ("Blob", "BlobPrefix"):
            (keys if name == "Blob" else prefixes).append(_name_of(element))
    return ListPage(keys=keys, prefixes=prefixes), child_text(root, "NextMarker")


def _name_of(element: ElementTree.Element) -> str:
    """The name of a blob, which is quoted where XML could not hold it."""
    for child in element:
        if local_name(child) == "Name":
            text = child.text or ""
            return unquote(text) if child.get("Encoded") == "true" else text
    return ""
