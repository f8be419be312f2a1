"""The URIs of keys, which may come out of a bucket that somebody else writes to."""

import pytest

from pinnace.kms.errors import InvalidKMSKey
from pinnace.kms.uris import parse_key, parse_keys

AWS = "awskms:///arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
GOOGLE = "gcpkms://projects/p/locations/global/keyRings/r/cryptoKeys/k"


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        (AWS, AWS[10:]),
        ("awskms:///arn:aws-cn:kms:cn-north-1:111122223333:alias/a/b", None),
        (GOOGLE, GOOGLE[9:]),
        ("azurekms://my-vault/key", None),
        ("azurekms://my-vault.vault.azure.net/key/" + "a" * 32, None),
        ("hashivault://backups", "backups"),
    ],
)
def test_a_key_is_known_by_its_uri(uri: str, name: str | None) -> None:
    key = parse_key(uri)
    assert key.uri == uri
    assert name is None or key.name == name


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "kms",
        "https://kms.example",
        "awskms://evil.example/arn:aws:kms:eu-central-1:111122223333:key/k",
        "awskms:///alias/a",
        "awskms:///arn:aws:kms:evil.example#:111122223333:key/k",
        "gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k:decrypt?x=",
        "gcpkms://projects/../locations/l/keyRings/r/cryptoKeys/k",
        "azurekms://v/../key",
        "azurekms://evil.example:443/key",
        "azurekms://vault/key/latest",
        "hashivault://a/b",
        "hashivault://../sys",
        "hashivault://" + "a" * 5000,
        f"{AWS}\n",
    ],
)
def test_what_is_no_key_is_refused(uri: str) -> None:
    with pytest.raises(InvalidKMSKey, match="is not the URI of a key"):
        parse_key(uri)


def test_keys_of_a_setting_are_separated_by_blanks_or_commas() -> None:
    assert [key.uri for key in parse_keys(f" {AWS},\n{GOOGLE} {AWS} ")] == [AWS, GOOGLE]
    assert parse_keys("") == ()
