"""S3 against a real server: conformance, certificates, signed URLs, faults, and what uploads leave behind."""

import asyncio
import hashlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import aiohttp
import pytest
from yarl import URL

from hack.cluster.faults import CutBeforeRequest, CutBody, DropResponse, Respond, Stall
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.clouds.aws.credentials import AccessKey
from pinnace.clouds.aws.signing import Signer, signed_headers
from pinnace.storage.errors import (
    ObjectNotFound,
    StorageError,
    StoreConfigError,
    StoreUnavailable,
)
from pinnace.storage.interface import ObjectStore
from pinnace.store_access.requests import RequestPolicy
from tests.support.stores.conformance import (
    BrokenBodyError,
    Hanging,
    RangeConformance,
    StoreConformance,
    blocks,
    broken,
    content,
)
from tests.support.stores.http_faults import FalseAnswers
from tests.support.stores.opened import HASTY, OpenStore
from tests.support.waiting import PATIENCE_SECONDS

StartProxy = Callable[[S3Server], Awaitable[FaultProxy]]

SLOW_DOWN = Respond(503, b"<Error><Code>SlowDown</Code><Message>Please reduce your rate.</Message></Error>")
DENIED = Respond(403, b"<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>")


class TestConformance(RangeConformance, StoreConformance):
    @pytest.fixture
    def store(self, bucket: Bucket, open_store: OpenStore) -> ObjectStore:
        return open_store(bucket)

    @pytest.fixture
    def missing(self, s3: S3Server, open_store: OpenStore) -> ObjectStore:
        return open_store(Bucket("no-such-bucket", s3))


@pytest.fixture
def store(bucket: Bucket, open_store: OpenStore) -> ObjectStore:
    return open_store(bucket)


@pytest.fixture
async def proxy(s3: S3Server, fault_proxy: StartProxy) -> FaultProxy:
    return await fault_proxy(s3)


@pytest.fixture
def through(bucket: Bucket, open_store: OpenStore, proxy: FaultProxy) -> ObjectStore:
    """The same bucket through a proxy."""
    return open_store(bucket, s3Url=proxy.url)


@pytest.fixture
def hasty(bucket: Bucket, open_store: OpenStore, proxy: FaultProxy) -> ObjectStore:
    """The same with short deadlines."""
    return open_store(bucket, HASTY, s3Url=proxy.url)


