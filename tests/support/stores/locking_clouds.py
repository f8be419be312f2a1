"""Azure and Google Cloud Storage with object lock, scripted by their documentation, on loopback.

The emulators of both enforce no lock. These serve the few requests of an upload, a listing and a deletion,
refuse what the documentation says is refused, and record each request. They are no proof of the services.
"""

import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Protocol
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from aiohttp import web

from pinnace.aio.clock import Clock
from pinnace.api.values.times import known_time
from tests.support.stores.scripted_cloud import Asked


@dataclass
class StoredVersion:
    """One version of an object.

    Attributes:
        until: the end of its retention.
        is_current: whether a request without a version finds it.
    """

    key: str
    version: str
    data: bytes
    until: datetime | None = None
    is_current: bool = True


@dataclass
class LockingCloud:
    """The objects of one bucket.

    Attributes:
        locks: whether the bucket was made with object lock.
        ignores: whether retentions are accepted, and not kept.
        default_seconds: of the retention policy of the bucket.
    """

    clock: Clock
    url: str = ""
    locks: bool = True
    ignores: bool = False
    default_seconds: int = 0
    objects: list[StoredVersion] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    parts: dict[str, bytes] = field(default_factory=dict)
    sessions: dict[str, tuple[str, datetime | None]] = field(default_factory=dict)
    page: int = 3

    def current(self, key: str) -> StoredVersion | None:
        """The current version of an object."""
        return next((each for each in self.objects if each.key == key and each.is_current), None)

    def version(self, key: str, version: str) -> StoredVersion | None:
        """One version; the current one for an empty text."""
        if not version:
            return self.current(key)
        return next((each for each in self.objects if (each.key, each.version) == (key, version)), None)

    def is_held(self, found: StoredVersion) -> bool:
        """Whether it cannot be deleted now."""
        return found.until is not None and found.until > self.clock.now()

    def store(self, key: str, data: bytes, until: datetime | None) -> StoredVersion:
        """Store a version, in place of the current one."""
        if (former := self.current(key)) is not None:
            former.is_current = False
        number = 1_700_000_000_000_000 + len(self.objects)
        made = StoredVersion(key, str(number), data, None if self.ignores else until)
        self.objects.append(made)
        return made


class _Handler(Protocol):
    async def __call__(self, request: web.BaseRequest, asked: Asked, /) -> web.Response: ...


@asynccontextmanager
async def _served(cloud: LockingCloud, answer: _Handler) -> AsyncIterator[LockingCloud]:
    async def handle(request: web.BaseRequest) -> web.Response:
        body = await request.content.read()
        asked = Asked(request.method, request.path, dict(request.query), dict(request.headers), body)
        cloud.asked.append(asked)
        return await answer(request, asked)

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    cloud.url = f"http://{host}:{port}"
    yield cloud
    await runner.cleanup()


@asynccontextmanager
async def locking_azure(clock: Clock) -> AsyncIterator[LockingCloud]:
    """The container `c` of an account with versioning."""
    cloud = LockingCloud(clock)

    async def answer(_request: web.BaseRequest, asked: Asked) -> web.Response:
        key = asked.path.removeprefix("/c").removeprefix("/")
        if not key:
            return _azure_container(cloud, asked)
        return _azure_blob(cloud, asked, key)

    async with _served(cloud, answer) as served:
        yield served


