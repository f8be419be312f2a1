"""The S3 requests that obstore cannot make as we need them, signed by ourselves: all but downloads.

- Listing and deletion: obstore cleans keys. A foreign key with `//` makes its listing fail as a whole, and
  the marker object `b1/` of a pseudo-directory is listed as `b1` and cannot be deleted, so that a deleted
  backup would stay listed. S3 itself has no trouble with either. (docs/spec: STO 6)
- Uploads: obstore hangs up on parts in flight and aborts the upload at once, or not at all if its call is
  cancelled. A server that still stores a part then keeps the upload, unseen and paid for.
- A bucket's region.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote_plus
from xml.etree import ElementTree

import aiohttp

from pinnace.aio.blocking import in_thread
from pinnace.clouds.aws.credentials import Credentials
from pinnace.clouds.aws.signing import EMPTY_HASH, quote_key, quote_query, signed_headers
from pinnace.http.requests import Reply, RetryPolicy, child_text, error_for, local_name, parse_xml, send
from pinnace.storage.downloads import Source
from pinnace.storage.errors import ObjectNotFound, StorageError, StoreConfigError, StoreUnavailable
from pinnace.storage.interface import ListPage

PARTITION_URLS = (
    "https://s3.amazonaws.com",
    "https://s3.cn-north-1.amazonaws.com.cn",
    "https://s3.us-gov-west-1.amazonaws.com",
)
"""One service of each of AWS's partitions: each knows the regions of its own buckets only."""

