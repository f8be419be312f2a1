"""The requests to each service, and what becomes of its answers. The services are scripted.

AWS is also proven against moto (tests/integration/kms); the others are not proven against a real one.
"""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pinnace.kms.access import KMSAccess
from pinnace.kms.errors import InvalidKMSKey, KMSError, KMSRefused, KMSUnavailable
from pinnace.kms.wrapping import unwrap, wrap
from pinnace.store_access.requests import RequestPolicy
from tests.support.stores.scripted_cloud import Asked, Cloud

SECRET = bytes(range(64))
QUICK = RequestPolicy(attempts=2, base_seconds=0.0, request_seconds=5.0)
VERSION = "0123456789abcdef" * 2

AWS = "awskms:///arn:aws:kms:eu-central-1:111122223333:key/k"
GOOGLE = "gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k"
AZURE = "azurekms://my-vault/backups"
VAULT = "hashivault://backups"
URIS = [AWS, GOOGLE, AZURE, VAULT]
IDS = ["aws", "gcp", "azure", "vault"]

ENVIRON = {
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "aws-secret",
    "AZURE_TENANT_ID": "tenant",
    "AZURE_CLIENT_ID": "client",
    "AZURE_CLIENT_SECRET": "azure-secret",
    "VAULT_TOKEN": "vault-secret",
}
PATHS = {
    AWS: ("/", "/"),
    GOOGLE: (
        "/v1/projects/p/locations/l/keyRings/r/cryptoKeys/k:encrypt",
        "/v1/projects/p/locations/l/keyRings/r/cryptoKeys/k:decrypt",
    ),
    AZURE: (f"/keys/backups/{VERSION}/wrapkey", f"/keys/backups/{VERSION}/unwrapkey"),
    VAULT: ("/v1/transit/encrypt/backups", "/v1/transit/decrypt/backups"),
}


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def url_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


WRAPPED_ANSWERS: dict[str, Any] = {
    AWS: {"CiphertextBlob": text(b"wrapped"), "KeyId": "k"},
    GOOGLE: {"ciphertext": text(b"wrapped")},
    AZURE: {"kid": "k", "value": url_text(b"wrapped")},
    VAULT: {"data": {"ciphertext": "vault:v1:d3JhcHBlZA=="}},
}
WRAPPED = {
    AWS: b"wrapped",
    GOOGLE: b"wrapped",
    AZURE: VERSION.encode() + b":wrapped",
    VAULT: b"vault:v1:d3JhcHBlZA==",
}
UNWRAPPED_ANSWERS: dict[str, Any] = {
    AWS: {"Plaintext": text(SECRET)},
    GOOGLE: {"plaintext": text(SECRET)},
    AZURE: {"value": url_text(SECRET)},
    VAULT: {"data": {"plaintext": text(SECRET)}},
}


@pytest.fixture
def access(cloud: Cloud, tmp_path: Path) -> KMSAccess:
    """All services at one address, with credentials for each."""
    login = tmp_path / "google.json"
    login.write_text(
        json.dumps(
            {
                "type": "authorized_user",
                "client_id": "c",
                "client_secret": "google-secret",
                "refresh_token": "r",
            }
        )
    )
    token = {"access_token": "token", "expires_in": 3600}
    cloud.on("POST", "/token", token)
    cloud.on("POST", "/tenant/oauth2/v2.0/token", token)
    cloud.on("GET", "/keys/backups", {"key": {"kid": f"https://v.vault.azure.net/keys/backups/{VERSION}"}})
    environ = {
        **ENVIRON,
        "GOOGLE_APPLICATION_CREDENTIALS": str(login),
        "CLOUDSDK_AUTH_TOKEN_HOST": f"{cloud.url}/token",
        "AZURE_AUTHORITY_HOST": cloud.url,
        "VAULT_ADDR": cloud.url,
    }
    endpoints = dict.fromkeys(("awskms", "gcpkms", "azurekms"), cloud.url)
    return KMSAccess(environ=environ, endpoints=endpoints, policy=QUICK)


def asked_last(cloud: Cloud) -> Asked:
    return cloud.asked[-1]


def header(asked: Asked, name: str) -> str:
    """A header; whatever the case of its name; empty if it was not sent."""
    return {key.lower(): value for key, value in asked.headers.items()}.get(name, "")


@pytest.mark.parametrize("uri", URIS, ids=IDS)
async def test_a_secret_is_wrapped_by_one_request(uri: str, access: KMSAccess, cloud: Cloud) -> None:
    cloud.on("POST", PATHS[uri][0], WRAPPED_ANSWERS[uri])

    assert await wrap(uri, SECRET, access) == WRAPPED[uri]

    asked = asked_last(cloud)
    assert len(cloud.requests("POST", PATHS[uri][0])) == 1
    expected: dict[str, Any] = {
        AWS: {"KeyId": AWS[10:], "Plaintext": text(SECRET)},
        GOOGLE: {"plaintext": text(SECRET)},
        AZURE: {"alg": "RSA-OAEP-256", "value": url_text(SECRET)},
        VAULT: {"plaintext": text(SECRET)},
    }
    assert asked.json == expected[uri]
    if uri == AWS:
        assert header(asked, "x-amz-target") == "TrentService.Encrypt"
        assert "/eu-central-1/kms/aws4_request" in header(asked, "authorization")
    elif uri == VAULT:
        assert header(asked, "x-vault-token") == "vault-secret"
    else:
        assert header(asked, "authorization") == "Bearer token"


