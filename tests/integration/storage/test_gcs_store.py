"""GCS against fake-gcs-server: conformance, faults, tokens, and what uploads leave behind."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from yarl import URL

from hack.cluster.faults import DropResponse, Respond
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.gcs import ACCOUNT, GCSServer
from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.storage.gcs.store import GCSStore
from pinnace.storage.interface import ObjectStore
from pinnace.storage.object_lock import LockMode, Retention
from tests.support.stores.conformance import (
    BrokenBodyError,
    Hanging,
    RangeConformance,
    StoreConformance,
    blocks,
    broken,
    content,
)
from tests.support.stores.http_faults import FalseAnswers, HTTPStoreFaults
from tests.support.stores.opened import HASTY

OpenGCS = Callable[..., GCSStore]
StartProxy = Callable[[GCSServer], Awaitable[FaultProxy]]

BUSY = Respond(503, b'{"error": {"code": 503, "message": "We encountered an internal error."}}')
DENIED = Respond(403, b'{"error": {"code": 403, "message": "tests has no storage.objects.create access."}}')


class TestConformance(RangeConformance, StoreConformance):
    has_conditional_writes = (
        False  # Unlike the real service, the program of the tests checks and writes in two steps.
    )

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


@pytest.fixture
def hasty(gcs: GCSServer, gcs_bucket: str, open_gcs: OpenGCS, proxy: FaultProxy) -> GCSStore:
    """The same with short deadlines."""
    return open_gcs(gcs, gcs_bucket, HASTY, storeEndpoint=proxy.url)


class TestFalseAnswers(FalseAnswers):
    async def test_another_object_than_was_sent(self, through: GCSStore, proxy: FaultProxy) -> None:
        for size, digest in ((b"2", b"nUFBwy1jYw4lr8y4IUsY1w=="), (b"1", b"XrY7u+Ae7tCTyyK7j1rNww==")):
            body = b'{"name": "b", "size": "%s", "md5Hash": "%s"}' % (size, digest)
            rule = proxy.rules.add(Respond(200, body), method="POST")
            with pytest.raises(
                StoreUnavailable, match=r"were sent, but it has 2|is not that of what was sent"
            ):
                await through.put("b", b"x")
            proxy.rules.remove(rule)

    async def test_an_upload_continues_at_the_endpoint_whatever_host_the_answer_names(
        self, store: GCSStore, through: GCSStore, proxy: FaultProxy
    ) -> None:
        """fake-gcs-server names itself; a liar could name a host that collects tokens."""
        await through.put("large", blocks(12))

        assert proxy.count(method="PUT") == 2


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
    async def test_an_object_whose_answer_was_lost_is_left_as_a_whole(
        self, store: GCSStore, through: GCSStore, proxy: FaultProxy, count: int
    ) -> None:
        """The server stores the object, but the answer never arrives and no try succeeds."""
        if count == 1:
            proxy.rules.add(DropResponse(), method="POST")
        else:
            proxy.rules.add(DropResponse(), method="PUT", skip=1)
        with pytest.raises(StoreUnavailable):
            await through.put("unknown", blocks(count))

        assert await content(store, "unknown") == b"".join([block async for block in blocks(count)])

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


class TestFaults(HTTPStoreFaults):
    methods = ("POST", "GET", "DELETE")

    @pytest.fixture
    def busy(self) -> Respond:
        return BUSY

    @pytest.fixture
    def missing(self, gcs: GCSServer, open_gcs: OpenGCS) -> ObjectStore:
        return open_gcs(gcs, "no-such-bucket")

    @pytest.fixture
    def nowhere(self, gcs: GCSServer, open_gcs: OpenGCS) -> ObjectStore:
        return open_gcs(gcs, "any-bucket", storeEndpoint="http://127.0.0.1:1")

    @pytest.fixture
    def by_https(self, gcs_tls: GCSServer, open_gcs: OpenGCS) -> tuple[GCSStore, GCSStore]:
        assert gcs_tls.ca_file is not None
        bucket = f"test-{secrets.token_hex(4)}"
        gcs_tls.create_bucket(bucket)
        return open_gcs(gcs_tls, bucket, caCert=gcs_tls.ca_file.read_text()), open_gcs(gcs_tls, bucket)

    async def test_a_chunk_is_sent_again(self, through: GCSStore, proxy: FaultProxy) -> None:
        proxy.rules.add(BUSY, method="PUT", skip=1, times=1)
        await through.put("large", blocks(20))

        assert await content(through, "large") == b"".join([block async for block in blocks(20)])


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


async def test_a_signed_url_reads_the_object(store: GCSStore) -> None:
    """The server does not check signatures: tests/unit/storage/test_signing_google.py does."""
    await store.put("odd/ü x+y%25&=", b"x" * 1000)
    url = await store.signed_url("odd/ü x+y%25&=", timedelta(minutes=10))

    async with aiohttp.ClientSession() as session, session.get(URL(url, encoded=True)) as answer:
        assert (answer.status, await answer.read()) == (200, b"x" * 1000)
    query = parse_qs(urlsplit(url).query)
    assert query["X-Goog-Expires"] == ["600"]
    assert query["X-Goog-Credential"][0].startswith(f"{ACCOUNT}/")


async def test_the_emulator_keeps_a_retention_and_does_not_enforce_it(store: GCSStore) -> None:
    """Its bucket has no object lock, so a location is refused; the requests are read as they are meant."""
    lock = await store.bucket_lock()
    assert (lock.is_enabled, "has no object lock" in lock.reason) == (False, True)
    await store.put("locks/free", b"data")
    retention = Retention(mode=LockMode.GOVERNANCE, until=datetime(2099, 1, 1, tzinfo=UTC))
    await store.put_locked("locks/held", b"data", retention)
    await store.put_locked("locks/large", blocks(12), retention)

    versions = await store.versions("locks/")
    ends = {each.key: await store.held_until(each) for each in versions}
    for each in versions:
        await store.delete_version(each)
        await store.delete_version(each)

    assert ends == {"locks/free": None, "locks/held": retention.until, "locks/large": retention.until}
    assert await store.versions("locks/") == []
