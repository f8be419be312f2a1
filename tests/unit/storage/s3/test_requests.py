"""Region look-up, requests and uploads of the S3 store, against a scripted server on loopback."""

import hashlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from pinnace.storage.errors import StorageError, StoreConfigError, StoreUnavailable
from pinnace.storage.s3.config import parse_s3_config
from pinnace.storage.s3.store import S3Store
from pinnace.storage.upload import PART_SIZE_BYTES, split_into_parts
from pinnace.store_access.requests import RequestPolicy
from tests.support.scripted_http import Service
from tests.support.stores.conformance import BrokenBodyError, blocks, broken

QUICK = RequestPolicy(attempts=3, base_seconds=0.0, request_seconds=10.0)
EXPIRATION = datetime(2021, 8, 12, 3, 0, tzinfo=UTC)
JSON_ANSWER = (
    b'{"Code":"Success","AccessKeyId":"id","SecretAccessKey":"secret","Token":"token",'
    b'"Expiration":"2021-08-12T03:00:00Z"}'
)
EMPTY_LIST = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
BEGUN = b"<InitiateMultipartUploadResult><UploadId>u 1</UploadId></InitiateMultipartUploadResult>"
DONE = b"<CompleteMultipartUploadResult><ETag>&quot;x&quot;</ETag></CompleteMultipartUploadResult>"

OpenStore = Callable[..., S3Store]


