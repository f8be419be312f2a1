"""Our own settings of a location: in its config, in its URL, in variables, and never in its store."""

from pathlib import Path
from urllib.parse import quote

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationSpec
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.errors import InvalidLocation, StoreConfigError
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store, store_config
from pinnace.storage.own_settings import (
    KEY_FILE,
    KEY_SECRET,
    OWN_SETTINGS,
    REQUIRE_SIGNATURE,
    TRUSTED_KEYS,
    secret_of,
    signatures_of,
)

KEY, OTHER = Ed25519Signer.generate(), Ed25519Signer.generate()


def test_the_key_that_signs_is_trusted_beside_those_of_others(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(KEY.pem())
    made = signatures_of({KEY_FILE: str(file), TRUSTED_KEYS: f"{OTHER.public} {KEY.public}"})

    assert made.key is not None
    assert [key.id for key in made.trusted] == [KEY.public.id, OTHER.public.id]
    assert not made.required
    assert signatures_of({}).trusted == ()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({TRUSTED_KEYS: "AAAA"}, "signing.trustedKeys: key 1"),
        ({KEY_FILE: "/nonexistent/key"}, "cannot read '/nonexistent/key'"),
        ({REQUIRE_SIGNATURE: "perhaps", TRUSTED_KEYS: str(KEY.public)}, "write true or false"),
        ({REQUIRE_SIGNATURE: "true"}, "no key is trusted"),
    ],
)
def test_settings_that_cannot_be_obeyed_are_refused(config: dict[str, str], said: str) -> None:
    with pytest.raises(StoreConfigError, match=said):
        signatures_of(config)


def test_a_key_that_is_none_is_refused_without_its_content() -> None:
    with pytest.raises(StoreConfigError, match="not a private key") as caught:
        signatures_of({}, b"secret-text")
    assert "secret-text" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "found"),
    [("", None), ("keys", ("keys", "signing-key.pem")), ("keys/mine.pem", ("keys", "mine.pem"))],
)
def test_the_secret_of_the_signing_key(value: str, found: tuple[str, str] | None) -> None:
    assert secret_of({KEY_SECRET: value}) == found


def test_a_store_is_given_none_of_them() -> None:
    location = BackupStorageLocation(
        metadata=ObjectMeta(name="main"),
        spec=BackupStorageLocationSpec(provider="aws", config=dict.fromkeys(OWN_SETTINGS, "x")),
    )
    location.spec.object_storage.bucket = "bucket"

    assert not store_config(location).keys() & OWN_SETTINGS


@pytest.mark.parametrize("url", ["s3://bucket/prefix?region=x&{}", "file://{folder}?{}"])
async def test_a_url_has_them_as_parameters(url: str, tmp_path: Path) -> None:
    query = f"{TRUSTED_KEYS}={quote(str(KEY.public), safe='')}&{REQUIRE_SIGNATURE}=true"
    location = location_from_url(url.format(query, folder=tmp_path))

    assert location.spec.config[TRUSTED_KEYS] == str(KEY.public)
    async with open_backup_store(location) as store:
        assert store._signatures.required


def test_the_url_of_a_bucket_has_the_settings_of_object_lock() -> None:
    config = location_from_url(
        "s3://bucket?region=x&objectLock.mode=governance&objectLock.until=1h"
    ).spec.config

    assert (config["objectLock.mode"], config["objectLock.until"]) == ("governance", "1h")


def test_a_url_cannot_name_the_secret_of_a_server() -> None:
    with pytest.raises(InvalidLocation, match="unknown parameters"):
        location_from_url(f"file:///tmp/backups?{KEY_SECRET}=x")


def test_variables_stand_for_those_that_the_url_does_not_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PINNACE_TRUSTED_KEYS", str(KEY.public))
    monkeypatch.setenv("PINNACE_REQUIRE_SIGNATURE", "true")

    assert location_from_url(str(tmp_path / "b")).spec.config[TRUSTED_KEYS] == str(KEY.public)
    own = location_from_url(f"file://{tmp_path}/b?{REQUIRE_SIGNATURE}=false").spec.config
    assert own[REQUIRE_SIGNATURE] == "false"
