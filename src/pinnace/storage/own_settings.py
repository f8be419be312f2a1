"""Settings of a location that are obeyed by us and not by its store: of `spec.config`, and of URLs.

Velero keeps them in a BackupStorageLocation, as it keeps every key of `config`; its plugins refuse keys that
they do not know, so a location with such settings is one of ours.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.signing.errors import BadKey
from pinnace.signing.external import ExternalKey
from pinnace.signing.keys import Ed25519Signer, PublicKey, SigningKey, parse_keys, unique_keys
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.newest import NewestOutside
from pinnace.storage.settings import parse_bool

TRUSTED_KEYS: Final = "signing.trustedKeys"
"""Public keys whose signatures are believed, separated by blanks or commas."""
KEY_FILE: Final = "signing.keyFile"
"""The file of the private key that signs backups, for runs without a server."""
KEY_SECRET: Final = "signing.keySecret"  # noqa: S105 - where the key is, and not the key
"""`NAME` or `NAME/KEY`: the Secret of the private key in the namespace of the server that signs."""
SIGNER: Final = "signing.signer"
"""The URI of a key in a KMS, in Vault or in an HSM that signs. (`signing.external`)"""
PUBLIC_KEY: Final = "signing.publicKey"
"""The public key of that."""
REQUIRE_SIGNATURE: Final = "requireSignature"
"""Whether backups without a signature of a trusted key are refused."""
RECIPIENTS: Final = "encryption.recipients"
"""Public keys that backups are encrypted to, separated by blanks or commas."""

KMS_KEYS: Final = "encryption.kms"
"""URIs of keys in key management services that the keys of backups are wrapped by, separated likewise."""

HIDE_DETAILS: Final = "encryption.hideDetails"
"""Whether labels, namespaces and counts are encrypted, which lists of backups show without an identity."""

REPOSITORY_SECRET: Final = "repositories.passwordSecret"  # noqa: S105 - where the password is
"""The Secret with the password of the location's repositories of volumes, in place of the server's."""

_SIGNING: Final = frozenset({TRUSTED_KEYS, KEY_FILE, KEY_SECRET, SIGNER, PUBLIC_KEY, REQUIRE_SIGNATURE})
OWN_SETTINGS: Final = _SIGNING | {RECIPIENTS, KMS_KEYS, HIDE_DETAILS, REPOSITORY_SECRET}
"""What no store is given."""
URL_SETTINGS: Final = (
    TRUSTED_KEYS,
    KEY_FILE,
    SIGNER,
    PUBLIC_KEY,
    REQUIRE_SIGNATURE,
    RECIPIENTS,
    KMS_KEYS,
    HIDE_DETAILS,
)
"""Those that a location's URL may have."""
ENVIRONMENT: Final = {
    "PINNACE_SIGNING_KEY_FILE": KEY_FILE,
    "PINNACE_SIGNER": SIGNER,
    "PINNACE_SIGNER_PUBLIC_KEY": PUBLIC_KEY,
    "PINNACE_TRUSTED_KEYS": TRUSTED_KEYS,
    "PINNACE_REQUIRE_SIGNATURE": REQUIRE_SIGNATURE,
    "PINNACE_RECIPIENTS": RECIPIENTS,
    "PINNACE_KMS_KEYS": KMS_KEYS,
    "PINNACE_HIDE_DETAILS": HIDE_DETAILS,
}
"""Variables that stand for settings of a location without a server, also of a folder, which has no URL."""
DEFAULT_SECRET_KEY: Final = "signing-key.pem"  # noqa: S105 - the name of a key in a Secret


class Signatures(msgspec.Struct, frozen=True, kw_only=True):
    """Who signs the backups of a location, and whose signatures are believed.

    Attributes:
        key: signs; None writes backups without a manifest.
        trusted: the key's own public key too.
        required: backups that no trusted key has signed are refused.
        outside: where a server notes its newest backups.
    """

    key: SigningKey | None = None
    trusted: tuple[PublicKey, ...] = ()
    required: bool = False
    outside: NewestOutside | None = None


def signatures_of(
    config: Mapping[str, str], key_pem: bytes | None = None, outside: NewestOutside | None = None
) -> Signatures:
    """The signatures that the settings of a location ask for.

    Args:
        key_pem: the private key, if it is not in a file that the settings name.
        outside: see `Signatures`.

    Raises:
        StoreConfigError: a setting cannot be obeyed; its text has nothing of a private key.
    """
    try:
        trusted = parse_keys(config.get(TRUSTED_KEYS, ""))
    except BadKey as error:
        raise StoreConfigError(f"config.{TRUSTED_KEYS}: {error}") from error
    if key_pem is None and (path := config.get(KEY_FILE)):
        try:
            key_pem = Path(path).expanduser().read_bytes()
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise StoreConfigError(f"config.{KEY_FILE}: cannot read {path!r}: {reason}") from error
    try:
        key = _signing_key(config, key_pem)
    except BadKey as error:
        raise StoreConfigError(f"the signing key of the location: {error}") from error
    required = parse_bool(config.get(REQUIRE_SIGNATURE, ""))
    if required is None:
        raise StoreConfigError(
            f"config.{REQUIRE_SIGNATURE} is {config[REQUIRE_SIGNATURE]!r}: write true or false"
        )
    trusted = unique_keys([*([key.public] if key is not None else []), *trusted])
    if required and not trusted:
        raise StoreConfigError(
            f"config.{REQUIRE_SIGNATURE} refuses every backup, as no key is trusted: write the public keys"
            f" of those who make backups into config.{TRUSTED_KEYS}"
        )
    return Signatures(key=key, trusted=trusted, required=required, outside=outside)


def _signing_key(config: Mapping[str, str], pem: bytes | None) -> SigningKey | None:
    """The key that signs, if any. Raises BadKey."""
    if not (uri := config.get(SIGNER)):
        return Ed25519Signer.from_pem(pem) if pem is not None else None
    if pem is not None:
        raise BadKey(f"there are two: config.{SIGNER} and one in a file or Secret; remove one")
    public = parse_keys(config.get(PUBLIC_KEY, ""))
    if len(public) != 1:
        raise BadKey(f"config.{SIGNER} needs its public key in config.{PUBLIC_KEY}")
    return ExternalKey(uri, public[0])


def without_signing(location: BackupStorageLocation) -> BackupStorageLocation:
    """The location without its settings of signatures, for a server, which has the key from a Secret."""
    config = {key: value for key, value in location.spec.config.items() if key not in _SIGNING}
    return msgspec.structs.replace(location, spec=msgspec.structs.replace(location.spec, config=config))


def secret_of(config: Mapping[str, str]) -> tuple[str, str] | None:
    """Name and key of the Secret with the signing key; None if the location has none."""
    name, _, key = config.get(KEY_SECRET, "").partition("/")
    return (name, key or DEFAULT_SECRET_KEY) if name else None
