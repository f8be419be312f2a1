"""What kopia is given of the stores of each provider."""

import json
from pathlib import Path
from typing import Any

import pytest

from pinnace.storage.open import store_config
from pinnace.storage.providers import PROVIDERS, uploader_store
from pinnace.storage.uploader_store import KopiaSecrets, KopiaStorage, UploaderCall
from pinnace.volumes.kopia.places import storage_of
from pinnace.volumes.uploader.errors import IdentifierError
from tests.support.stores.restic_locations import location

CA = Path("/private/ca.pem")
KEYS = {"AWS_ACCESS_KEY_ID": "id-1", "AWS_SECRET_ACCESS_KEY": "secret-1"}
AZURE = {"storageAccount": "account", "storageAccountKeyEnvVar": "KEY"}
PREFIX = "prefix/kopia/shop/"


async def given(
    provider: str, environ: dict[str, str], **config: str
) -> tuple[KopiaStorage, KopiaSecrets, list[str]]:
    """The storage, its secrets, and the flags that make a repository there."""
    asked = location(provider, **config)
    storage, store = storage_of(asked, "shop"), uploader_store(provider)
    assert store is not None
    secrets = await store.kopia_secrets(UploaderCall(settings=store_config(asked), environ=environ))
    return storage, secrets, storage.create_flags(secrets, CA)


@pytest.mark.parametrize(
    ("provider", "config", "environ", "options", "flags"),
    [
        pytest.param(
            "aws",
            {"s3Url": "http://minio:9000", "region": "minio"},
            KEYS,
            {"bucket": "bucket", "endpoint": "minio:9000", "accessKeyID": "id-1", "doNotUseTLS": True},
            ["--bucket=bucket", "--endpoint=minio:9000", "--region=minio", "--disable-tls"],
            id="s3",
        ),
        pytest.param(
            "velero.io/aws",
            {"region": "cn-north-1", "insecureSkipTLSVerify": "true"},
            {**KEYS, "AWS_SESSION_TOKEN": "token"},
            {"endpoint": "s3.cn-north-1.amazonaws.com.cn", "sessionToken": "token"},
            ["--region=cn-north-1", "--disable-tls-verification", f"--root-ca-pem-path={CA}"],
            id="aws",
        ),
        pytest.param(
            "gcp",
            {"credentialsFile": "/mine"},
            {},
            {"bucket": "bucket", "prefix": PREFIX, "credentialsFile": "/mine"},
            ["--bucket=bucket", "--credentials-file=/mine", f"--prefix={PREFIX}"],
            id="gcp",
        ),
        pytest.param(
            "azure",
            {**AZURE, "storageAccountURI": "https://account.blob.core.example.org"},
            {"KEY": "secret-1"},
            {"container": "bucket", "storageAccount": "account", "storageKey": "secret-1"},
            ["--container=bucket", "--storage-account=account", "--storage-domain=blob.core.example.org"],
            id="azure",
        ),
        pytest.param(
            "azure",
            {"storageAccount": "account"},
            {"AZURE_STORAGE_SAS_TOKEN": "?sig=secret-1"},
            {"storageAccount": "account", "sasToken": "sig=secret-1"},
            ["--storage-account=account"],
            id="azure-signature",
        ),
        pytest.param(
            "pinnace.io/filesystem",
            {"path": "/srv"},
            {},
            {"path": "/srv/bucket/prefix/kopia/shop", "dirShards": []},
            ["--path=/srv/bucket/prefix/kopia/shop", "--flat"],
            id="folder",
        ),
    ],
)
async def test_a_store_is_named_in_the_words_of_kopia(
    provider: str,
    config: dict[str, str],
    environ: dict[str, str],
    options: dict[str, Any],
    flags: list[str],
) -> None:
    storage, secrets, given_flags = await given(provider, environ, **config)

    written = storage.config(secrets)["config"]
    assert {name: written.get(name) for name in options} == options
    assert [flag for flag in flags if flag not in given_flags] == []
    for shown in (json.dumps(given_flags), json.dumps(storage.options), repr(secrets)):
        assert "secret-1" not in shown


@pytest.mark.parametrize(
    ("provider", "config", "text"),
    [
        ("aws", {"s3Url": "minio:9000"}, "not an http or https URL"),
        ("aws", {"s3Url": "https://minio/path"}, "has a path, which kopia cannot use"),
        ("pinnace.io/filesystem", {"path": "srv"}, "must be an absolute path"),
        ("other", {}, "the provider other of the location has no repositories of kopia"),
    ],
)
def test_a_location_that_kopia_cannot_use_says_why(provider: str, config: dict[str, str], text: str) -> None:
    with pytest.raises(IdentifierError, match=text):
        storage_of(location(provider, **config), "shop")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_provider_has_repositories(provider: str) -> None:
    assert uploader_store(provider) is not None