MAX_LISTED = 500_000
"""Names in one list, all kept in memory; many times what an honest location holds. A store can be
anyone's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRequests:
    """Signed requests to one bucket.

    Attributes:
        session: closed by its owner.
        url: the bucket's URL, without a slash at its end.
        credentials: asked for every request.
        clock: the time of signatures.
        object_headers: sent with every new object: its encryption.
    """

    session: aiohttp.ClientSession
    bucket: str
    url: str
    region: str
    credentials: Callable[[], Awaitable[Credentials]]
    policy: RetryPolicy
    clock: Callable[[], datetime]
    object_headers: Mapping[str, str]

    async def pages(self, prefix: str, *, delimiter: str = "") -> AsyncIterator[ListPage]:
        """ListObjectsV2 of `prefix`, page by page. Raises StorageError for a list that does not end."""
        what = f"cannot list bucket {self.bucket!r}"
        params = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
        if delimiter:
            params["delimiter"] = delimiter
        listed = 0
        while True:
            reply = await self._send("GET", f"{self.url}/?{quote_query(params)}")
            _check(what, reply)
            page, token = _parse_page(reply.body, what)
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
        reply = await self._send("DELETE", f"{self.url}/{quote_key(key)}")
        error = _error(f"cannot delete {key!r}", reply)
        if error is not None and (reply.status != 404 or isinstance(error, StoreConfigError)):
            raise error

    async def exists(self, key: str) -> bool:
        """HEAD one object."""
        reply = await self._send("HEAD", f"{self.url}/{quote_key(key)}")
        if reply.status != 404:
            _check(f"cannot look for {key!r}", reply)
            return True
        # This answer has no body to say what is missing. Who may not ask for the bucket knows it is there.
        if (await self._send("HEAD", f"{self.url}/")).status == 404:
            raise StoreConfigError(f"cannot look for {key!r}: there is no bucket {self.bucket!r}")
        return False

    def source(self, key: str) -> Source:
        """Where an object is read from, where obstore does not read it."""
        url = f"{self.url}/{quote_key(key)}"

        async def headers(wanted: Mapping[str, str]) -> Mapping[str, str]:
            return await self._signed("GET", url, EMPTY_HASH, wanted)

        async def refusal(reply: Reply) -> StorageError:
            error = error_for(f"cannot read {key!r}", reply.status, reply.body)
            return ObjectNotFound(key) if reply.status == 404 and type(error) is StorageError else error

        return Source(key=key, url=url, headers=headers, refusal=refusal)

    async def put(self, key: str, data: bytes) -> None:
        """PUT a whole object."""
        reply = await self._send("PUT", f"{self.url}/{quote_key(key)}", data, self.object_headers)
        _check(f"cannot write {key!r}", reply)

    async def create_upload(self, key: str) -> str:
        """Begin a multipart upload and return its id."""
        what = f"cannot write {key!r}"
        url = f"{self.url}/{quote_key(key)}?uploads="
        reply = await self._send("POST", url, headers=self.object_headers)
        _check(what, reply)
        upload_id = child_text(parse_xml(reply.body, what), "UploadId")
        if not upload_id:
            raise StorageError(f"{what}: the store gave the upload no id")
        return upload_id

    async def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Send part `number`, from 1, and return its ETag."""
        what = f"cannot write {key!r}"
        reply = await self._send("PUT", self._upload_url(key, upload_id, partNumber=str(number)), data)
        _check(what, reply)
        etag = reply.headers.get("ETag")
        if not etag:
            raise StorageError(f"{what}: the store gave part {number} no ETag")
        return etag

    async def complete_upload(self, key: str, upload_id: str, etags: Sequence[str]) -> None:
        """Make the object of its parts."""
        what = f"cannot write {key!r}"
        root = ElementTree.Element("CompleteMultipartUpload")
        for number, etag in enumerate(etags, start=1):
            part = ElementTree.SubElement(root, "Part")
            ElementTree.SubElement(part, "PartNumber").text = str(number)
            ElementTree.SubElement(part, "ETag").text = etag
        reply = await self._send("POST", self._upload_url(key, upload_id), ElementTree.tostring(root))
        error = _error(what, reply)
        # Success is only in the body: a long completion begins with 200 before its outcome is known.
        if error is None and local_name(parse_xml(reply.body, what)) == "Error":
            error = error_for(what, 500, reply.body)
        if error is not None:
            # Also 'no such upload' may mean that an earlier try was carried out but its answer was lost.
            raise StoreUnavailable(str(error)) if reply.status == 404 else error

    async def abort_upload(self, key: str, upload_id: str) -> None:
        """Drop an upload and its parts; one that is not there is success."""
        reply = await self._send("DELETE", self._upload_url(key, upload_id))
        if reply.status != 404:
            _check(f"cannot abort the upload of {key!r}", reply)

    def _upload_url(self, key: str, upload_id: str, **params: str) -> str:
        return f"{self.url}/{quote_key(key)}?{quote_query({'uploadId': upload_id, **params})}"

    async def _send(
        self, method: str, url: str, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        body_hash = await in_thread(_sha256, data) if data else EMPTY_HASH

        async def signed() -> Mapping[str, str]:
            return await self._signed(method, url, body_hash, headers)

        return await send(self.session, method, url, policy=self.policy, headers=signed, data=data)

    async def _signed(
        self, method: str, url: str, body_hash: str, headers: Mapping[str, str] | None
    ) -> Mapping[str, str]:
        return signed_headers(
            method,
            url,
            region=self.region,
            credentials=await self.credentials(),
            now=self.clock(),
            body_hash=body_hash,
            headers=headers,
        )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _error(what: str, reply: Reply) -> StorageError | None:
    return None if reply.status in (200, 204) else error_for(what, reply.status, reply.body)


def _check(what: str, reply: Reply) -> None:
    if (error := _error(what, reply)) is not None:
        raise error


def _parse_page(body: bytes, what: str) -> tuple[ListPage, str]:
    root = parse_xml(body, what)
    keys: list[str] = []
    prefixes: list[str] = []
    texts: dict[str, str] = {}
    for element in root:
        name = local_name(element)
        if name in ("Contents", "CommonPrefixes"):
            wanted = "Key" if name == "Contents" else "Prefix"
            (keys if name == "Contents" else prefixes).append(child_text(element, wanted))
        else:
            texts[name] = element.text or ""
    if texts.get("EncodingType") == "url":
        keys, prefixes = list(map(unquote_plus, keys)), list(map(unquote_plus, prefixes))
    more = texts.get("IsTruncated") == "true"
    token = texts.get("NextContinuationToken", "")
    if more and not token:
        raise StorageError(f"{what}: the store has more keys but says not how to get them")
    return ListPage(keys=keys, prefixes=prefixes), token if more else ""


async def find_bucket_region(
    bucket: str,
    session: aiohttp.ClientSession,
    *,
    policy: RetryPolicy,
    service_urls: tuple[str, ...] = PARTITION_URLS,
) -> str:
    """Ask AWS in which region a bucket is; needs no credentials. (docs/spec: STO 14.1, 15)

    Raises:
        StorageError: no partition knows the bucket, or none could be reached.
    """
    problem: StorageError | None = None
    for url in service_urls:
        try:
            reply = await send(session, "HEAD", f"{url}/{quote_key(bucket)}", policy=policy)
        except StoreUnavailable as error:
            problem = error
            continue
        if region := reply.headers.get("x-amz-bucket-region"):
            return region
    if problem is not None:
        raise StoreUnavailable(f"unable to determine bucket's region: {problem}") from problem
    raise StoreConfigError("unable to determine bucket's region")
