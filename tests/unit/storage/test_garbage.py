"""A store that was opened, used and closed is freed at once, not by the garbage collector.

A server opens locations as long as it lives, and its collector runs seldom while engines work. Each store
that waited for it held half a megabyte of certificates, which Python does not see and so does not count.
"""

import base64
import gc
import hashlib
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from hack.cluster.pki import CertificateAuthority
from pinnace.clouds.tokens import Token
from pinnace.storage.azure.config import parse_azure_config
from pinnace.storage.azure.store import AzureStore
from pinnace.storage.gcs import store as gcs_store
from pinnace.storage.gcs.config import parse_gcs_config
from pinnace.storage.gcs.store import GCSStore
from pinnace.storage.interface import ObjectStore, read_all
from pinnace.storage.s3.config import parse_s3_config
from pinnace.storage.s3.store import S3Store
from pinnace.store_access.requests import tls_context
from tests.support.tasks import settled

Open = Callable[[str, str, Path], ObjectStore]
OPENINGS = 3
LIST = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
BLOBS = b"<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>"


async def answer(request: web.BaseRequest) -> web.Response:
    """Enough of all three services for one small object."""
    body = await request.content.read()
    digest = hashlib.md5(body, usedforsecurity=False)
    headers = {"ETag": f'"{digest.hexdigest()}"', "x-ms-request-id": "1"}
    if request.method in ("PUT", "POST") and "/storage/v1/" not in request.path:
        return web.Response(status=201 if request.path.startswith("/account") else 200, headers=headers)
    if request.method == "POST":
        md5 = base64.b64encode(digest.digest()).decode()
        return web.json_response({"name": "a", "size": str(len(body)), "md5Hash": md5})
    if request.method == "HEAD":
        return web.Response(headers={**headers, "Content-Length": "3"})
    if request.query.get("comp") == "list":
        return web.Response(body=BLOBS, headers=headers)
    if request.query.get("list-type"):
        return web.Response(body=LIST)
    if request.path.endswith("/o"):
        return web.json_response({"kind": "storage#objects", "items": [{"name": "a"}]})
    return web.Response(body=b"abc", headers=headers)


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    """The services by https, and their authority in `ca.pem`."""
    authority = CertificateAuthority(tmp_path / "pki", name="Test CA")
    pair = authority.issue_server("server", addresses=("127.0.0.1",), names=("localhost",))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    (tmp_path / "ca.pem").write_bytes(authority.certificate.read_bytes())
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def s3(url: str, ca_cert: str, folder: Path) -> ObjectStore:
    config = parse_s3_config({"bucket": "b", "s3Url": url, "caCert": ca_cert})
    return S3Store(config, environ={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})


def azure(url: str, ca_cert: str, folder: Path) -> ObjectStore:
    settings = {"bucket": "b", "storageAccount": "account", "storageAccountURI": f"{url}/account"}
    config = parse_azure_config({**settings, "storageAccountKeyEnvVar": "KEY", "caCert": ca_cert})
    return AzureStore(config, environ={"KEY": "a2V5"})


def gcs(url: str, ca_cert: str, folder: Path) -> ObjectStore:
    key = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    (folder / "key.json").write_text(json.dumps(key))
    settings = {"bucket": "b", "storeEndpoint": url, "serviceAccount": "a@b", "caCert": ca_cert}
    config = parse_gcs_config({**settings, "credentialsFile": str(folder / "key.json")})
    return GCSStore(config, environ={})


async def use(store: ObjectStore) -> None:
    try:
        await store.list_prefixes("")
        assert await read_all(store, "a", limit_bytes=10) == b"abc"
        await store.exists("a")
        await store.put("a", b"abc")
    finally:
        await store.close()


@pytest.mark.parametrize("open_store", [s3, azure, gcs], ids=["s3", "azure", "gcs"])
async def test_a_closed_store_leaves_no_garbage(
    url: str, tmp_path: Path, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def token(*_: object, **__: object) -> Token:
        return Token(value="t", expires_at=datetime.now(UTC) + timedelta(hours=1))

    monkeypatch.setattr(gcs_store, "fetch_google_token", token)
    await assert_no_garbage(lambda: use(open_store(url, (tmp_path / "ca.pem").read_text(), tmp_path)))


async def assert_no_garbage(work: Callable[[], Awaitable[None]]) -> None:
    """Nothing is left of several rounds but what asyncio itself leaves of a connection, which is small."""
    await work()
    await settled()
    gc.collect()
    gc.freeze()  # what other tests have left is not looked through again
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(OPENINGS):
            await work()
        await settled()
        gc.collect()
        found = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    others = {
        name: count
        for name, count in found.items()
        if name.startswith(("pinnace.", "aiohttp.", "ssl.", "_ssl.", "asyncio.sslproto"))
    }
    assert others == {}


def test_equal_certificates_are_kept_once(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path / "pki", name="Test CA")
    text = authority.certificate.read_text()

    assert tls_context() is tls_context()
    assert tls_context(text, insecure=False) is tls_context(text, insecure=False)
    assert tls_context(text, insecure=True) is not tls_context(text, insecure=False)