def etag_of(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


COMPLETED = b"<CompleteMultipartUploadResult><ETag>&quot;x-3&quot;</ETag></CompleteMultipartUploadResult>"


class TestFalseAnswers(FalseAnswers):
    @pytest.mark.parametrize("count", [1, 12], ids=["whole", "in parts"])
    async def test_the_etag_of_something_else(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy, count: int
    ) -> None:
        proxy.rules.add(Respond(200, b"", {"ETag": etag_of(b"else")}), method="PUT")
        with pytest.raises(StoreUnavailable, match="is not that of what was sent"):
            await through.put("b", blocks(count))

        assert not await store.exists("b")

    async def test_an_object_that_is_not_kept_although_its_sum_is_known(
        self, through: ObjectStore, proxy: FaultProxy
    ) -> None:
        """Encrypted with a key of another service, an object has no sum that could prove anything."""
        for headers in (
            {"ETag": etag_of(b"else"), "x-amz-server-side-encryption": "aws:kms"},
            {"ETag": '"0x8D4BCC2E4835CD0"'},
        ):
            rule = proxy.rules.add(Respond(200, b"", headers), method="PUT")
            with pytest.raises(StoreUnavailable, match="said it has it, but it is not there"):
                await through.put("b", b"x")
            proxy.rules.remove(rule)

    async def test_an_encrypted_object_is_believed_by_its_size(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy
    ) -> None:
        await store.put("b", b"x")
        headers = {"ETag": etag_of(b"else"), "x-amz-server-side-encryption": "aws:kms"}
        proxy.rules.add(Respond(200, b"", headers), method="PUT")
        await through.put("b", b"x")
        with pytest.raises(StoreUnavailable, match="2 bytes were sent, but the store has 1"):
            await through.put("b", b"xx")

    async def test_a_part_that_was_dropped(
        self, bucket: Bucket, store: ObjectStore, through: ObjectStore, proxy: FaultProxy
    ) -> None:
        part = b"".join([block async for block in blocks(10)])[5 << 20 :]
        proxy.rules.add(Respond(200, b"", {"ETag": etag_of(part)}), method="PUT", query={"partNumber": "^2$"})
        with pytest.raises(StorageError, match=r"cannot write 'b': .*\(InvalidPart\)"):
            await through.put("b", blocks(12))

        assert not await store.exists("b")
        assert await unfinished_uploads(bucket) == 0

    async def test_a_completion_that_never_was(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy
    ) -> None:
        proxy.rules.add(Respond(200, COMPLETED), method="POST", query={"uploadId": "."})
        with pytest.raises(StoreUnavailable, match="said it has it, but it is not there"):
            await through.put("b", blocks(12))

        assert not await store.exists("b")

    async def test_a_list_of_something_else(
        self, store: ObjectStore, through: ObjectStore, proxy: FaultProxy
    ) -> None:
        """What is listed below a backup is deleted with it."""
        page = (
            b"<ListBucketResult><IsTruncated>false</IsTruncated>"
            b"<Contents><Key>backups/b2/velero-backup.json</Key></Contents></ListBucketResult>"
        )
        proxy.rules.add(Respond(200, page), method="GET")
        with pytest.raises(StoreUnavailable, match="names that do not begin with 'backups/b1/'"):
            await through.list_keys("backups/b1/")


Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handle: Handle) -> AsyncIterator[str]:
    """The URL of a server with little room for what it does not read; its connections end with the block."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handle(reader, writer)
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            return  # the end of the test, or of the client
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)  # the transport closes itself in the next turn

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    async with await asyncio.start_server(connected, sock=listener, limit=1 << 16) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class TestDeadlines:
    async def test_an_upload_whose_bytes_do_not_move_is_given_up(
        self, bucket: Bucket, open_store: OpenStore
    ) -> None:
        """The server reads the beginning of each request and nothing more, so that buffers are full."""

        async def read_little(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.Event().wait()

        async with serving(read_little) as url, asyncio.timeout(PATIENCE_SECONDS):
            store = open_store(bucket, HASTY, s3Url=url)
            for body in (blocks(4), blocks(30)):
                with pytest.raises(StoreUnavailable, match="no answer in time"):
                    await store.put("b", body)

    async def test_an_upload_that_is_slow_but_moves_is_not(
        self, bucket: Bucket, open_store: OpenStore
    ) -> None:
        """It takes longer than the longest silence, but some bytes move all the time."""
        policy = RequestPolicy(attempts=1, silence_seconds=2.0)
        size_bytes, received = 4 << 20, bytearray()

        async def read_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            while len(received) < size_bytes:
                received.extend(await reader.read(1 << 16))
                await asyncio.sleep(0.05)
            etag = etag_of(bytes(received))
            writer.write(f"HTTP/1.1 200 OK\r\nETag: {etag}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            await reader.read()

        async with serving(read_slowly) as url:
            store = open_store(bucket, policy, s3Url=url)
            started = time.monotonic()
            await store.put("b", blocks(4))

        assert len(received) == size_bytes
        assert time.monotonic() - started > policy.silence_seconds


async def signed_request(method: str, url: str, server: S3Server, data: bytes = b"") -> bytes:
    """Send a request that our store never makes; return the answer."""
    credentials = AccessKey(
        access_key_id=server.credentials.access_key_id, secret_access_key=server.credentials.secret_access_key
    )
    headers = signed_headers(
        method, url, Signer(region=server.region, credentials=credentials), now=SYSTEM_CLOCK.now()
    )
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, headers=headers) as answer,
    ):
        answer.raise_for_status()
        return await answer.read()


async def unfinished_uploads(bucket: Bucket) -> int:
    body = await signed_request("GET", f"{bucket.server.url}/{bucket.name}?uploads=", bucket.server)
    return len([element for element in ElementTree.fromstring(body) if element.tag.endswith("Upload")])


class TestUploads:
    async def test_a_body_that_fails_leaves_no_unfinished_upload(
        self, bucket: Bucket, store: ObjectStore
    ) -> None:
        with pytest.raises(BrokenBodyError):
            await store.put("large", broken(30))

        assert await unfinished_uploads(bucket) == 0

    async def test_a_cancelled_put_leaves_no_unfinished_upload(
        self, bucket: Bucket, store: ObjectStore
    ) -> None:
        body = Hanging(30)
        putting = asyncio.create_task(store.put("large", body))
        await body.reached.wait()
        assert await unfinished_uploads(bucket) == 1
        putting.cancel()
        await asyncio.wait({putting})

        assert putting.cancelled()
        assert await unfinished_uploads(bucket) == 0

    async def test_a_refused_part_ends_the_put_and_the_upload(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy
    ) -> None:
        proxy = await fault_proxy(s3)
        proxy.rules.add(DENIED, method="PUT")
        store = open_store(bucket, s3Url=proxy.url)
        with pytest.raises(StorageError, match=r"cannot write 'large': Access Denied. \(AccessDenied\)"):
            await store.put("large", blocks(60))

        assert await unfinished_uploads(bucket) == 0
        assert not await store.exists("large")

    @pytest.mark.parametrize("count", [1, 12], ids=["whole", "in parts"])
    async def test_an_object_whose_answer_was_lost_is_left_as_a_whole(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy, count: int
    ) -> None:
        """The server stores the object, but the answer never arrives and no try succeeds."""
        proxy = await fault_proxy(s3)
        store = open_store(bucket, s3Url=proxy.url)
        proxy.rules.add(DropResponse(), method="PUT", query=None if count == 1 else {"none": "."})
        proxy.rules.add(DropResponse(), method="POST", query={"uploadId": "."})
        with pytest.raises(StoreUnavailable):
            await store.put("unknown", blocks(count))

        expected = b"".join([block async for block in blocks(count)])
        assert await content(open_store(bucket), "unknown") == expected

    async def test_a_put_that_is_cancelled_after_the_object_is_there_leaves_it(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy
    ) -> None:
        proxy = await fault_proxy(s3)
        rule = proxy.rules.add(Stall(after_bytes=0), method="POST", query={"uploadId": "."})
        store, direct = open_store(bucket, s3Url=proxy.url), open_store(bucket)
        putting = asyncio.create_task(store.put("late", blocks(12)))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await direct.exists("late"):
                await rule.struck()
        putting.cancel()
        rule.release()
        await asyncio.wait({putting})

        assert putting.cancelled()
        assert await direct.exists("late")

    async def test_a_cancelled_put_waits_for_a_server_that_acts_late(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy
    ) -> None:
        """Otherwise the server could store the object after the caller has deleted it."""
        proxy = await fault_proxy(s3)
        rule = proxy.rules.add(Stall(), method="PUT")
        store = open_store(bucket, s3Url=proxy.url)
        putting = asyncio.create_task(store.put("late", b"x"))
        await rule.struck()
        putting.cancel()
        await asyncio.sleep(0)
        assert not putting.done()
        rule.release()
        await asyncio.wait({putting})

        assert putting.cancelled()
        assert ("PUT", 200) in [(exchange.head.method, exchange.status) for exchange in proxy.exchanges]

    async def test_asks_for_encryption(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy
    ) -> None:
        proxy = await fault_proxy(s3)
        encrypted = {"ETag": '"x"', "x-amz-server-side-encryption": "aws:kms"}
        proxy.rules.add(Respond(200, b"", encrypted), method="PUT")
        proxy.rules.add(Respond(200, b"", {"ETag": '"x"', "Content-Length": "1"}), method="HEAD")
        store = open_store(bucket, s3Url=proxy.url, kmsKeyId="alias/key", serverSideEncryption="AES256")
        await store.put("secret", b"x")

        headers = proxy.exchanges[0].headers
        assert headers["x-amz-server-side-encryption"] == "aws:kms"
        assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == "alias/key"

    @pytest.mark.found("O28a")
    async def test_objects_get_the_tags_of_the_location(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy
    ) -> None:
        """Of a location as others write it: with settings beside it that change nothing."""
        proxy = await fault_proxy(s3)
        config = {"tagging": "team=a b&stage=test", "checksumAlgorithm": "", "enableSharedConfig": "true"}
        store = open_store(bucket, s3Url=proxy.url, **config)
        await store.put("tagged", b"x")

        async with store.get("tagged") as chunks:
            assert [chunk async for chunk in chunks] == [b"x"]
        assert proxy.exchanges[0].status == 200
        assert proxy.exchanges[0].headers["x-amz-tagging"] == "team=a%20b&stage=test"


class TestListing:
    async def test_foreign_keys_with_doubled_slashes_do_no_harm(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy
    ) -> None:
        page = (
            "<ListBucketResult><IsTruncated>false</IsTruncated>"
            "<CommonPrefixes><Prefix>backups//</Prefix></CommonPrefixes>"
            "<CommonPrefixes><Prefix>backups/b1/</Prefix></CommonPrefixes></ListBucketResult>"
        )
        keys = (
            "<ListBucketResult><IsTruncated>false</IsTruncated>"
            "<Contents><Key>backups/b1/x</Key></Contents><Contents><Key>backups/b1//y</Key></Contents>"
            "</ListBucketResult>"
        )
        proxy = await fault_proxy(s3)
        proxy.rules.add(Respond(200, page.encode()), method="GET", times=1)
        proxy.rules.add(Respond(200, keys.encode()), method="GET")
        store = open_store(bucket, s3Url=proxy.url)

        assert await store.list_prefixes("backups/") == ["backups//", "backups/b1/"]
        assert await store.list_keys("backups/b1/") == ["backups/b1/x", "backups/b1//y"]

    async def test_a_marker_of_a_directory_is_listed_and_deleted(
        self, s3: S3Server, bucket: Bucket, store: ObjectStore
    ) -> None:
        await signed_request("PUT", f"{s3.url}/{bucket.name}/backups/b1/", s3)
        await store.put("backups/b1/x", b"")

        keys = await store.list_keys("backups/b1/")
        assert keys == ["backups/b1/x", "backups/b1/"]
        for key in keys:
            await store.delete(key)
        assert await store.list_prefixes("backups/") == []

    async def test_a_store_that_repeats_a_page_is_an_error(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy
    ) -> None:
        page = (
            b"<ListBucketResult><IsTruncated>true</IsTruncated>"
            b"<NextContinuationToken>t</NextContinuationToken>"
            b"<Contents><Key>a</Key></Contents></ListBucketResult>"
        )
        proxy = await fault_proxy(s3)
        proxy.rules.add(Respond(200, page), method="GET")
        with pytest.raises(StorageError, match="repeats the same page"):
            await open_store(bucket, s3Url=proxy.url).list_keys("")


class TestFaults:
    async def test_transient_faults_are_tried_again(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy
    ) -> None:
        proxy = await fault_proxy(s3)
        store = open_store(bucket, s3Url=proxy.url)
        for fault in (SLOW_DOWN, CutBeforeRequest()):
            for method in ("PUT", "HEAD", "GET", "DELETE"):
                proxy.rules.add(fault, method=method, times=1)
            await store.put("a/b", b"x")
            assert await store.exists("a/b")
            assert await content(store, "a/b") == b"x"
            assert await store.list_keys("a/") == ["a/b"]
            await store.delete("a/b")

    async def test_lasting_faults_end(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy
    ) -> None:
        proxy = await fault_proxy(s3)
        proxy.rules.add(SLOW_DOWN)
        store = open_store(bucket, s3Url=proxy.url)
        calls: list[Awaitable[object]] = [
            store.put("a", b"x"),
            store.exists("a"),
            content(store, "a"),
            store.list_keys(""),
            store.delete("a"),
        ]
        for call in calls:
            with pytest.raises(StoreUnavailable) as caught:
                await call
            assert "\n" not in str(caught.value)

    async def test_an_interrupted_download_is_resumed_or_fails_but_never_short(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy
    ) -> None:
        proxy = await fault_proxy(s3)
        store = open_store(bucket, s3Url=proxy.url)
        await store.put("large", blocks(12))
        proxy.rules.add(CutBody(after_bytes=5 << 20), method="GET", times=1)

        assert await content(store, "large") == b"".join([block async for block in blocks(12)])

    async def test_a_download_that_always_breaks_fails(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore, fault_proxy: StartProxy
    ) -> None:
        proxy = await fault_proxy(s3)
        store = open_store(bucket, s3Url=proxy.url)
        await store.put("large", blocks(2))
        proxy.rules.add(CutBody(after_bytes=100), method="GET")
        with pytest.raises(StoreUnavailable, match="cannot read 'large'"):
            await content(store, "large")

    async def test_a_port_without_listener_is_an_error(self, bucket: Bucket, open_store: OpenStore) -> None:
        store = open_store(bucket, s3Url="http://127.0.0.1:1")
        for call in (store.put("a", b"x"), store.list_keys(""), store.exists("a")):
            with pytest.raises(StoreUnavailable, match=r"(?i)connection refused|connect call failed"):
                await call

    async def test_a_wrong_secret_is_said_without_telling_it(
        self, bucket: Bucket, open_store: OpenStore, tmp_path: Path
    ) -> None:
        wrong = tmp_path / "wrong"
        key_id = bucket.server.credentials.access_key_id
        wrong.write_text(f"[default]\naws_access_key_id={key_id}\naws_secret_access_key=very-wrong\n")
        store = open_store(bucket, credentialsFile=str(wrong))
        for call in (store.put("a", b"x"), store.list_keys(""), store.delete("a"), content(store, "a")):
            with pytest.raises(StorageError, match=r"SignatureDoesNotMatch") as caught:
                await call
            text = str(caught.value)
            assert "very-wrong" not in text
            assert key_id not in text
            assert "\n" not in text

    async def test_a_missing_bucket(self, s3: S3Server, open_store: OpenStore) -> None:
        store = open_store(Bucket("no-such-bucket", s3))
        for call in (store.put("a", b"x"), store.list_keys(""), store.delete("a"), content(store, "a")):
            with pytest.raises(StoreConfigError, match=r"\(NoSuchBucket\)"):
                await call


class TestCertificates:
    async def test_an_own_authority_is_trusted_when_given(
        self, s3_tls: S3Server, tls_bucket: Bucket, open_store: OpenStore
    ) -> None:
        assert s3_tls.ca_file is not None
        store = open_store(tls_bucket, caCert=s3_tls.ca_file.read_text())
        await store.put("a/b", b"x")

        assert await content(store, "a/b") == b"x"
        assert await store.list_keys("") == ["a/b"]
        await store.delete("a/b")
        assert not await store.exists("a/b")

    async def test_an_unknown_authority_is_refused(self, tls_bucket: Bucket, open_store: OpenStore) -> None:
        store = open_store(tls_bucket)
        for call in (store.put("a", b"x"), store.exists("a"), store.list_keys("")):
            with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
                await call

    async def test_verification_can_be_switched_off(self, tls_bucket: Bucket, open_store: OpenStore) -> None:
        store = open_store(tls_bucket, insecureSkipTLSVerify="true")
        await store.put("a", b"x")

        assert await store.list_keys("") == ["a"]


class TestSignedURLs:
    @pytest.mark.parametrize("key", ["backups/b1/b1.tar.gz", "odd/ü x+y%25&=?#~"])
    async def test_read_without_credentials(self, store: ObjectStore, key: str) -> None:
        await store.put(key, b"x" * 1000)
        url = await store.signed_url(key, timedelta(minutes=10))

        async with aiohttp.ClientSession() as session:
            async with session.get(URL(url, encoded=True)) as answer:
                assert (answer.status, await answer.read()) == (200, b"x" * 1000)
            async with session.get(URL(url[:-1] + "x", encoded=True)) as answer:
                assert answer.status == 403

    async def test_end_when_they_expire(self, store: ObjectStore) -> None:
        query = parse_qs(urlsplit(await store.signed_url("a", timedelta(minutes=10))).query)

        assert query["X-Amz-Expires"] == ["600"]

    async def test_name_the_public_endpoint(
        self, s3: S3Server, bucket: Bucket, open_store: OpenStore
    ) -> None:
        store = open_store(bucket, publicUrl=f"http://localhost:{s3.port}")
        await store.put("a", b"x")
        url = await store.signed_url("a", timedelta(minutes=10))

        assert url.startswith(f"http://localhost:{s3.port}/{bucket.name}/a?")
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert await answer.read() == b"x"

    async def test_version_1(self, bucket: Bucket, open_store: OpenStore) -> None:
        store = open_store(bucket, signatureVersion="1", publicUrl="https://public.example.com")
        url = urlsplit(await store.signed_url("a b", timedelta(minutes=10)))
        query = parse_qs(url.query)

        assert (url.netloc, url.path) == ("public.example.com", f"/{bucket.name}/a%20b")
        assert query["Expires"] == ["600"]
        assert query["AWSAccessKeyId"] == [bucket.server.credentials.access_key_id]


async def test_rotated_credentials_are_read_by_the_next_store(
    bucket: Bucket, open_store: OpenStore, tmp_path: Path
) -> None:
    rotating = tmp_path / "credentials"
    rotating.write_text("[default]\naws_access_key_id=old\naws_secret_access_key=old\n")
    with pytest.raises(StorageError):
        await open_store(bucket, credentialsFile=str(rotating)).list_keys("")
    rotating.write_bytes(bucket.server.credentials_file.read_bytes())

    assert await open_store(bucket, credentialsFile=str(rotating)).list_keys("") == []


async def test_a_missing_object_is_not_a_missing_bucket(
    through: ObjectStore, proxy: FaultProxy, bucket: Bucket
) -> None:
    with pytest.raises(ObjectNotFound):
        await content(through, "nothing")

    assert proxy.count(path=f"/{bucket.name}/nothing") == 1, "an answer, not a fault to try again"
