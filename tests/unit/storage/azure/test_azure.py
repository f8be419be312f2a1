"""Azure without its service: configuration, where credentials are found, tokens, the account's key."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pinnace.clouds.azure.credentials import (
    ClientCredentials,
    ManagedIdentity,
    azure_variables,
    cloud_of,
    fetch_azure_token,
    find_azure_origin,
)
from pinnace.storage.azure.account import (
    AccountKey,
    KeyToAsk,
    SharedAccess,
    find_account_access,
    resolve_account,
)
from pinnace.storage.azure.config import BLOCK_BYTES, AzureConfig, parse_azure_config
from pinnace.storage.azure.requests import parse_page
from pinnace.storage.azure.store import AzureStore
from pinnace.storage.errors import StorageError, StoreConfigError
from pinnace.storage.open import open_object_store
from pinnace.store_access.requests import RequestPolicy
from tests.support.stores.scripted_cloud import Cloud

QUICK = RequestPolicy(attempts=3, base_seconds=0.0, request_seconds=10.0)
NOW = datetime(2021, 8, 11, 21, 43, 26, tzinfo=UTC)
TENANT = {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client"}
TOKEN_PATH = "/tenant/oauth2/v2.0/token"
KEYS_PATH = "/subscriptions/sub/resourceGroups/group/providers/Microsoft.Storage/storageAccounts/acc/listKeys"


def config(**changes: str) -> AzureConfig:
    return parse_azure_config({"bucket": "c", "prefix": "", "storageAccount": "acc", **changes})


class TestConfiguration:
    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            (
                {"foo": "1"},
                r"config has invalid keys \[foo\]; valid keys are \[resourceGroup storageAccount ",
            ),
            (
                {"useAAD": "true"},
                r"^config\.useAAD is not supported: blobs are read and written with the key",
            ),
            (
                {"activeDirectoryAuthorityURI": "u"},
                r"^config\.activeDirectoryAuthorityURI is not supported: ",
            ),
            ({"bucket": ""}, "must not be empty"),
            ({"storageAccount": ""}, "the following keys do not have values: storageAccount"),
            ({"credentialsFile": "/nowhere"}, "provided credentialsFile does not exist"),
            ({"storageAccountURI": "x://u:p4ss@h"}, "storageAccountURI 'h' is not the URL of a service"),
        ],
    )
    def test_refused(self, changes: dict[str, str], text: str) -> None:
        with pytest.raises(StoreConfigError, match=text):
            config(**changes)

    @pytest.mark.parametrize("text", ["0", "104857601", "-1", "8MB"])
    def test_bad_block_sizes_warn(self, text: str, caplog: pytest.LogCaptureFixture) -> None:
        assert config(blockSizeInBytes=text).block_bytes == BLOCK_BYTES
        assert "blockSizeInBytes" in caplog.text

    def test_block_sizes(self) -> None:
        assert config(blockSizeInBytes="104857600").block_bytes == 104857600
        assert config().block_bytes == BLOCK_BYTES

    def test_opened_by_its_provider(self) -> None:
        settings = {"bucket": "c", "storageAccount": "acc", "storageAccountKeyEnvVar": "KEY"}
        assert isinstance(open_object_store("azure", settings, environ={"KEY": "a2V5"}), AzureStore)


class TestVariables:
    def test_a_locations_own_file_stands_alone(self, tmp_path: Path) -> None:
        """Who writes it may be a tenant: the server's credentials are not his, nor where they are sent."""
        path = tmp_path / "mine"
        path.write_text(
            "KEY=mine\nAZURE_AUTHORITY_HOST=http://evil\nAZURE_RESOURCE_MANAGER_URL=http://evil\n"
            "AZURE_FEDERATED_TOKEN_FILE=/secret\nAZURE_IMDS_DISABLED=false\nAZURE_CLOUD_NAME=AzureChinaCloud\n"
        )
        environ = {
            **TENANT,
            "AZURE_CLIENT_SECRET": "of the server",
            "AZURE_SUBSCRIPTION_ID": "sub",
            "AZURE_AUTHORITY_HOST": "http://real",
        }
        found = azure_variables(path, environ)

        assert found == {
            "KEY": "mine",
            "AZURE_SUBSCRIPTION_ID": "sub",
            "AZURE_AUTHORITY_HOST": "http://real",
            "AZURE_CLOUD_NAME": "AzureChinaCloud",
            "AZURE_IMDS_DISABLED": "true",
        }
        with pytest.raises(StoreConfigError, match="no Azure credentials found"):
            find_azure_origin(found)

    def test_the_environments_file_goes_over_the_environment(self, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.write_text("A=other\nB=other\n")
        environ = {"A": "env", "C": "env", "AZURE_CREDENTIALS_FILE": str(other)}

        assert azure_variables(None, environ) == {**environ, "A": "other", "B": "other"}
        assert azure_variables(None, {"AZURE_CREDENTIALS_FILE": "/nowhere"})
        assert environ["A"] == "env"

    @pytest.mark.parametrize(
        ("variables", "kind"),
        [
            ({**TENANT, "AZURE_CLIENT_SECRET": "s", "AZURE_CERTIFICATE_PATH": "/c"}, "secret"),
            ({**TENANT, "AZURE_CERTIFICATE_PATH": "/c", "AZURE_USERNAME": "u"}, "certificate"),
            ({**TENANT, "AZURE_USERNAME": "u", "AZURE_PASSWORD": "p"}, "password"),
            ({**TENANT, "AZURE_FEDERATED_TOKEN_FILE": "/t"}, "federated"),
            ({"AZURE_CLIENT_ID": "client"}, "machine"),
            ({**TENANT, "AZURE_USERNAME": "u"}, "machine"),
        ],
    )
    def test_the_first_proof_wins(self, variables: dict[str, str], kind: str) -> None:
        found = find_azure_origin(variables)
        if kind == "machine":
            assert found == ManagedIdentity(client_id="client", host="http://169.254.169.254")
            return
        assert isinstance(found, ClientCredentials)
        assert ("client_secret" in found.proof) == (kind == "secret")
        assert (found.certificate is not None) == (kind == "certificate")
        assert (found.proof["grant_type"] == "password") == (kind == "password")
        assert (found.token_file is not None) == (kind == "federated")

    def test_clouds(self) -> None:
        assert cloud_of({}).storage_suffix == "core.windows.net"
        assert cloud_of({"AZURE_CLOUD_NAME": "AZURECHINACLOUD"}).storage_suffix == "core.chinacloudapi.cn"
        with pytest.raises(StoreConfigError, match="AZURE_CLOUD_NAME 'Moon' is no cloud"):
            cloud_of({"AZURE_CLOUD_NAME": "Moon"})

    def test_nowhere(self) -> None:
        with pytest.raises(StoreConfigError, match="no Azure credentials found"):
            find_azure_origin({"AZURE_IMDS_DISABLED": "true"})


async def token_form(cloud: Cloud, variables: dict[str, str]) -> dict[str, list[str]]:
    """What is asked of the tenant."""
    cloud.on("POST", TOKEN_PATH, {"access_token": "t", "expires_in": 3599})
    where = cloud_of({"AZURE_AUTHORITY_HOST": cloud.url})
    token = await fetch_azure_token(
        find_azure_origin(variables), cloud=where, resource="https://r", policy=QUICK, now=NOW
    )
    assert (token.value, token.expires_at) == ("t", NOW + timedelta(seconds=3599))
    return parse_qs(cloud.requests("POST", TOKEN_PATH)[-1].body.decode())


class TestTokens:
    async def test_by_password(self, cloud: Cloud) -> None:
        form = await token_form(cloud, {**TENANT, "AZURE_USERNAME": "u", "AZURE_PASSWORD": "p"})
        assert form == {
            "client_id": ["client"],
            "grant_type": ["password"],
            "username": ["u"],
            "password": ["p"],
            "scope": ["https://r/.default"],
        }

    async def test_by_workload_identity(self, cloud: Cloud, tmp_path: Path) -> None:
        path = tmp_path / "token"
        path.write_text("jwt\n")
        form = await token_form(cloud, {**TENANT, "AZURE_FEDERATED_TOKEN_FILE": str(path)})
        assert form["client_assertion"] == ["jwt"]
        assert form["client_assertion_type"] == ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"]

    async def test_by_certificate(self, cloud: Cloud, tmp_path: Path) -> None:
        key = generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "velero")])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(NOW)
            .not_valid_after(NOW + timedelta(days=1))
            .sign(key, SHA256())
        )
        path = tmp_path / "velero.pem"
        path.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + certificate.public_bytes(Encoding.PEM)
        )
        form = await token_form(cloud, {**TENANT, "AZURE_CERTIFICATE_PATH": str(path)})

        content, _, signature = form["client_assertion"][0].rpartition(".")
        key.public_key().verify(_decoded(signature), content.encode(), PKCS1v15(), SHA256())
        header, claims = (json.loads(_decoded(part)) for part in content.split("."))
        assert _decoded(header["x5t"]) == certificate.fingerprint(SHA1())
        assert claims["aud"] == f"{cloud.url}{TOKEN_PATH}"
        assert claims["iss"] == claims["sub"] == "client"

    async def test_a_certificate_in_another_format(self, cloud: Cloud, tmp_path: Path) -> None:
        path = tmp_path / "velero.pfx"
        path.write_bytes(b"\x30\x82")
        with pytest.raises(StoreConfigError, match=r"velero.pfx .* openssl pkcs12"):
            await token_form(cloud, {**TENANT, "AZURE_CERTIFICATE_PATH": str(path)})

    async def test_of_the_machine(self, cloud: Cloud) -> None:
        cloud.on("GET", "/metadata/identity/oauth2/token", {"access_token": "t", "expires_in": "86399"})
        variables = {"AZURE_POD_IDENTITY_AUTHORITY_HOST": cloud.url, "AZURE_CLIENT_ID": "one"}
        token = await fetch_azure_token(
            find_azure_origin(variables), cloud=cloud_of({}), resource="https://r/", policy=QUICK, now=NOW
        )

        assert token.expires_at == NOW + timedelta(seconds=86399)
        (asked,) = cloud.asked
        assert asked.headers["Metadata"] == "true"
        assert asked.query == {"api-version": "2018-02-01", "resource": "https://r/", "client_id": "one"}

    async def test_a_refusal_is_reported_without_the_secret(self, cloud: Cloud) -> None:
        refusal = {
            "error": "invalid_client",
            "error_description": "AADSTS7000215: Invalid client secret.\r\nTrace",
        }
        cloud.on("POST", TOKEN_PATH, refusal, status=401)
        with pytest.raises(StorageError, match=r"AADSTS7000215: Invalid client secret") as caught:
            await token_form(cloud, {**TENANT, "AZURE_CLIENT_SECRET": "hunter2"})
        assert "hunter2" not in str(caught.value)
        assert "\n" not in str(caught.value)


