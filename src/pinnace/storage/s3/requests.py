"""The S3 requests, signed by ourselves.

No answer is believed for its status alone, as proxies and login pages answer 200 to anything: an upload is
stored when the ETag says so, a list is a list by its root element and its keys, and what an answer cannot
prove is looked for by HEAD. (docs/adr/005, docs/adr/012)
"""

import base64
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from xml.etree import ElementTree

import aiohttp

from pinnace.aio.blocking import in_thread
from pinnace.aio.clock import Clock
from pinnace.api.values.times import format_time, known_time
from pinnace.clouds.aws.credentials import AccessKey
from pinnace.clouds.aws.signing import EMPTY_HASH, Signer, quote_key, quote_query, signed_headers
from pinnace.storage.downloads import ObjectURL, no_object
from pinnace.storage.errors import (
    BackupLocked,
    ObjectNotFound,
    StorageError,
    StoreConfigError,
    StoreUnavailable,
)
from pinnace.storage.http_store import SignURL
from pinnace.storage.interface import DELETE_ATTEMPTS, MAX_LISTED, Body, ListPage
from pinnace.storage.object_lock import BucketLock, ObjectVersion, Retention, check_held
from pinnace.storage.s3.answers import (
    WITHOUT_LOCK,
    UnfinishedUpload,
    has_digest,
    no_list,
    not_completed,
    not_stored,
    parse_lock,
    parse_page,
    parse_uploads,
    parse_versions,
)
from pinnace.storage.upload import upload
from pinnace.store_access.requests import (
    Reply,
    Request,
    RequestPolicy,
    child_text,
    code_and_message,
    error_for,
    not_an_answer,
    other_root,
    parse_xml,
    send,
    send_request,
    web_page,
)

PARTITION_URLS = (
    "https://s3.amazonaws.com",
    "https://s3.cn-north-1.amazonaws.com.cn",
    "https://s3.us-gov-west-1.amazonaws.com",
)
"""One service of each of AWS's partitions: each knows the regions of its own buckets only."""

_COMPLETION_SECONDS_PER_PART = 0.25
"""Some stores copy the parts of 5 MiB into one file before they answer: this is 20 MB a second."""

_EXISTS = (409, 412)
"""Answers to a conditional PUT of an object that exists, or that another client is writing at the moment."""
_NO_CONDITIONS = (400, 501)
"""Answers of services that refuse a conditional PUT because they have none."""

_NO_LOCK: Final = ("ObjectLockConfigurationNotFoundError", "NotImplemented", "MethodNotAllowed")
_LEGAL_HOLD: Final = "x-amz-object-lock-legal-hold"

_TOO_LONG: Final = "KeyTooLongError"
_LONGEST_KEY_BYTES: Final = 1024
_LONGEST_PART_BYTES: Final = 255


