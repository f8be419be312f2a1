"""What the answers of S3 say: pages of lists, object lock, and complaints about answers that prove nothing.

Pure. The answers may be anybody's: of a proxy, or of a store that has a request of the same name.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from pinnace.api.values.counts import counted
from pinnace.api.values.digits import is_digits
from pinnace.api.values.times import known_time
from pinnace.storage.errors import StorageError
from pinnace.storage.interface import ListPage
from pinnace.storage.object_lock import BucketLock, ObjectVersion
from pinnace.store_access.requests import (
    Reply,
    child_text,
    error_within,
    local_name,
    other_root,
    web_page,
)

_MD5 = re.compile(r"[0-9a-fA-F]{32}")
_MULTIPART_ETAG = re.compile(r"[0-9a-fA-F]{32}-(\d+)")
_OWN_KEY_HEADERS = (
    "x-amz-server-side-encryption-aws-kms-",
    "x-amz-server-side-encryption-customer-",
    "x-goog-encryption-",
)
_MOST_DAYS: Final = 100 * 365
WITHOUT_LOCK: Final = (
    "has no object lock: it is enabled when a bucket is made, or later on a versioned one where the store"
    " can do that"
)


def has_digest(reply: Reply) -> bool:
    """Whether the ETag of a stored object or part must be the MD5 sum of its bytes.

    It is another text where the store encrypts with keys of others, and in stores with ETags of their own.
    """
    for name in reply.headers:
        lower = name.lower()
        if lower == "x-amz-server-side-encryption" and reply.headers[name] != "AES256":
            return False
        if lower.startswith(_OWN_KEY_HEADERS):
            return False
    return _MD5.fullmatch(reply.headers.get("ETag", "").strip('"')) is not None


def not_stored(digest: str, reply: Reply) -> str:
    """The complaint about an answer to PUT."""
    if complaint := web_page(reply) or error_within(reply):
        return complaint
    etag = reply.headers.get("ETag", "").strip('"')
    if not etag:
        return "it gave what was sent no ETag"
    if has_digest(reply) and etag.lower() != digest:
        return f"the ETag {etag} is not that of what was sent ({digest})"
    return ""


def not_completed(parts: int, reply: Reply) -> str:
    """The complaint about an answer to CompleteMultipartUpload."""
    if complaint := other_root(reply, "CompleteMultipartUploadResult"):
        return complaint
    etag = child_text(ElementTree.fromstring(reply.body), "ETag").strip('"')  # noqa: S314
    if not etag:
        return "it gave the object no ETag"
    if (count := _MULTIPART_ETAG.fullmatch(etag)) and int(count[1]) != parts:
        return f"the ETag {etag} is not that of an object of {counted(parts, 'part')}"
    return ""


def no_list(prefix: str, reply: Reply) -> str:
    """The complaint about an answer to a listing."""
    if complaint := other_root(reply, "ListBucketResult"):
        return complaint
    root = ElementTree.fromstring(reply.body)  # noqa: S314
    if child_text(root, "IsTruncated") not in ("true", "false"):
        return "the list does not say whether it is complete"
    page, _ = parse_page(root, "")
    if any(not name.startswith(prefix) for name in (*page.keys, *page.prefixes)):
        return f"the list has names that do not begin with {prefix!r}"
    return ""


def parse_page(root: ElementTree.Element, what: str) -> tuple[ListPage, str]:
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
        raise StorageError(f"{what}: the store has more keys but does not say how to get them")
    return ListPage(keys=keys, prefixes=prefixes), token if more else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedUpload:
    """A multipart upload that was neither completed nor aborted.

    Attributes:
        begun: when, by the store's clock; None if the store does not say it.
    """

    key: str
    upload_id: str
    begun: datetime | None


def parse_uploads(root: ElementTree.Element) -> tuple[list[UnfinishedUpload], dict[str, str]]:
    """The uploads of a page, and the parameters of the next one; none after the last."""
    is_encoded = child_text(root, "EncodingType") == "url"

    def decoded(text: str) -> str:
        return unquote_plus(text) if is_encoded else text

    found = [
        UnfinishedUpload(
            key=decoded(child_text(element, "Key")),
            upload_id=child_text(element, "UploadId"),
            begun=known_time(child_text(element, "Initiated")),
        )
        for element in root
        if local_name(element) == "Upload"
    ]
    if child_text(root, "IsTruncated") != "true":
        return found, {}
    markers = {
        "key-marker": decoded(child_text(root, "NextKeyMarker")),
        "upload-id-marker": child_text(root, "NextUploadIdMarker"),
    }
    return found, {name: text for name, text in markers.items() if text}


def parse_lock(root: ElementTree.Element, bucket: str) -> BucketLock:
    # A store without this request may answer with a list.
    if local_name(root) != "ObjectLockConfiguration" or child_text(root, "ObjectLockEnabled") != "Enabled":
        return BucketLock(is_enabled=False, reason=f"bucket {bucket!r} {WITHOUT_LOCK}")
    days = 0
    for element in root.iter():
        if local_name(element) in ("Days", "Years") and is_digits(element.text or ""):
            days = int((element.text or "")[:6]) * (365 if local_name(element) == "Years" else 1)
    return BucketLock(is_enabled=True, default=timedelta(days=min(days, _MOST_DAYS)))


def parse_versions(root: ElementTree.Element) -> tuple[list[ObjectVersion], dict[str, str]]:
    """The versions of a page, and the parameters of the next one; none after the last."""
    is_encoded = child_text(root, "EncodingType") == "url"

    def decoded(text: str) -> str:
        return unquote_plus(text) if is_encoded else text

    found = [
        ObjectVersion(
            key=decoded(child_text(element, "Key")),
            version=child_text(element, "VersionId"),
            is_marker=local_name(element) == "DeleteMarker",
        )
        for element in root
        if local_name(element) in ("Version", "DeleteMarker")
    ]
    if child_text(root, "IsTruncated") != "true":
        return found, {}
    markers = {
        "key-marker": decoded(child_text(root, "NextKeyMarker")),
        "version-id-marker": child_text(root, "NextVersionIdMarker"),
    }
    return found, {name: text for name, text in markers.items() if text}