class TestAccounts:
    @pytest.fixture
    def variables(self, cloud: Cloud) -> dict[str, str]:
        cloud.on("POST", TOKEN_PATH, {"access_token": "t", "expires_in": 3599})
        return {
            **TENANT,
            "AZURE_CLIENT_SECRET": "hunter2",
            "AZURE_SUBSCRIPTION_ID": "sub",
            "AZURE_AUTHORITY_HOST": cloud.url,
            "AZURE_RESOURCE_MANAGER_URL": cloud.url,
        }

    def test_the_variable_that_is_named(self) -> None:
        named = config(storageAccountKeyEnvVar="KEY")
        assert find_account_access(named, {"KEY": "a2V5"}) == AccountKey(key="a2V5")
        with pytest.raises(StoreConfigError, match="no storage account key found in env var KEY"):
            find_account_access(named, {})

    def test_a_shared_access_signature(self) -> None:
        found = find_account_access(config(), {"AZURE_STORAGE_SAS_TOKEN": "?sv=1&sig=x"})
        assert found == SharedAccess(query="sv=1&sig=x")
        assert "sig" not in repr(found)

    def test_what_is_missing(self) -> None:
        with pytest.raises(
            StoreConfigError, match="azure subscription ID not found in object store's config"
        ):
            find_account_access(config(resourceGroup="g"), {})
        with pytest.raises(StoreConfigError, match="do not have values: resourceGroup"):
            find_account_access(config(subscriptionId="s"), {})

    async def test_the_key_is_asked_for(self, cloud: Cloud, variables: dict[str, str]) -> None:
        keys = [
            {"keyName": "key1", "permissions": "Read", "value": "cmVhZA=="},
            {"keyName": "key2", "permissions": "FULL", "value": "ZnVsbA=="},
        ]
        cloud.on("POST", KEYS_PATH, {"keys": keys})
        access = find_account_access(config(resourceGroup="group"), variables)
        assert isinstance(access, KeyToAsk)

        assert await resolve_account(access, policy=QUICK, now=NOW) == AccountKey(key="ZnVsbA==")
        assert cloud.requests("POST", KEYS_PATH)[0].headers["Authorization"] == "Bearer t"

    @pytest.mark.parametrize(
        ("answer", "status", "text"),
        [
            ({"keys": []}, 200, "No storage keys found"),
            ({"keys": [{"permissions": "Read", "value": "x"}]}, 200, "No storage key with Full permissions"),
            (
                {"error": {"code": "AuthorizationFailed", "message": "No authorization."}},
                403,
                r"cannot get the key of the storage account: No authorization. \(AuthorizationFailed\)",
            ),
        ],
    )
    async def test_no_key(
        self, cloud: Cloud, variables: dict[str, str], answer: Any, status: int, text: str
    ) -> None:
        cloud.on("POST", KEYS_PATH, answer, status=status)
        access = find_account_access(config(resourceGroup="group"), variables)
        with pytest.raises(StorageError, match=text):
            await resolve_account(access, policy=QUICK, now=NOW)

    async def test_a_shared_access_signature_is_sent_and_signs_nothing(self, cloud: Cloud) -> None:
        mark = {"x-ms-request-id": "1", "ETag": '"1"'}
        cloud.on("HEAD", "/c/k", None, headers={**mark, "Content-Length": "6"})
        cloud.on("GET", "/c/k", "data", headers=mark)
        settings = config(storageAccountURI=cloud.url)
        store = AzureStore(settings, environ={"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=a%2Bb"}, policy=QUICK)
        assert await store.exists("k")
        async with store.get("k") as stream:
            assert b"".join([block async for block in stream]) == b'"data"'
        with pytest.raises(StoreConfigError, match="needs the key of the storage account"):
            await store.signed_url("k", timedelta(minutes=10))
        await store.close()

        assert [asked.query for asked in cloud.asked] == [{"sv": "1", "sig": "a+b"}] * 2
        assert all("Authorization" not in asked.headers for asked in cloud.asked)

    def test_the_address_of_an_account_is_its_clouds(self) -> None:
        for name, host in (("", "core.windows.net"), ("AzureUSGovernmentCloud", "core.usgovcloudapi.net")):
            environ = {"KEY": "a2V5", "AZURE_CLOUD_NAME": name}
            store = AzureStore(config(storageAccountKeyEnvVar="KEY"), environ=environ)
            assert store.account_url == f"https://acc.blob.{host}"


def test_names_that_xml_cannot_hold() -> None:
    blobs = '<Blob><Name Encoded="true">a%EF%BF%BEb</Name></Blob><BlobPrefix><Name>p/</Name></BlobPrefix>'
    body = f"<E><Blobs>{blobs}</Blobs><NextMarker>m</NextMarker></E>".encode()
    page, marker = parse_page(body, "x")

    assert (page.keys, page.prefixes, marker) == (["a\ufffeb"], ["p/"], "m")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