@pytest.mark.parametrize("uri", URIS, ids=IDS)
async def test_what_was_wrapped_is_unwrapped(uri: str, access: KMSAccess, cloud: Cloud) -> None:
    cloud.on("POST", PATHS[uri][1], UNWRAPPED_ANSWERS[uri])

    assert await unwrap(uri, WRAPPED[uri], access) == SECRET

    expected: dict[str, Any] = {
        AWS: {"KeyId": AWS[10:], "CiphertextBlob": text(b"wrapped")},
        GOOGLE: {"ciphertext": text(b"wrapped")},
        AZURE: {"alg": "RSA-OAEP-256", "value": url_text(b"wrapped")},
        VAULT: {"ciphertext": "vault:v1:d3JhcHBlZA=="},
    }
    assert asked_last(cloud).json == expected[uri]


REFUSALS = [
    pytest.param(
        AWS,
        400,
        {"__type": "AccessDeniedException", "message": "no"},
        "no \\(AccessDeniedException\\): give the account kms:Encrypt",
        id="aws-denied",
    ),
    pytest.param(AWS, 400, {"__type": "x#DisabledException"}, "enable the key", id="aws-disabled"),
    pytest.param(AWS, 400, {"__type": "Other", "message": "what"}, "what \\(Other\\)$", id="aws-unknown"),
    pytest.param(
        GOOGLE,
        403,
        {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "no"}},
        "roles/cloudkms.cryptoKeyEncrypter",
        id="gcp-denied",
    ),
    pytest.param(
        AZURE,
        403,
        {"error": {"code": "Forbidden", "message": "no", "innererror": {"code": "KeyDisabled"}}},
        "enable the key",
        id="azure-disabled",
    ),
    pytest.param(VAULT, 403, {"errors": ["permission denied"]}, "give the token `update`", id="vault-denied"),
    pytest.param(VAULT, 404, {"errors": []}, "no transit engine", id="vault-no-engine"),
    *(
        pytest.param(uri, 200, {}, "the answer has no", id=f"{name}-empty")
        for uri, name in zip(URIS, IDS, strict=True)
    ),
]


@pytest.mark.parametrize(("uri", "status", "answer", "said"), REFUSALS)
async def test_a_refusal_says_what_to_do_and_shows_no_secret(
    uri: str, status: int, answer: Any, said: str, access: KMSAccess, cloud: Cloud
) -> None:
    cloud.on("POST", PATHS[uri][0], answer, status=status)
    with pytest.raises(KMSRefused, match=said) as refused:
        await wrap(uri, SECRET, access)
    shown = str(refused.value)
    assert f"cannot be wrapped by {uri}" in shown
    assert "\n" not in shown
    assert not any(secret in shown for secret in ("-secret", "Bearer", text(SECRET)))


@pytest.mark.parametrize(
    ("uri", "status", "answer"),
    [
        (AWS, 400, {"__type": "ThrottlingException"}),
        (GOOGLE, 429, {"error": {"status": "RESOURCE_EXHAUSTED"}}),
        (AZURE, 429, {"error": {"code": "Throttled"}}),
        (VAULT, 503, {"errors": ["Vault is sealed"]}),
        *((uri, 200, "a login page") for uri in URIS),
    ],
    ids=[*IDS, *(f"{name}-page" for name in IDS)],
)
async def test_what_passes_is_tried_again_and_then_said_to_be_passing(
    uri: str, status: int, answer: Any, access: KMSAccess, cloud: Cloud
) -> None:
    cloud.on("POST", PATHS[uri][0], answer, status=status)
    cloud.on("POST", PATHS[uri][0], WRAPPED_ANSWERS[uri])
    assert await wrap(uri, SECRET, access) == WRAPPED[uri]

    cloud.answers[("POST", PATHS[uri][0])].clear()
    cloud.on("POST", PATHS[uri][0], answer, status=status)
    with pytest.raises(KMSUnavailable):
        await wrap(uri, SECRET, access)


