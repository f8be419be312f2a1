"""The URIs of keys, as sops and cosign write them. Pure.

    awskms:///arn:aws:kms:REGION:ACCOUNT:key/ID         or ...:alias/NAME
    gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K
    azurekms://VAULT/KEY or azurekms://VAULT/KEY/VERSION, where VAULT may be a host of Azure
    hashivault://KEY

A URI is read from a bucket, too. It therefore never says which server gets a token: the hosts are those of
the cloud, and that of Vault is the caller's.
"""

import re
from typing import Final

import msgspec

from pinnace.kms.errors import InvalidKMSKey

AWS: Final = "awskms"
GOOGLE: Final = "gcpkms"
AZURE: Final = "azurekms"
VAULT: Final = "hashivault"

_MOST_CHARACTERS: Final = 2048
_FORMS: Final = {
    AWS: re.compile(
        r"awskms:///arn:(?P<partition>aws(?:-[a-z-]+)?):kms:(?P<region>[a-z0-9-]{1,63}):[0-9]{12}:"
        r"(?:key|alias)/[A-Za-z0-9/_-]{1,256}"
    ),
    GOOGLE: re.compile(
        r"gcpkms://projects/[a-z0-9][a-z0-9.:-]{0,127}/locations/[a-z0-9-]{1,63}/keyRings/[A-Za-z0-9_-]{1,63}"
        r"/cryptoKeys/[A-Za-z0-9_-]{1,63}"
    ),
    AZURE: re.compile(
        r"azurekms://(?P<vault>[A-Za-z0-9-]{3,24})(?:\.(?P<suffix>[a-z.]{1,64}))?/(?P<key>[A-Za-z0-9-]{1,127})"
        r"(?:/(?P<version>[0-9a-f]{32}))?"
    ),
    VAULT: re.compile(r"hashivault://(?P<key>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})"),
}
_EXAMPLES: Final = {
    AWS: "awskms:///arn:aws:kms:eu-central-1:111122223333:key/ID",
    GOOGLE: "gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K",
    AZURE: "azurekms://VAULT/KEY",
    VAULT: "hashivault://KEY",
}


class KMSKey(msgspec.Struct, frozen=True):
    """A key of a service.

    Attributes:
        service: AWS, GOOGLE, AZURE or VAULT.
        name: the URI without its scheme and the slashes after it.
        parts: those of the URI by name; of AWS `partition` and `region`, of Azure `vault`, `suffix`, `key`
            and `version`, of Vault `key`.
    """

    uri: str
    service: str
    name: str
    parts: dict[str, str]


def parse_key(uri: str) -> KMSKey:
    """The key that a URI names. Raises InvalidKMSKey."""
    scheme = uri[:_MOST_CHARACTERS].partition("://")[0]
    if (form := _FORMS.get(scheme)) is None:
        raise InvalidKMSKey(
            f"{uri[:100]!r} is not the URI of a key: one begins with"
            f" {', '.join(f'{each}://' for each in _FORMS)}"
        )
    found = form.fullmatch(uri) if len(uri) <= _MOST_CHARACTERS else None
    if found is None:
        raise InvalidKMSKey(f"{uri[:100]!r} is not the URI of a key: write {_EXAMPLES[scheme]}")
    name = uri.removeprefix(f"{scheme}://").lstrip("/")
    return KMSKey(uri, scheme, name, {part: value or "" for part, value in found.groupdict().items()})


def parse_keys(text: str) -> tuple[KMSKey, ...]:
    """The keys of a setting, separated by blanks or commas, each once. Raises InvalidKMSKey."""
    return tuple(parse_key(uri) for uri in dict.fromkeys(text.replace(",", " ").split()))
