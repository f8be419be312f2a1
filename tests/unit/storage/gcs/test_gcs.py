"""GCS without its service: configuration, where credentials are found, tokens, signed URLs."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import obstore
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from obstore.store import GCSStore as ObstoreGCS

from pinnace.clouds.gcp.credentials import (
    AuthorizedUser,
    MetadataServer,
    ServiceAccount,
    fetch_google_token,
    find_google_origin,
)
from pinnace.clouds.tokens import CachedToken, Token, sign_sha256
from pinnace.storage.errors import StorageError, StoreConfigError
from pinnace.storage.gcs.config import parse_gcs_config
from pinnace.storage.gcs.signing import signed_url_google
from pinnace.storage.gcs.store import GCSStore
from pinnace.storage.open import open_object_store
from pinnace.store_access.addresses import Addresses
from pinnace.store_access.requests import RequestPolicy
from tests.support.clock import FakeClock
from tests.support.stores.scripted_cloud import Cloud

QUICK = RequestPolicy(attempts=3, base_seconds=0.0, request_seconds=10.0)
NOW = datetime(2021, 8, 11, 21, 43, 26, tzinfo=UTC)
PEM = (
    generate_private_key(public_exponent=65537, key_size=2048)
    .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    .decode()
)
KEY = {
    "type": "service_account",
    "client_email": "velero@shop.iam.gserviceaccount.com",
    "private_key": PEM,
    "private_key_id": "1",
    "project_id": "shop",
}
USER = {"type": "authorized_user", "client_id": "c", "client_secret": "hunter2", "refresh_token": "r3fresh"}


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(KEY))
    return path


class TestConfiguration:
    @pytest.mark.parametrize(
        ("config", "text"),
        [
            ({"foo": "1"}, r"config has invalid keys \[foo\]; valid keys are \[kmsKeyName serviceAccount "),
            ({"bucket": ""}, "must not be empty"),
            ({"credentialsFile": "/nowhere"}, "provided credentialsFile does not exist"),
            ({"storeEndpoint": "ftp://x"}, "storeEndpoint 'ftp://x' is not the URL of a service"),
        ],
    )
    def test_refused(self, config: dict[str, str], text: str) -> None:
        with pytest.raises(StoreConfigError, match=text):
            parse_gcs_config({"bucket": "b", "prefix": "", **config})

    def test_an_endpoint_may_be_a_host(self) -> None:
        assert (
            parse_gcs_config({"bucket": "b", "storeEndpoint": "x.p.example"}).endpoint
            == "https://x.p.example"
        )

    def test_workload_identity_needs_an_account_to_sign_with(self) -> None:
        with pytest.raises(StoreConfigError, match="serviceAccount is expected to be provided as an item"):
            open_object_store("gcp", {"bucket": "b", "prefix": ""}, environ={})
        assert isinstance(
            open_object_store("gcp", {"bucket": "b", "serviceAccount": "a@b"}, environ={}), GCSStore
        )


class TestOrigins:
    def test_the_locations_file_goes_before_everything(self, key_file: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.write_text(json.dumps(USER))
        found = find_google_origin(key_file, {"GOOGLE_APPLICATION_CREDENTIALS": str(other)})

        assert isinstance(found, ServiceAccount)
        assert (found.email, found.project) == (KEY["client_email"], "shop")
        assert "PRIVATE" not in repr(found)

    def test_the_environment(self, tmp_path: Path) -> None:
        named, folder = tmp_path / "named", tmp_path / "gcloud"
        folder.mkdir()
        (folder / "application_default_credentials.json").write_text(json.dumps(USER))
        environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(named), "CLOUDSDK_CONFIG": str(folder)}
        assert isinstance(find_google_origin(None, environ), AuthorizedUser)
        named.write_text(json.dumps(KEY))
        assert isinstance(find_google_origin(None, environ), ServiceAccount)

    def test_the_metadata_server_comes_last(self) -> None:
        assert find_google_origin(None, {}) == MetadataServer("http://169.254.169.254/computeMetadata/v1")
        with pytest.raises(StoreConfigError, match="NO_GCE_CHECK"):
            find_google_origin(None, {"NO_GCE_CHECK": "true"})

    @pytest.mark.parametrize(
        ("content", "text"),
        [
            ("secret-nonsense", "is not a JSON key file"),
            (json.dumps({**KEY, "client_email": ""}), "lacks client_email"),
            (json.dumps({**KEY, "private_key": None}), "lacks private_key"),
            (json.dumps({"type": "gdch_service_account"}), "is of type 'gdch_service_account'"),
        ],
    )
    def test_files_that_cannot_be_used(self, tmp_path: Path, content: str, text: str) -> None:
        path = tmp_path / "key.json"
        path.write_text(content)
        with pytest.raises(StoreConfigError, match=text) as caught:
            find_google_origin(path, {})
        assert "secret" not in str(caught.value)


class TestWorkloadIdentityFederation:
    """Files that google-auth understands, such as those of accounts outside of Google Cloud."""

    @pytest.fixture
    def path(self, tmp_path: Path, cloud: Cloud) -> Path:
        (tmp_path / "subject").write_text("subject-t0ken")
        path = tmp_path / "federation.json"
        path.write_text(
            json.dumps(
                {
                    "type": "external_account",
                    "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/x",
                    "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                    "token_url": f"{cloud.url}/sts",
                    "credential_source": {"file": str(tmp_path / "subject")},
                }
            )
        )
        return path

    async def test_the_token_of_the_file_is_exchanged(self, path: Path, cloud: Cloud) -> None:
        cloud.on("POST", "/sts", {"access_token": "t", "expires_in": 3600, "token_type": "Bearer"})
        origin = find_google_origin(path, {})
        token = await fetch_google_token(origin, environ={}, policy=QUICK, now=NOW)

        assert token.value == "t"
        assert token.expires_at.tzinfo is not None
        assert parse_qs(cloud.asked[-1].body.decode())["subject_token"] == ["subject-t0ken"]

    async def test_a_refusal_is_reported_without_the_token(self, path: Path, cloud: Cloud) -> None:
        cloud.on("POST", "/sts", {"error": "invalid_grant", "error_description": "No."}, status=400)
        with pytest.raises(StorageError, match="cannot get a Google access token") as caught:
            await fetch_google_token(find_google_origin(path, {}), environ={}, policy=QUICK, now=NOW)
        assert "subject-t0ken" not in str(caught.value)

    async def test_a_location_of_a_tenant_may_not_have_one(self, path: Path, cloud: Cloud) -> None:
        origin = find_google_origin(path, {})
        with pytest.raises(StoreConfigError, match="for the administrator's locations only"):
            await fetch_google_token(origin, environ={}, policy=QUICK, now=NOW, addresses=Addresses())
        assert cloud.asked == []


class TestTokens:
    async def test_of_a_user(self, cloud: Cloud) -> None:
        cloud.on("POST", "/token", {"error": "x"}, status=503)
        cloud.on("POST", "/token", {"access_token": "t", "expires_in": 100})
        origin = AuthorizedUser(client_id="c", client_secret="hunter2", refresh_token="r3fresh")
        environ = {"CLOUDSDK_AUTH_TOKEN_HOST": f"{cloud.url}/token"}
        token = await fetch_google_token(origin, environ=environ, policy=QUICK, now=NOW)

        assert token == Token(value="t", expires_at=NOW + timedelta(seconds=100))
        assert parse_qs(cloud.asked[-1].body.decode())["refresh_token"] == ["r3fresh"]

    async def test_a_refusal_is_reported_without_secrets(self, cloud: Cloud) -> None:
        refusal = {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
        cloud.on("POST", "/token", refusal, status=400)
        origin = AuthorizedUser(client_id="c", client_secret="hunter2", refresh_token="r3fresh")
        with pytest.raises(
            StorageError, match=r"Token has been expired or revoked. \(invalid_grant\)$"
        ) as caught:
            await fetch_google_token(
                origin, environ={"CLOUDSDK_AUTH_TOKEN_HOST": f"{cloud.url}/token"}, policy=QUICK, now=NOW
            )
        assert "r3fresh" not in str(caught.value)

    @pytest.mark.parametrize("answer", [{}, {"access_token": "t"}, {"access_token": "", "expires_in": 1}, []])
    async def test_answers_without_a_token(self, cloud: Cloud, answer: object) -> None:
        cloud.on("POST", "/token", answer)
        origin = ServiceAccount(email="a@b", private_key=PEM, token_uri=f"{cloud.url}/token")
        with pytest.raises(StorageError, match="cannot get a Google access token"):
            await fetch_google_token(origin, environ={}, policy=QUICK, now=NOW)

    async def test_are_renewed_before_they_end(self, clock: FakeClock) -> None:
        given: list[Token] = []

        async def source() -> Token:
            token = Token(value=str(len(given)), expires_at=clock.now() + timedelta(hours=1))
            given.append(token)
            return token

        tokens = CachedToken(source, clock=clock)
        assert (await tokens.get()).value == (await tokens.get()).value == "0"
        clock.turn(3600 - 299)
        assert (await tokens.get()).value == "1"

    def test_a_key_that_is_none(self) -> None:
        with pytest.raises(StoreConfigError, match="the private key of a@b is not an RSA key") as caught:
            sign_sha256("secret-nonsense", b"", "a@b")
        assert "nonsense" not in str(caught.value)


class TestSignedURLs:
    @pytest.mark.parametrize("key", ["backups/b1/b1.tar.gz", "odd/ü x"])
    async def test_are_what_another_implementation_signs(self, key: str) -> None:
        other = ObstoreGCS("my-bucket", service_account_key=json.dumps(KEY))
        expected = await obstore.sign_async(other, "GET", key, timedelta(minutes=10))
        query = parse_qs(urlsplit(expected).query)
        now = datetime.strptime(query["X-Goog-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)

        async def sign(data: bytes) -> bytes:
            return sign_sha256(PEM, data, "x")

        url = await signed_url_google(
            "https://storage.googleapis.com",
            f"my-bucket/{key}",
            account=KEY["client_email"],
            sign=sign,
            now=now,
            ttl=timedelta(minutes=10),
        )

        assert urlsplit(url).path == urlsplit(expected).path
        assert parse_qs(urlsplit(url).query) == query

    async def test_iam_signs_where_there_is_no_key(self, cloud: Cloud) -> None:
        token = {"access_token": "t", "expires_in": 3599}
        cloud.on("GET", "/computeMetadata/v1/instance/service-accounts/default/token", token)
        path = "/v1/projects/-/serviceAccounts/velero@shop:signBlob"
        cloud.on("POST", path, {"signedBlob": base64.b64encode(b"\x01\xff").decode()})
        store = GCSStore(
            parse_gcs_config({"bucket": "b", "serviceAccount": "velero@shop"}),
            environ={"GCE_METADATA_HOST": cloud.url.removeprefix("http://")},
            policy=QUICK,
            iam_endpoint=cloud.url,
            clock=FakeClock(now=NOW),
        )
        url = await store.signed_url("k", timedelta(minutes=10))
        await store.close()

        assert url.endswith("X-Goog-Signature=01ff")
        (asked,) = cloud.requests("POST", path)
        assert asked.headers["Authorization"] == "Bearer t"
        assert base64.b64decode(asked.json["payload"]).startswith(b"GOOG4-RSA-SHA256\n20210811T214326Z\n")
        assert "X-Goog-Credential=velero%40shop%2F20210811%2Fauto%2Fstorage%2Fgoog4_request" in url

    async def test_a_key_signs_without_asking_iam(self, key_file: Path, cloud: Cloud) -> None:
        config = parse_gcs_config(
            {"bucket": "b", "credentialsFile": str(key_file), "serviceAccount": "other@shop"}
        )
        store = GCSStore(config, policy=QUICK, iam_endpoint=cloud.url, clock=FakeClock(now=NOW))

        url = await store.signed_url("k", timedelta(minutes=10))
        await store.close()

        async def sign(data: bytes) -> bytes:
            return sign_sha256(PEM, data, KEY["client_email"])

        assert cloud.asked == []
        assert url == await signed_url_google(
            config.endpoint,
            "b/k",
            account=KEY["client_email"],
            sign=sign,
            now=NOW,
            ttl=timedelta(minutes=10),
        )


class TestListing:
    async def test_a_store_that_repeats_a_page_is_an_error(self, cloud: Cloud) -> None:
        token = {"access_token": "t", "expires_in": 3599}
        cloud.on("GET", "/computeMetadata/v1/instance/service-accounts/default/token", token)
        path = "/storage/v1/b/b/o"
        for pages in ("first", "second", "second"):
            cloud.on(
                "GET",
                path,
                {"kind": "storage#objects", "items": [{"name": f"x/{pages}"}], "nextPageToken": pages},
            )
        store = GCSStore(
            parse_gcs_config({"bucket": "b", "serviceAccount": "velero@shop", "storeEndpoint": cloud.url}),
            environ={"GCE_METADATA_HOST": cloud.url.removeprefix("http://")},
            policy=QUICK,
            clock=FakeClock(now=NOW),
        )

        with pytest.raises(StorageError, match="repeats the same page"):
            await store.list_keys("x/")
        await store.close()

        asked = [request.query.get("pageToken", "") for request in cloud.requests("GET", path)]
        assert asked == ["", "first", "second"]