@pytest.fixture
async def open_store(service: Service, tmp_path: Path) -> AsyncIterator[OpenStore]:
    stores: list[S3Store] = []

    def opened(environ: dict[str, str] | None = None, **config: str) -> S3Store:
        found = environ or {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
        store = S3Store(
            parse_s3_config({"bucket": "bucket", **config}),
            environ=found,
            policy=QUICK,
            region_urls=(f"{service.url}/aws", f"{service.url}/cn"),
        )
        stores.append(store)
        return store

    yield opened
    for store in stores:
        await store.close()


class TestRegion:
    async def test_is_asked_of_one_partition_after_the_other(
        self, service: Service, open_store: OpenStore
    ) -> None:
        found = web.Response(status=403, headers={"x-amz-bucket-region": "cn-north-1"})
        service.answers["HEAD", "/cn/bucket"] = [found]
        url = await open_store().signed_url("a", EXPIRATION - EXPIRATION.replace(hour=2))

        assert url.startswith("https://bucket.s3.cn-north-1.amazonaws.com.cn/a?")
        assert [path for _, path, *_ in service.asked] == ["/aws/bucket", "/cn/bucket"]

    async def test_an_unknown_bucket_is_an_error(self, open_store: OpenStore) -> None:
        advice = r"; give it as region in the location's config, in a URL as \?region=REGION"
        with pytest.raises(StoreConfigError, match=rf"^unable to determine bucket's region{advice}$"):
            await open_store().exists("a")

    async def test_no_answer(self, service: Service, open_store: OpenStore) -> None:
        service.on("HEAD", "/aws/bucket", (503, b""))
        service.on("HEAD", "/cn/bucket", (503, b""))
        with pytest.raises(StoreConfigError, match="unable to determine bucket's region"):
            await open_store().exists("a")

    @pytest.mark.parametrize("config", [{"region": "eu-west-1"}, {"s3Url": "http://127.0.0.1:1"}], ids=str)
    async def test_is_not_asked_when_configured(
        self, service: Service, open_store: OpenStore, config: dict[str, str]
    ) -> None:
        url = await open_store(**config).signed_url("a", EXPIRATION - EXPIRATION.replace(hour=2))

        assert service.asked == []
        assert ("us-east-1" if "s3Url" in config else "eu-west-1") in url


class TestRequests:
    async def test_opening_sends_no_request(self, service: Service, open_store: OpenStore) -> None:
        open_store(s3Url=service.url)

        assert service.asked == []

    async def test_no_credentials_is_said_by_the_first_request(
        self, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with pytest.raises(StoreConfigError, match="no AWS credentials found"):
            await open_store({"AWS_REGION": "x"}, region="x").exists("a")

    async def test_credentials_that_cannot_be_had_are_the_error(
        self, service: Service, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)  # between three attempts
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/creds")
        service.on("GET", "/creds", (403, b"no"))
        store = open_store({"HOME": ""}, s3Url=service.url)
        for call in (store.put("a", b""), store.exists("a"), store.list_keys("")):
            with pytest.raises(StorageError, match="cannot get AWS credentials"):
                await call

    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            (b"", "there is no bucket 'bucket'"),
            (b"<Error><Code>NoSuchBucket</Code></Error>", "there is no bucket 'bucket'"),
            (
                b"<Error><Code>NoSuchUser</Code><Message>no such key</Message></Error>",
                r"no such key \(NoSuchUser\)",
            ),
        ],
        ids=["nothing said", "no bucket", "no user"],
    )
    async def test_a_store_that_answers_404_to_an_unknown_access_key_is_not_taken_to_lack_the_bucket(
        self, service: Service, open_store: OpenStore, answer: bytes, text: str
    ) -> None:
        service.on("HEAD", "/bucket/a", (404, b""))
        service.on("HEAD", "/bucket/", (404, b""))
        service.on("GET", "/bucket/", (404, answer))

        with pytest.raises(StorageError, match=f"^cannot look for 'a': {text}$"):
            await open_store(s3Url=service.url, region="x", s3ForcePathStyle="true").exists("a")

    async def test_temporary_credentials_sign_everything(
        self, service: Service, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/creds")
        service.on("GET", "/creds", (200, JSON_ANSWER.replace(b"2021", b"2121")))
        service.on("GET", "/bucket/", (200, EMPTY_LIST))
        service.on("PUT", "/bucket/a", (200, b""))
        store = open_store({"HOME": ""}, s3Url=service.url)
        await store.list_keys("")
        await store.put("a", b"x")

        signed = [headers for _, path, headers, _ in service.asked if path != "/creds"]
        assert len(signed) == 2
        assert {headers.get("x-amz-security-token") for headers in signed} == {"token"}
        assert len(service.asked) == 3

    async def test_a_page_in_url_encoding_is_decoded(self, service: Service, open_store: OpenStore) -> None:
        page = EMPTY_LIST.replace(
            b"</List", b"<EncodingType>url</EncodingType><Contents><Key>a+b%2Bc/%C3%BC</Key></Contents></List"
        )
        service.on("GET", "/bucket/", (200, page))

        assert await open_store(s3Url=service.url).list_keys("") == ["a b+c/ü"]

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (b"<html", "the body is not XML but should be <ListBucketResult>"),
            (b"{}", "the body is not XML but should be <ListBucketResult>"),
            (b"", "the body is not XML but should be <ListBucketResult>"),
            (b"<html></html>", "the body is <html> instead of <ListBucketResult>"),
            (b"<ListBucketResult/>", "the list does not say whether it is complete"),
            (b"<Error><Code>InternalError</Code></Error>", r"an error without a message \(InternalError\)"),
            (EMPTY_LIST.replace(b"false", b"true"), "does not say how to get them"),
        ],
    )
    async def test_strange_pages(
        self, service: Service, open_store: OpenStore, body: bytes, message: str
    ) -> None:
        service.on("GET", "/bucket/", (200, body))
        with pytest.raises(StorageError, match=message):
            await open_store(s3Url=service.url).list_keys("")

    async def test_a_refusal_without_a_body(self, service: Service, open_store: OpenStore) -> None:
        service.on("GET", "/bucket/", (403, b""))
        with pytest.raises(StorageError, match="cannot list bucket 'bucket': HTTP status 403"):
            await open_store(s3Url=service.url).list_keys("")

    async def test_bad_certificates_are_refused_at_opening(self, open_store: OpenStore) -> None:
        with pytest.raises(StoreConfigError, match="caCert is not a PEM certificate bundle"):
            open_store(region="x", caCert="nonsense")


PARTS = [
    b"".join(bytes([number]) * (1 << 20) for number in numbers)
    for numbers in (range(5), range(5, 10), range(10, 11))
]


