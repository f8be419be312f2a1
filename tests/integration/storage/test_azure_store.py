"""Azure Blob against azurite: conformance, faults, signed URLs, unfinished uploads."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from hack.cluster.faults import DropResponse, Respond
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.azure_blob import AzureBlobServer
from pinnace.clouds.aws.signing import quote_query
from pinnace.storage.azure import requests
from pinnace.storage.azure.store import AzureStore
from pinnace.storage.errors import StorageError, StoreUnavailable
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

OpenAzure = Callable[..., AzureStore]
StartProxy = Callable[[AzureBlobServer], Awaitable[FaultProxy]]

BUSY = Respond(503, b"<Error><Code>ServerBusy</Code><Message>Busy.\nRequestId:1\nTime:2</Message></Error>")
SMALL_BLOCKS = {"blockSizeInBytes": str(1 << 20)}


class TestConformance(RangeConformance, StoreConformance):
    more_than_a_page = 103

    @pytest.fixture(autouse=True)
    def pages_of_forty(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Azure's own pages have 5000 names, which would take azurite minutes to store."""

        def quote(params: dict[str, str]) -> str:
            listing = params.get("comp") == "list"
            return quote_query({**params, "maxresults": "40"} if listing else params)

        monkeypatch.setattr(requests, "quote_query", quote)

    @pytest.fixture
    def store(self, azure: AzureBlobServer, azure_container: str, open_azure: OpenAzure) -> ObjectStore:
        return open_azure(azure, azure_container)

    @pytest.fixture
    def missing(self, azure: AzureBlobServer, open_azure: OpenAzure) -> ObjectStore:
        return open_azure(azure, "no-such-container")


@pytest.fixture
def store(azure: AzureBlobServer, azure_container: str, open_azure: OpenAzure) -> AzureStore:
    return open_azure(azure, azure_container)


@pytest.fixture
async def proxy(azure: AzureBlobServer, fault_proxy: StartProxy) -> FaultProxy:
    return await fault_proxy(azure)


@pytest.fixture
def through(
    azure: AzureBlobServer, azure_container: str, open_azure: OpenAzure, proxy: FaultProxy
) -> AzureStore:
    """The same container through a proxy, with small blocks."""
    return open_azure(azure, azure_container, storageAccountURI=f"{proxy.url}/tests", **SMALL_BLOCKS)


@pytest.fixture
def hasty(
    azure: AzureBlobServer, azure_container: str, open_azure: OpenAzure, proxy: FaultProxy
) -> AzureStore:
    """The same with short deadlines."""
    url = f"{proxy.url}/tests"
    return open_azure(azure, azure_container, HASTY, storageAccountURI=url, **SMALL_BLOCKS)


class TestFalseAnswers(FalseAnswers):
    async def test_another_sum_than_that_of_what_was_sent(
        self, through: AzureStore, proxy: FaultProxy
    ) -> None:
        headers = {"x-ms-request-id": "1", "Content-MD5": "XrY7u+Ae7tCTyyK7j1rNww=="}
        proxy.rules.add(Respond(201, b"", headers), method="PUT")
        for body in (b"x", blocks(3)):
            with pytest.raises(StoreUnavailable, match="is not that of what was sent"):
                await through.put("b", body)

    async def test_a_block_that_was_dropped(
        self, store: AzureStore, through: AzureStore, proxy: FaultProxy
    ) -> None:
        proxy.rules.add(Respond(201, b"", {"x-ms-request-id": "1"}), query={"comp": "block$"}, times=1)
        with pytest.raises(StorageError, match="cannot write 'b'"):
            await through.put("b", blocks(3))

        assert not await store.exists("b")