def _azure(status: int, body: bytes = b"", code: str = "", **headers: str) -> web.Response:
    marks = {"x-ms-request-id": "1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if code:
        marks["x-ms-error-code"] = code
        body = f"<Error><Code>{code}</Code><Message>It is so.</Message></Error>".encode()
    return web.Response(status=status, body=body, headers=marks)


def _azure_container(cloud: LockingCloud, asked: Asked) -> web.Response:
    if asked.query.get("comp") != "list":
        return _azure(200, x_ms_immutable_storage_with_versioning_enabled=str(cloud.locks).lower())
    prefix, start = asked.query.get("prefix", ""), int(asked.query.get("marker") or 0)
    every = asked.query.get("include") == "versions"
    found = [each for each in cloud.objects if each.key.startswith(prefix) and (every or each.is_current)]
    shown = sorted(found, key=lambda each: each.key)[start : start + cloud.page]
    blobs = "".join(
        f"<Blob><Name>{escape(each.key)}</Name><VersionId>{each.version}</VersionId></Blob>" for each in shown
    )
    more = str(start + cloud.page) if start + cloud.page < len(found) else ""
    body = f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{more}</NextMarker></EnumerationResults>"
    return _azure(200, body.encode())


def _azure_blob(cloud: LockingCloud, asked: Asked, key: str) -> web.Response:
    if asked.method == "PUT":
        return _azure_put(cloud, asked, key)
    version = asked.query.get("versionid", "")
    found = cloud.version(key, version)
    if found is None:
        return _azure(404, code="BlobNotFound")
    if asked.method == "DELETE":
        if version and found.is_current:
            return _azure(403, code="OperationNotAllowedOnRootBlob")
        if version and cloud.is_held(found):
            return _azure(409, code="BlobImmutableDueToPolicy")
        if version:
            cloud.objects.remove(found)
        else:
            found.is_current = False
        return _azure(202)
    policy = {}
    if found.until is not None:
        until = format_datetime(found.until, usegmt=True)
        policy = {
            "x_ms_immutability_policy_until_date": until,
            "x_ms_immutability_policy_mode": "unlocked",
        }
    if asked.method == "HEAD":
        return _azure(200, b"", Content_Length=str(len(found.data)), ETag='"1"', **policy)
    return _azure(200, found.data, ETag='"1"', **policy)


def _azure_put(cloud: LockingCloud, asked: Asked, key: str) -> web.Response:
    if asked.query.get("comp") == "block":
        cloud.parts[f"{key} {asked.query['blockid']}"] = asked.body
        return _azure(201)
    if asked.headers.get("If-None-Match") == "*" and cloud.current(key) is not None:
        return _azure(409, code="BlobAlreadyExists")
    data = asked.body
    if asked.query.get("comp") == "blocklist":
        names = [each.text for each in ElementTree.fromstring(asked.body)]
        data = b"".join(cloud.parts[f"{key} {name}"] for name in names)
    policy = asked.headers.get("x-ms-immutability-policy-until-date")
    if policy and not cloud.locks:
        return _azure(409, code="ImmutabilityPolicyNotSupported")
    cloud.store(key, data, parsedate_to_datetime(policy) if policy else None)
    return _azure(201)


@asynccontextmanager
async def locking_gcs(clock: Clock) -> AsyncIterator[LockingCloud]:
    """The bucket `b` with versioning, and a metadata server that gives tokens."""
    cloud = LockingCloud(clock)

    async def answer(request: web.BaseRequest, asked: Asked) -> web.Response:
        path = asked.path
        if path.startswith("/computeMetadata/"):
            cloud.asked.remove(asked)
            return _json({"access_token": "t", "expires_in": 3599})
        if path == "/storage/v1/b/b":
            return _gcs_bucket(cloud)
        if path == "/storage/v1/b/b/o":
            return _gcs_list(cloud, asked)
        if path.startswith("/upload/storage/v1/b/b/o"):
            return _gcs_upload(cloud, asked)
        return _gcs_object(cloud, asked, path.removeprefix("/storage/v1/b/b/o/"))

    async with _served(cloud, answer) as served:
        yield served


def _json(body: object, status: int = 200, **headers: str) -> web.Response:
    return web.Response(status=status, body=json.dumps(body).encode(), headers=headers)


def _refusal(status: int, reason: str) -> web.Response:
    error = {"code": status, "message": "It is so.", "errors": [{"reason": reason}]}
    return _json({"error": error}, status)


def _gcs_bucket(cloud: LockingCloud) -> web.Response:
    found: dict[str, object] = {"name": "b"}
    if cloud.locks:
        found["objectRetention"] = {"mode": "Enabled"}
    if cloud.default_seconds:
        found["retentionPolicy"] = {"retentionPeriod": str(cloud.default_seconds)}
    return _json(found)


def _gcs_list(cloud: LockingCloud, asked: Asked) -> web.Response:
    prefix, start = asked.query.get("prefix", ""), int(asked.query.get("pageToken") or 0)
    every, size = asked.query.get("versions") == "true", int(asked.query.get("maxResults") or cloud.page)
    found = [each for each in cloud.objects if each.key.startswith(prefix) and (every or each.is_current)]
    shown = sorted(found, key=lambda each: each.key)[start : start + size]
    page: dict[str, object] = {
        "kind": "storage#objects",
        "items": [{"name": each.key, "generation": each.version} for each in shown],
    }
    if "delimiter" in asked.query:
        rests = [each.key.removeprefix(prefix) for each in found]
        page["prefixes"] = sorted({f"{prefix}{rest.split('/')[0]}/" for rest in rests if "/" in rest})
        page["items"] = []
    elif start + size < len(found):
        page["nextPageToken"] = str(start + size)
    return _json(page)


def _gcs_resource(found: StoredVersion) -> dict[str, object]:
    resource: dict[str, object] = {"name": found.key, "size": str(len(found.data)), "etag": "e"}
    if found.until is not None:
        until = found.until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        resource["retention"] = {"mode": "Unlocked", "retainUntilTime": until}
    return resource


def _gcs_object(cloud: LockingCloud, asked: Asked, key: str) -> web.Response:
    generation = asked.query.get("generation", "")
    found = cloud.version(key, generation)
    if found is None:
        return _refusal(404, "notFound")
    if asked.method == "DELETE":
        if generation and cloud.is_held(found):
            return _refusal(403, "retentionPolicyNotMet")
        if generation:
            cloud.objects.remove(found)
        else:
            found.is_current = False
        return web.Response(status=204)
    if asked.query.get("alt") == "media":
        return web.Response(body=found.data, headers={"ETag": "e"})
    return _json(_gcs_resource(found))


def _gcs_upload(cloud: LockingCloud, asked: Asked) -> web.Response:
    key, kind = asked.query["name"], asked.query["uploadType"]
    if kind == "resumable" and asked.method == "POST":
        until = _until(asked.json) if asked.body else None
        session = f"s{len(cloud.sessions)}"
        cloud.sessions[session] = key, until
        location = f"{cloud.url}/upload/storage/v1/b/b/o?uploadType=resumable&name=x&upload_id={session}"
        return web.Response(headers={"Location": location})
    if kind == "resumable":
        session = asked.query["upload_id"]
        key, until = cloud.sessions[session]
        data = cloud.parts[session] = cloud.parts.get(session, b"") + asked.body
        if asked.headers["Content-Range"].endswith("/*"):
            return web.Response(status=308, headers={"Range": f"bytes=0-{len(data) - 1}"})
        return _json(_gcs_resource(cloud.store(key, data, until)))
    if asked.query.get("ifGenerationMatch") == "0" and cloud.current(key) is not None:
        return _refusal(412, "conditionNotMet")
    data, until = asked.body, None
    if kind == "multipart":
        metadata, data = related(asked)
        until = _until(metadata)
    return _json(_gcs_resource(cloud.store(key, data, until)))


def _until(metadata: dict[str, dict[str, str]]) -> datetime | None:
    return known_time(metadata.get("retention", {}).get("retainUntilTime", ""))


def related(asked: Asked) -> tuple[dict[str, dict[str, str]], bytes]:
    """The metadata and the content of a multipart/related upload."""
    boundary = asked.headers["Content-Type"].partition("boundary=")[2].encode()
    _, first, second, _ = asked.body.split(b"--" + boundary)
    metadata, content = (re.split(rb"\r\n\r\n", part, maxsplit=1)[1][:-2] for part in (first, second))
    return json.loads(metadata), content


def azure_settings(cloud: LockingCloud) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of a location in the container, and the environment with its key."""
    key = base64.b64encode(b"key").decode()
    config = {"storageAccount": "acc", "storageAccountURI": cloud.url, "storageAccountKeyEnvVar": "KEY"}
    return config, {"KEY": key}


def gcs_settings(cloud: LockingCloud) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of a location in the bucket, and the environment with the metadata server."""
    config = {"serviceAccount": "velero@shop", "storeEndpoint": cloud.url}
    return config, {"GCE_METADATA_HOST": cloud.url.removeprefix("http://")}