class TestMultipart:
    """What a server can answer to an upload in parts."""

    PATH = "/bucket/large"

    @pytest.fixture
    def store(self, service: Service, open_store: OpenStore) -> S3Store:
        service.on("POST", self.PATH, (200, BEGUN), (200, DONE))
        service.on("PUT", self.PATH, (200, b""))
        service.on("DELETE", self.PATH, (204, b""))
        self.holds(service, 11 << 20)
        return open_store(s3Url=service.url)

    def holds(self, service: Service, size_bytes: int) -> None:
        """The object that HEAD finds."""
        headers = {"ETag": '"x"', "Content-Length": str(size_bytes)}
        service.answers["HEAD", self.PATH] = [web.Response(headers=headers)]

    def asked(self, service: Service) -> list[tuple[str, str]]:
        return [(method, path.partition("?")[2]) for method, path, *_ in service.asked]

    async def test_all_goes_well(self, service: Service, store: S3Store) -> None:
        await store.put("large", blocks(11))

        assert self.asked(service)[0] == ("POST", "uploads=")
        assert sorted(self.asked(service)[1:4]) == [
            ("PUT", f"partNumber={number}&uploadId=u%201") for number in (1, 2, 3)
        ]
        assert self.asked(service)[4:] == [("POST", "uploadId=u%201"), ("HEAD", "")]
        etags = [hashlib.md5(body, usedforsecurity=False).hexdigest() for body in PARTS]
        parts = b"".join(
            f'<Part><PartNumber>{number}</PartNumber><ETag>"{etag}"</ETag></Part>'.encode()
            for number, etag in enumerate(etags, start=1)
        )
        assert service.asked[-2][3] == b"<CompleteMultipartUpload>" + parts + b"</CompleteMultipartUpload>"
        sizes = sorted(len(body) for method, *_, body in service.asked if method == "PUT")
        assert sizes == [1 << 20, 5 << 20, 5 << 20]

    async def test_exactly_one_part(self, service: Service, store: S3Store) -> None:
        self.holds(service, 5 << 20)
        await store.put("large", blocks(5))

        assert [method for method, _ in self.asked(service)] == ["POST", "PUT", "POST", "HEAD"]

    async def test_an_error_behind_a_200(self, service: Service, store: S3Store) -> None:
        error = b"<Error><Code>InternalError</Code><Message>We failed.</Message></Error>"
        service.answers["POST", self.PATH][-1] = (200, error)
        with pytest.raises(StoreUnavailable, match=r"^cannot write .large.: .*: We failed. \(Int"):
            await store.put("large", blocks(9))

        assert self.asked(service)[-1] == ("DELETE", "uploadId=u%201")
        assert ("DELETE", "") not in self.asked(service)

    async def test_an_upload_that_is_gone(self, service: Service, store: S3Store) -> None:
        error = b"<Error><Code>NoSuchUpload</Code><Message>Gone.</Message></Error>"
        service.answers["POST", self.PATH][-1] = (404, error)
        with pytest.raises(StoreUnavailable, match="NoSuchUpload"):
            await store.put("large", blocks(9))

        assert ("DELETE", "") not in self.asked(service)

    async def test_a_put_without_an_answer_does_not_delete_what_is_there(
        self, service: Service, store: S3Store
    ) -> None:
        """It can be the former object, or one of another process."""
        service.on("PUT", self.PATH, (503, b""))
        with pytest.raises(StoreUnavailable):
            await store.put("large", b"small")

        assert {method for method, _ in self.asked(service)} == {"PUT"}

    async def test_a_part_that_is_refused(self, service: Service, store: S3Store) -> None:
        service.on("PUT", self.PATH, (403, b"<Error><Code>AccessDenied</Code></Error>"))
        with pytest.raises(StorageError, match="AccessDenied"):
            await store.put("large", blocks(40))

        assert self.asked(service)[-1] == ("DELETE", "uploadId=u%201")

    async def test_no_id_and_no_etag(self, service: Service, store: S3Store) -> None:
        service.digests = False
        with pytest.raises(StorageError, match="it gave what was sent no ETag"):
            await store.put("large", blocks(9))
        service.on("POST", self.PATH, (200, b"<InitiateMultipartUploadResult/>"))
        with pytest.raises(StorageError, match="gave the upload no id"):
            await store.put("large", blocks(9))

    async def test_an_abort_that_fails_does_not_hide_the_cause(
        self, service: Service, store: S3Store
    ) -> None:
        service.on("DELETE", self.PATH, (403, b""))
        with pytest.raises(BrokenBodyError):
            await store.put("large", broken(9))


@given(st.lists(st.integers(0, 3 * PART_SIZE_BYTES), max_size=3))
async def test_parts_are_of_one_size_and_lose_nothing(sizes: list[int]) -> None:
    async def body() -> AsyncIterator[bytes]:
        for number, size in enumerate(sizes):
            yield bytes([number]) * size

    parts = [part async for part in split_into_parts(body())]
    assert all(len(part) == PART_SIZE_BYTES for part in parts[:-1])
    assert len(parts[-1]) < PART_SIZE_BYTES
    assert b"".join(parts) == b"".join([block async for block in body()])
