"""GCS against fake-gcs-server: conformance, certificates, tokens, faults, and what uploads leave behind."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from yarl import URL

from hack.cluster.faults import CutBeforeRequest, CutBody, DropResponse, Respond
from hack.cluster.gcs import ACCOUNT, GCSServer
from hack.cluster.proxy import FaultProxy
from pinnace.storage.errors import StorageError, StoreConfigError, StoreUnavailable
from pinnace.storage.gcs import GCSStore
from pinnace.storage.interface import ObjectStore
from tests.support.store_conformance import (
    BrokenBodyError,
    Hanging,
    StoreConformance,
    blocks,
    broken,
    content,
)

OpenGCS = Callable[..., GCSStore]
StartProxy = Callable[[GCSServer], Awaitable[FaultProxy]]

BUSY = Respond(503, b'{"error": {"code": 503, "message": "We encountered an internal error."}}')
DENIED = Respond(403, b'{"error": {"code": 403, "message": "tests has no storage.objects.create access."}}')


class TestConformance(StoreConformance):
    @pytest.fixture
    def store(self, gcs: GCSServer, gcs_bucket: str, open_gcs: OpenGCS) -> ObjectStore:
        return open_gcs(gcs, gcs_bucket)

    @pytest.fixture
    def missing(self, gcs: GCSServer, open_gcs: OpenGCS) -> ObjectStore:
        return open_gcs(gcs, "no-such-bucket")


@pytest.fixture
def store(gcs: GCSServer, gcs_bucket: str, open_gcs: OpenGCS) -> GCSStore:
    return open_gcs(gcs, gcs_bucket)


@pytest.fixture
async def proxy(gcs: GCSServer, fault_proxy: StartProxy) -> FaultProxy:
    return await fault_proxy(gcs)


@pytest.fixture
def through(gcs: GCSServer, gcs_bucket: str, open_gcs: OpenGCS, proxy: FaultProxy) -> GCSStore:
    """The same bucket through a proxy."""
    return open_gcs(gcs, gcs_bucket, storeEndpoint=proxy.url)


class TestUploads:
    async def test_a_body_that_fails_deletes_its_upload(self, through: GCSStore, proxy: FaultProxy) -> None:
        with pytest.raises(BrokenBodyError):
            await through.put("large", broken(20))

        last = proxy.exchanges[-1]
        assert last.head.method == "DELETE"
        assert last.head.query["uploadType"] == "resumable"

    async def test_a_cancelled_put_deletes_its_upload(self, through: GCSStore, proxy: FaultProxy) -> None:
        body = Hanging(20)
        putting = asyncio.create_task(through.put("large", body))
        await body.reached.wait()
        putting.cancel()
        await asyncio.wait({putting})

        assert putting.cancelled()
        resumable = [each for each in proxy.exchanges if each.head.query.get("uploadType") == "resumable"]
        assert resumable[-1].head.method == "DELETE"

    @pytest.mark.parametrize("count", [1, 12], ids=["whole", "in chunks"])
    async def test_an_unknown_outcome_is_undone(
        self, store: GCSStore, through: GCSStore, proxy: FaultProxy, count: int
    ) -> None:
        """The server stores the object, but the answer never arrives and no try succeeds."""
        if count == 1:
            proxy.rules.add(DropResponse(), method="POST")
        else:
            proxy.rules.add(DropResponse(), method="PUT", skip=1)
        with pytest.raises(StoreUnavailable):
            await through.put("unknown", blocks(count))

        assert await store.list_keys("") == []

    async def test_a_refused_chunk_ends_the_put(
        self, store: GCSStore, through: GCSStore, proxy: FaultProxy
    ) -> None:
        proxy.rules.add(DENIED, method="PUT")
        with pytest.raises(StorageError, match=r"cannot write 'large': tests has no storage.objects.create"):
            await through.put("large", blocks(20))

        assert not await store.exists("large")

    async def test_asks_for_encryption(
        self, gcs: GCSServer, gcs_bucket: str, open_gcs: OpenGCS, proxy: FaultProxy
    ) -> None:
        name = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
        store = open_gcs(gcs, gcs_bucket, storeEndpoint=proxy.url, kmsKeyName=name)
        await store.put("small", b"x")
        await store.put("large", blocks(9))

        begun = [each for each in proxy.exchanges if each.head.method == "POST"]
        assert [each.head.query["kmsKeyName"] for each in begun] == [name, name]


class TestFaults:
    async def test_transient_faults_are_tried_again(self, through: GCSStore, proxy: FaultProxy) -> None:
        for fault in (BUSY, CutBeforeRequest()):
            for method in ("POST", "GET", "DELETE"):
                proxy.rules.add(fault, method=method, times=1)
            await through.put("a/b", b"x")
            assert await through.exists("a/b")
            proxy.rules.add(fault, method="GET", path="/o/a/b", times=1)
            assert await content(through, "a/b") == b"x"
            assert await through.list_keys("a/") == ["a/b"]
            await through.delete("a/b")

    async def test_a_chunk_is_sent_again(self, through: GCSStore, proxy: FaultProxy) -> None:
        proxy.rules.add(BUSY, method="PUT", skip=1, times=1)
        await through.put("large", blocks(20))

        assert await content(through, "large") == b"".join([block async for block in blocks(20)])

    async def test_lasting_faults_end(self, through: GCSStore, proxy: FaultProxy) -> None:
        proxy.rules.add(BUSY)
        calls: list[Awaitable[object]] = [
            through.put("a", b"x"),
            through.exists("a"),
            content(through, "a"),
            through.list_keys(""),
            through.delete("a"),
        ]
        for call in calls:
            with pytest.raises(StoreUnavailable, match="internal error"):
                await call

    async def test_an_interrupted_download_goes_on(
        self, store: GCSStore, through: GCSStore, proxy: FaultProxy
    ) -> None:
        await store.put("large", blocks(4))
        proxy.rules.add(CutBody(after_bytes=1 << 20), method="GET", times=2)

        assert await content(through, "large") == b"".join([block async for block in blocks(4)])
        assert [exchange.status for exchange in proxy.exchanges] == [200, 206, 206]

    async def test_a_missing_bucket(self, gcs: GCSServer, open_gcs: OpenGCS) -> None:
        store = open_gcs(gcs, "no-such-bucket")
        for call in (store.put("a", b"x"), store.list_keys(""), store.delete("a"), content(store, "a")):
            with pytest.raises(StoreConfigError):
                await call

    async def test_nobody_listens(self, gcs: GCSServer, gcs_bucket: str, open_gcs: OpenGCS) -> None:
        store = open_gcs(gcs, gcs_bucket, storeEndpoint="http://127.0.0.1:1")
        for call in (store.put("a", b"x"), store.list_keys(""), content(store, "a")):
            with pytest.raises(StoreUnavailable, match=r"http://127.0.0.1:1"):
                await call


class TestTokens:
    async def test_one_token_serves_many_requests(
        self, gcs: GCSServer, through: GCSStore, proxy: FaultProxy
    ) -> None:
        before = gcs.tokens_given
        await through.put("a", b"x")
        await through.list_keys("")
        await content(through, "a")

        assert gcs.tokens_given == before + 1
        sent = {exchange.headers["Authorization"] for exchange in proxy.exchanges}
        assert len(sent) == 1
        assert sent.pop().startswith("Bearer ")


class TestCertificates:
    async def test_an_own_authority(self, gcs_tls: GCSServer, open_gcs: OpenGCS) -> None:
        assert gcs_tls.authority is not None
        bucket = f"test-{secrets.token_hex(4)}"
        gcs_tls.create_bucket(bucket)
        trusting = open_gcs(gcs_tls, bucket, caCert=gcs_tls.authority.certificate.read_text())
        await trusting.put("a/b", b"x")
        assert await content(trusting, "a/b") == b"x"

        store = open_gcs(gcs_tls, bucket)
        for call in (store.put("a", b"x"), store.list_keys(""), content(store, "a/b")):
            with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
                await call


async def test_a_signed_url_reads_the_object(store: GCSStore) -> None:
    """The server does not check signatures: tests/unit/storage/test_signing_google.py does."""
    await store.put("odd/ü x+y%25&=", b"x" * 1000)
    url = await store.signed_url("odd/ü x+y%25&=", timedelta(minutes=10))

    async with aiohttp.ClientSession() as session, session.get(URL(url, encoded=True)) as answer:
        assert (answer.status, await answer.read()) == (200, b"x" * 1000)
    query = parse_qs(urlsplit(url).query)
    assert query["X-Goog-Expires"] == ["600"]
    assert query["X-Goog-Credential"][0].startswith(f"{ACCOUNT}/")