@pytest.mark.parametrize("uri", URIS, ids=IDS)
async def test_a_service_that_hangs_is_one_clear_error(uri: str, access: KMSAccess) -> None:
    ended = asyncio.Event()

    async def never(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(never, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        hanging = msgspec.structs.replace(
            access,
            endpoints=dict.fromkeys(("awskms", "gcpkms", "azurekms", "hashivault"), url),
            deadline_seconds=0.2,
        )
        with pytest.raises(KMSUnavailable, match=r"no answer within 0\.2 seconds") as error:
            await wrap(uri, SECRET, hanging)
        assert uri in str(error.value)
        ended.set()


@pytest.mark.parametrize("uri", URIS, ids=IDS)
async def test_a_service_that_is_not_there_is_unavailable(uri: str, access: KMSAccess) -> None:
    gone = dict.fromkeys(("awskms", "gcpkms", "azurekms", "hashivault"), "http://127.0.0.1:1")
    with pytest.raises(KMSUnavailable, match=r"cannot reach http://127\.0\.0\.1:1"):
        await wrap(uri, SECRET, msgspec.structs.replace(access, endpoints=gone))


@pytest.mark.parametrize(
    ("uri", "wrapped"),
    [
        (AWS, b""),
        (AWS, b"x" * 9000),
        (AZURE, b"wrapped"),
        (AZURE, b"../../secrets/s?aaaaaaaaaaaaaaaaa:wrapped"),
        (VAULT, b"vault:v1:../x"),
    ],
)
async def test_nothing_is_sent_for_what_no_service_has_wrapped(
    uri: str, wrapped: bytes, access: KMSAccess, cloud: Cloud
) -> None:
    with pytest.raises(KMSRefused):
        await unwrap(uri, wrapped, access)
    assert cloud.asked == []


async def test_a_token_of_azure_goes_to_no_host_outside_of_azure(access: KMSAccess, cloud: Cloud) -> None:
    with pytest.raises(InvalidKMSKey, match="is not where the vaults of this cloud are"):
        await wrap("azurekms://vault.evil.example/key", SECRET, access)
    assert cloud.asked == []


async def test_a_version_of_azure_that_is_named_is_not_asked_for(access: KMSAccess, cloud: Cloud) -> None:
    cloud.on("POST", PATHS[AZURE][0], WRAPPED_ANSWERS[AZURE])
    assert await wrap(f"{AZURE}/{VERSION}", SECRET, access) == WRAPPED[AZURE]
    assert cloud.requests("GET", "/keys/backups") == []


async def test_vault_is_signed_in_to_with_the_account_of_the_pod(
    access: KMSAccess, cloud: Cloud, tmp_path: Path
) -> None:
    account = tmp_path / "token"
    account.write_text("account\n")
    environ = {
        "VAULT_ADDR": cloud.url,
        "VAULT_NAMESPACE": "team",
        "VAULT_KUBERNETES_ROLE": "backups",
        "VAULT_KUBERNETES_TOKEN_FILE": str(account),
        "TRANSIT_SECRET_ENGINE_PATH": "keys/transit",
    }
    cloud.on("POST", "/v1/auth/kubernetes/login", {"auth": {"client_token": "signed-in"}})
    cloud.on("POST", "/v1/keys/transit/encrypt/backups", WRAPPED_ANSWERS[VAULT])

    await wrap(VAULT, SECRET, msgspec.structs.replace(access, environ=environ))

    login, wrapped = cloud.asked
    assert login.json == {"role": "backups", "jwt": "account"}
    assert header(login, "x-vault-token") == ""
    assert header(wrapped, "x-vault-token") == "signed-in"
    assert {header(each, "x-vault-namespace") for each in cloud.asked} == {"team"}


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "set VAULT_TOKEN, or VAULT_KUBERNETES_ROLE"),
        ({"VAULT_TOKEN": "t"}, "set VAULT_ADDR"),
        ({"VAULT_KUBERNETES_ROLE": "r", "VAULT_KUBERNETES_TOKEN_FILE": "/none"}, "cannot read the token"),
        ({"VAULT_TOKEN": "t", "VAULT_ADDR": "http://a", "VAULT_CACERT": "/none"}, "cannot read VAULT_CACERT"),
    ],
)
async def test_missing_settings_of_vault_are_named(
    environ: dict[str, str], said: str, access: KMSAccess
) -> None:
    with pytest.raises(InvalidKMSKey, match=said):
        await wrap(VAULT, SECRET, msgspec.structs.replace(access, environ=environ))


@pytest.mark.parametrize("uri", URIS, ids=IDS)
async def test_a_tenant_uses_no_credentials_of_the_server(
    uri: str, access: KMSAccess, cloud: Cloud, tmp_path: Path
) -> None:
    file = tmp_path / "aws"
    file.write_text("[default]\naws_access_key_id = tenants-id\naws_secret_access_key = s\n")
    cloud.on("POST", "/", WRAPPED_ANSWERS[AWS])
    tenant = msgspec.structs.replace(access, is_tenants=True, cloud="aws", credentials_file=file)
    if uri == AWS:
        await wrap(uri, SECRET, tenant)
        assert "Credential=tenants-id/" in header(asked_last(cloud), "authorization")
    else:
        with pytest.raises(InvalidKMSKey, match="with its own credentials"):
            await wrap(uri, SECRET, tenant)
        assert cloud.asked == []
    with pytest.raises(InvalidKMSKey, match="with its own credentials"):
        await wrap(uri, SECRET, msgspec.structs.replace(tenant, credentials_file=None))


async def test_missing_credentials_are_an_error_of_the_key(access: KMSAccess) -> None:
    with pytest.raises(KMSError, match="NO_GCE_CHECK"):
        await wrap(GOOGLE, SECRET, msgspec.structs.replace(access, environ={"NO_GCE_CHECK": "true"}))