def _is_overlong(key: str) -> bool:
    """Whether some store refuses a key as too long: the answer to HEAD has no code that says so."""
    parts = key.encode().split(b"/")
    return len(key.encode()) > _LONGEST_KEY_BYTES or any(len(part) > _LONGEST_PART_BYTES for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRequests:
    """Signed requests to one bucket.

    Attributes:
        session: closed by its owner.
        url: the bucket's URL, without a slash at its end.
        credentials: asked for every request.
        clock: the time of signatures.
        object_headers: sent with every new object: its encryption.
        sign: makes the URL to read an object with.
    """

    session: aiohttp.ClientSession
    bucket: str
    url: str
    region: str
    credentials: Callable[[], Awaitable[AccessKey]]
    policy: RequestPolicy
    clock: Clock
    object_headers: Mapping[str, str]
    sign: SignURL

    async def upload(self, key: str, body: Body) -> None:
        """See Requests.upload."""
        await upload(self, key, body)

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        """See Requests.signed_url."""
        return await self.sign(key, ttl)

    async def pages(self, prefix: str, *, delimiter: str = "") -> AsyncIterator[ListPage]:
        """ListObjectsV2 of `prefix`, page by page. Raises StorageError for a list that does not end."""
        what = f"cannot list bucket {self.bucket!r}"
        params = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
        if delimiter:
            params["delimiter"] = delimiter
        listed = 0
        while True:
            url = f"{self.url}/?{quote_query(params)}"
            reply = await self._send(
                Request(method="GET", url=url, complaint=partial(no_list, prefix), what=what)
            )
            _check(what, reply)
            page, token = parse_page(parse_xml(reply.body, what), what)
            listed += len(page.keys) + len(page.prefixes)
            if listed > MAX_LISTED:
                raise StorageError(f"{what}: there are more than {MAX_LISTED} names below {prefix!r}")
            yield page
            if not token:
                return
            if token == params.get("continuation-token"):
                raise StorageError(f"{what}: the store repeats the same page")
            params["continuation-token"] = token

    async def delete(self, key: str) -> None:
        """DELETE one object, whatever its key; a missing one is success."""
        what = f"cannot delete {key!r}"
        for _ in range(DELETE_ATTEMPTS):
            reply = await self._send(Request(method="DELETE", url=self._object_url(key), what=what))
            code, _message = code_and_message(reply.body)
            if reply.status == 204 or (reply.status == 404 and code == "NoSuchKey") or code == _TOO_LONG:
                return
            error = _error(what, reply)
            if error is not None and (reply.status != 404 or isinstance(error, StoreConfigError)):
                raise error
            # Some stores answer otherwise, and a proxy in front of a store can answer anything.
            if not await self.exists(key):
                return
        raise StorageError(
            f"{what}: the store answered with HTTP status {reply.status}, and it is still there"
        )

    async def exists(self, key: str) -> bool:
        """HEAD one object."""
        return await self._head(key) is not None

    async def size(self, key: str) -> int:
        """HEAD one object for its size in bytes. Raises ObjectNotFound."""
        reply = await self._head(key)
        if reply is None:
            raise ObjectNotFound(key)
        return int(reply.headers["Content-Length"])

    async def version(self, key: str) -> str:
        """HEAD one object for its ETag. Raises ObjectNotFound."""
        if (reply := await self._head(key)) is None:
            raise ObjectNotFound(key)
        return reply.headers.get("ETag", "")

    async def _head(self, key: str) -> Reply | None:
        """The answer to HEAD, None if there is no such object."""
        what = f"cannot look for {key!r}"
        url = self._object_url(key)
        reply = await self._send(Request(method="HEAD", url=url, complaint=no_object, what=what))
        if reply.status == 400 and _is_overlong(key):
            return None  # stores over a file system refuse such names, and can hold none
        if reply.status != 404:
            _check(what, reply)
            return reply
        if page := web_page(reply):
            raise not_an_answer(url, reply, page, what=what)
        # This answer has no body to say what is missing. A refusal to show the bucket means that it exists.
        if (await self._send(Request(method="HEAD", url=f"{self.url}/", what=what))).status == 404:
            raise await self._no_bucket(what)
        return None

    async def _no_bucket(self, what: str) -> StorageError:
        """The error for a bucket that HEAD does not find: some stores answer so to unknown access keys."""
        request = Request(method="GET", url=f"{self.url}/?list-type=2&max-keys=1", what=what)
        reply = await self._send(request)
        code, _ = code_and_message(reply.body)
        if reply.status == 404 and code in ("", "NoSuchBucket"):
            return StoreConfigError(f"{what}: there is no bucket {self.bucket!r}")
        return error_for(what, reply.status, reply.body)

    def source(self, key: str) -> ObjectURL:
        """Where an object is read from."""
        url = self._object_url(key)

        async def headers(wanted: Mapping[str, str]) -> Mapping[str, str]:
            # Those wanted are not signed: gateways change the encodings that are accepted on the way.
            return {**await self._signed("GET", url, EMPTY_HASH, None), **wanted}

        async def refusal(reply: Reply) -> StorageError:
            error = error_for(f"cannot read {key!r}", reply.status, reply.body)
            if code_and_message(reply.body)[0] == _TOO_LONG:
                return ObjectNotFound(key)
            if reply.status != 404 or isinstance(error, StoreConfigError):
                return error
            if code_and_message(reply.body)[0] == "NoSuchKey":
                return ObjectNotFound(key)
            try:
                return error if await self.exists(key) else ObjectNotFound(key)
            except StorageError as unknown:
                return unknown

        return ObjectURL(key=key, url=url, headers=headers, refusal=refusal)

    async def put(self, key: str, data: bytes) -> None:
        """PUT a whole object."""
        reply = await self._upload(key, self._object_url(key), data, self.object_headers)
        if not has_digest(reply):
            await self._confirm(key, len(data))

    async def put_new(self, key: str, data: bytes) -> bool:
        """See Requests.put_new."""
        headers = {**self.object_headers, "if-none-match": "*"}
        reply = await self._sent(key, self._object_url(key), data, headers)
        if reply.status in _EXISTS:
            return False
        if reply.status in _NO_CONDITIONS:
            if await self.exists(key):
                return False
            await self.put(key, data)
            return True
        _check(f"cannot write {key!r}", reply)
        if not has_digest(reply):
            await self._confirm(key, len(data))
        return True

    async def bucket_lock(self) -> BucketLock:
        """GetObjectLockConfiguration. Raises StorageError, also without the right to ask."""
        what = f"cannot ask bucket {self.bucket!r} for its object lock"
        url = f"{self.url}/?{quote_query({'object-lock': ''})}"
        reply = await self._send(Request(method="GET", url=url, what=what))
        if code_and_message(reply.body)[0] in _NO_LOCK:
            return BucketLock(is_enabled=False, reason=f"bucket {self.bucket!r} {WITHOUT_LOCK}")
        _check(what, reply)
        return parse_lock(parse_xml(reply.body, what), self.bucket)

    async def versions(self, prefix: str) -> list[ObjectVersion]:
        """ListObjectVersions of keys that begin with `prefix`. Raises StorageError."""
        what = f"cannot list the versions in bucket {self.bucket!r}"
        params = {"versions": "", "encoding-type": "url", "prefix": prefix}
        found: list[ObjectVersion] = []
        while True:
            complaint = partial(other_root, name="ListVersionsResult")
            url = f"{self.url}/?{quote_query(params)}"
            reply = await self._send(Request(method="GET", url=url, complaint=complaint, what=what))
            _check(what, reply)
            page, markers = parse_versions(parse_xml(reply.body, what))
            if any(not each.key.startswith(prefix) for each in page):
                raise StorageError(f"{what}: the list has names that do not begin with {prefix!r}")
            found += page
            if len(found) > MAX_LISTED:
                raise StorageError(f"{what}: there are more than {MAX_LISTED} below {prefix!r}")
            if not markers:
                return found
            if markers.items() <= params.items():
                raise StorageError(f"{what}: the store repeats the same page")
            params |= markers

    async def held_until(self, version: ObjectVersion) -> datetime | None:
        """HEAD one version for the end of its retention. Raises BackupLocked for a legal hold.

        Some stores say it in the answer to HEAD of the newest version alone; GetObjectRetention asks again.
        """
        what = f"cannot look how long {version.key!r} is held"
        request = Request(method="HEAD", url=self._version_url(version), complaint=no_object, what=what)
        reply = await self._send(request)
        if reply.status == 404:
            return None
        _check(what, reply)
        if reply.headers.get(_LEGAL_HOLD, "") == "ON":
            raise BackupLocked(f"a legal hold, which has no end, is on {version.key!r}", None)
        if (until := _retained_until(reply)) is not None:
            return until
        url = self._version_url(version, retention="")
        reply = await self._send(Request(method="GET", url=url, what=what))
        if code_and_message(reply.body)[0] == "NoSuchObjectLockConfiguration":
            return None
        _check(what, reply)
        return known_time(child_text(parse_xml(reply.body, what), "RetainUntilDate"))

    async def delete_version(self, version: ObjectVersion) -> None:
        """DELETE one version for good. Raises StorageError."""
        what = f"cannot delete a version of {version.key!r}"
        reply = await self._send(Request(method="DELETE", url=self._version_url(version), what=what))
        if reply.status == 403 and "object lock" in code_and_message(reply.body)[1].lower():
            raise BackupLocked(f"{version.key!r} is held by object lock, and the store says no end", None)
        if reply.status != 404:
            _check(what, reply)

    def holding(self, retention: Retention) -> "BucketRequests":
        """See Requests.holding."""
        return replace(self, object_headers={**self.object_headers, **_retention_headers(retention)})

    async def check_retention(self, key: str, retention: Retention) -> None:
        """See that an object that was just stored is held as long as asked. Raises StorageError."""
        reply = await self._head(key)
        until = None if reply is None else _retained_until(reply)
        check_held(key, retention, until, "the right s3:GetObjectRetention")

    async def create_upload(self, key: str) -> str:
        """Begin a multipart upload and return its id."""
        what = f"cannot write {key!r}"
        request = Request(
            method="POST",
            url=f"{self._object_url(key)}?uploads=",
            complaint=partial(other_root, name="InitiateMultipartUploadResult"),
            what=what,
        )
        reply = await self._send(request, self.object_headers)
        _check(what, reply)
        upload_id = child_text(parse_xml(reply.body, what), "UploadId")
        if not upload_id:
            raise StorageError(f"{what}: the store gave the upload no id")
        return upload_id

    async def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Send part `number`, from 1, and return its ETag."""
        url = self._upload_url(key, upload_id, partNumber=str(number))
        reply = await self._upload(key, url, data, {})
        return reply.headers["ETag"]

    async def complete_upload(
        self, key: str, upload_id: str, etags: Sequence[str], *, size_bytes: int
    ) -> None:
        """Make the object of its parts, and see that it has their size."""
        what = f"cannot write {key!r}"
        root = ElementTree.Element("CompleteMultipartUpload")
        for number, etag in enumerate(etags, start=1):
            part = ElementTree.SubElement(root, "Part")
            ElementTree.SubElement(part, "PartNumber").text = str(number)
            ElementTree.SubElement(part, "ETag").text = etag
        # Success is only in the body: a long completion begins with 200 before its outcome is known.
        request = Request(
            method="POST",
            url=self._upload_url(key, upload_id),
            data=ElementTree.tostring(root),
            complaint=partial(not_completed, len(etags)),
            what=what,
            silence_seconds=self.policy.silence_seconds + len(etags) * _COMPLETION_SECONDS_PER_PART,
        )
        reply = await self._send(request)
        error = _error(what, reply)
        if error is not None:
            # Also 'no such upload' may mean that an earlier try was carried out but its answer was lost.
            raise StoreUnavailable(str(error)) if reply.status == 404 else error
        await self._confirm(key, size_bytes)

    async def _confirm(self, key: str, size_bytes: int) -> None:
        """See that an object that was just stored is there. Raises StoreUnavailable."""
        what = f"cannot write {key!r}"
        try:
            found = await self.size(key)
        except ObjectNotFound:
            raise StoreUnavailable(f"{what}: the store said it has it, but it is not there") from None
        if found != size_bytes:
            raise StoreUnavailable(f"{what}: {size_bytes} bytes were sent, but the store has {found}")

    async def uploads(self, prefix: str) -> AsyncIterator["UnfinishedUpload"]:
        """ListMultipartUploads of keys that begin with `prefix`. Raises StorageError."""
        what = f"cannot list the unfinished uploads in bucket {self.bucket!r}"
        params = {"uploads": "", "encoding-type": "url", "prefix": prefix}
        listed = 0
        while True:
            complaint = partial(other_root, name="ListMultipartUploadsResult")
            url = f"{self.url}/?{quote_query(params)}"
            reply = await self._send(Request(method="GET", url=url, complaint=complaint, what=what))
            _check(what, reply)
            found, markers = parse_uploads(parse_xml(reply.body, what))
            listed += len(found)
            if listed > MAX_LISTED:
                raise StorageError(f"{what}: there are more than {MAX_LISTED} below {prefix!r}")
            for each in found:
                if each.upload_id and each.key.startswith(prefix):  # some stores ignore the prefix
                    yield each
            if not markers:
                return
            if markers.items() <= params.items():
                raise StorageError(f"{what}: the store repeats the same page")
            params |= markers

    async def abort_upload(self, key: str, upload_id: str) -> None:
        """Drop an upload and its parts; one that is not there is success."""
        reply = await self._send(Request(method="DELETE", url=self._upload_url(key, upload_id)))
        if reply.status != 404:
            _check(f"cannot abort the upload of {key!r}", reply)

    def _object_url(self, key: str) -> str:
        return f"{self.url}/{quote_key(key)}"

    def _version_url(self, version: ObjectVersion, **more: str) -> str:
        return f"{self._object_url(version.key)}?{quote_query({'versionId': version.version, **more})}"

    def _upload_url(self, key: str, upload_id: str, **params: str) -> str:
        return f"{self._object_url(key)}?{quote_query({'uploadId': upload_id, **params})}"

    async def _upload(self, key: str, url: str, data: bytes, headers: Mapping[str, str]) -> Reply:
        """Send an object or a part of one; the answer has an ETag that fits to it."""
        reply = await self._sent(key, url, data, headers)
        _check(f"cannot write {key!r}", reply)
        return reply

    async def _sent(self, key: str, url: str, data: bytes, headers: Mapping[str, str]) -> Reply:
        """The answer to a PUT, which may be a refusal; one of success has an ETag that fits to the data."""
        what, digest = f"cannot write {key!r}", await in_thread(_md5, data)
        request = Request(method="PUT", url=url, data=data, complaint=partial(not_stored, digest), what=what)
        # Demanded of what is put under object lock, also by the bucket's own default.
        sums = {"content-md5": base64.b64encode(bytes.fromhex(digest)).decode("ascii")}
        return await self._send(request, {**headers, **sums})

    async def _send(self, request: Request, headers: Mapping[str, str] | None = None) -> Reply:
        """Sign and send a request; `headers` are sent and signed too."""
        data = request.data
        body_hash = await in_thread(_sha256, data) if isinstance(data, bytes) and data else EMPTY_HASH
        signed = partial(self._signed, request.method, request.url, body_hash, headers)
        return await send_request(self.session, replace(request, headers=signed), policy=self.policy)

    async def _signed(
        self, method: str, url: str, body_hash: str, headers: Mapping[str, str] | None
    ) -> Mapping[str, str]:
        return signed_headers(
            method,
            url,
            Signer(region=self.region, credentials=await self.credentials()),
            now=self.clock.now(),
            body_hash=body_hash,
            headers=headers,
        )


def _retention_headers(retention: Retention) -> dict[str, str]:
    """The headers of an object that is put with a retention."""
    return {
        "x-amz-object-lock-mode": retention.mode.upper(),
        "x-amz-object-lock-retain-until-date": format_time(retention.until),
    }


def _retained_until(reply: Reply) -> datetime | None:
    return known_time(reply.headers.get("x-amz-object-lock-retain-until-date", ""))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _error(what: str, reply: Reply) -> StorageError | None:
    return None if reply.status in (200, 204) else error_for(what, reply.status, reply.body)


def _check(what: str, reply: Reply) -> None:
    if (error := _error(what, reply)) is not None:
        raise error


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


_NAME_REGION: Final = "give it as region in the location's config, in a URL as ?region=REGION"


async def find_bucket_region(
    bucket: str,
    session: aiohttp.ClientSession,
    *,
    policy: RequestPolicy,
    service_urls: tuple[str, ...] = PARTITION_URLS,
) -> str:
    """Ask AWS for the region of a bucket; needs no credentials. (docs/spec: STO 14.1, 15)

    Raises:
        StorageError: no partition knows the bucket, or none could be reached.
    """
    problem: StorageError | None = None
    for url in service_urls:
        try:
            reply = await send(session, "HEAD", f"{url}/{quote_key(bucket)}", policy=policy)
        except StoreUnavailable as error:
            problem = problem or error
            continue
        if region := reply.headers.get("x-amz-bucket-region"):
            return region
    if problem is not None:
        raise StoreUnavailable(f"unable to determine bucket's region: {problem}; {_NAME_REGION}") from problem
    raise StoreConfigError(f"unable to determine bucket's region; {_NAME_REGION}")