class TestUploads:
    async def test_blocks_that_were_not_listed_do_no_harm(
        self, azure: AzureBlobServer, azure_container: str, open_azure: OpenAzure
    ) -> None:
        store = open_azure(azure, azure_container, **SMALL_BLOCKS)
        with pytest.raises(BrokenBodyError):
            await store.put("large", broken(5))
        body = Hanging(5)
        putting = asyncio.create_task(store.put("large", body))
        await body.reached.wait()
        putting.cancel()
        await asyncio.wait({putting})
        assert not await store.exists("large")
        await store.put("large", blocks(3))

        assert await content(store, "large") == b"".join([block async for block in blocks(3)])

    async def test_two_uploads_at_once_do_not_mix(
        self, azure: AzureBlobServer, azure_container: str, open_azure: OpenAzure
    ) -> None:
        store = open_azure(azure, azure_container, **SMALL_BLOCKS)
        outcomes = await asyncio.gather(
            store.put("same", blocks(4)), store.put("same", blocks(6)), return_exceptions=True
        )

        # The service drops the blocks of the other when one is complete; then that one is refused.
        assert None in outcomes
        found = await content(store, "same")
        assert found in [b"".join([block async for block in blocks(count)]) for count in (4, 6)]

    @pytest.mark.parametrize("count", [0, 5], ids=["whole", "in blocks"])
    async def test_a_blob_whose_answer_was_lost_is_left_as_a_whole(
        self, store: AzureStore, through: AzureStore, proxy: FaultProxy, count: int
    ) -> None:
        """The server stores the blob, but the answer never arrives and no try succeeds."""
        query = {"comp": "blocklist"} if count else None
        proxy.rules.add(DropResponse(), method="PUT", query=query)
        with pytest.raises(StoreUnavailable):
            await through.put("unknown", blocks(count))

        assert await content(store, "unknown") == b"".join([block async for block in blocks(count)])

    async def test_a_refused_block_ends_the_put(
        self, store: AzureStore, through: AzureStore, proxy: FaultProxy
    ) -> None:
        denied = (
            b"<Error><Code>AuthorizationFailure</Code><Message>Not authorized.\nRequestId:1</Message></Error>"
        )
        proxy.rules.add(Respond(403, denied), method="PUT", query={"comp": "block"})
        with pytest.raises(
            StorageError, match=r"cannot write 'large': Not authorized. \(AuthorizationFailure\)$"
        ):
            await through.put("large", blocks(5))

        assert not await store.exists("large")


class TestFaults(HTTPStoreFaults):
    methods = ("PUT", "HEAD", "GET", "DELETE")

    @pytest.fixture
    def busy(self) -> Respond:
        return BUSY

    @pytest.fixture
    def missing(self, azure: AzureBlobServer, open_azure: OpenAzure) -> ObjectStore:
        return open_azure(azure, "no-such-container")

    @pytest.fixture
    def nowhere(self, azure: AzureBlobServer, open_azure: OpenAzure) -> ObjectStore:
        return open_azure(azure, "any-container", storageAccountURI="http://127.0.0.1:1/tests")

    @pytest.fixture
    def by_https(self, azure_tls: AzureBlobServer, open_azure: OpenAzure) -> tuple[AzureStore, AzureStore]:
        assert azure_tls.ca_file is not None
        container = f"test-{secrets.token_hex(4)}"
        azure_tls.create_container(container)
        trusting = open_azure(azure_tls, container, caCert=azure_tls.ca_file.read_text())
        return trusting, open_azure(azure_tls, container)

    async def test_a_wrong_key_is_said_without_telling_it(
        self, azure: AzureBlobServer, azure_container: str, open_azure: OpenAzure, tmp_path: Path
    ) -> None:
        wrong = tmp_path / "wrong"
        wrong.write_text("KEY=d3Jvbmctc2VjcmV0\n")
        store = open_azure(azure, azure_container, credentialsFile=str(wrong), storageAccountKeyEnvVar="KEY")
        for call in (store.put("a", b"x"), store.list_keys(""), store.delete("a"), content(store, "a")):
            with pytest.raises(StorageError, match="AuthorizationFailure") as caught:
                await call
            assert "\n" not in str(caught.value)
            assert "d3Jvbmct" not in str(caught.value)


class TestSignedURLs:
    @pytest.mark.parametrize("key", ["backups/b1/b1.tar.gz", "odd/ü x+y%25&=?#~"])
    async def test_read_without_credentials(self, store: AzureStore, key: str) -> None:
        await store.put(key, b"x" * 1000)
        url = await store.signed_url(key, timedelta(minutes=10))

        async with aiohttp.ClientSession() as session:
            async with session.get(URL(url, encoded=True)) as answer:
                assert (answer.status, await answer.read()) == (200, b"x" * 1000)
            async with session.delete(URL(url, encoded=True)) as answer:
                assert answer.status == 403
            async with session.get(URL(url.replace("sp=r", "sp=rw"), encoded=True)) as answer:
                assert answer.status == 403

    async def test_end_when_they_expire(self, store: AzureStore) -> None:
        await store.put("a", b"x")
        url = await store.signed_url("a", timedelta(seconds=-5))

        async with aiohttp.ClientSession() as session, session.get(URL(url, encoded=True)) as answer:
            assert answer.status == 403


async def test_the_emulator_holds_nothing_and_is_refused_for_object_lock(store: AzureStore) -> None:
    """Its listing of versions and its deletions are as documented all the same."""
    lock = await store.bucket_lock()
    assert (lock.is_enabled, "has no object lock" in lock.reason) == (False, True)
    await store.put("locks/k", b"data")
    [version] = await store.versions("locks/")
    assert version.key == "locks/k"
    assert await store.held_until(version) is None

    await store.delete_version(version)

    assert await store.versions("locks/") == []
    await store.delete_version(version)
    retention = Retention(mode=LockMode.GOVERNANCE, until=datetime(2099, 1, 1, tzinfo=UTC))
    with pytest.raises(StorageError):
        await store.put_locked("locks/held", b"data", retention)
