"""The encryption of a location: its recipients, the identities of its readers, key files. (docs/adr/124)"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from pinnace.age.errors import AgeError, InvalidRecipient, MalformedFile, NoIdentityMatches
from pinnace.age.identities import MOST_WRAPPED_BYTES, Identities
from pinnace.age.recipients import Recipient, parse_recipients, wrap_for_all
from pinnace.kms.uris import KMSKey, parse_keys
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.own_settings import HIDE_DETAILS, KMS_KEYS, RECIPIENTS
from pinnace.storage.settings import parse_bool

if TYPE_CHECKING:  # cryptography is loaded where something is encrypted only
    from pinnace.age.x25519 import X25519Identity
    from pinnace.kms.access import KMSAccess

MOST_KEY_FILE_BYTES: Final = 2 * MOST_WRAPPED_BYTES
_COMMENT: Final = "# the key of "
_VERSION: Final = 1
_UNKNOWN: Final = "it is no key file of a version that is known"
MOST_KMS_KEYS: Final = 8


class Encryption(msgspec.Struct, frozen=True, kw_only=True):
    """How the files of a location are encrypted and decrypted.

    Attributes:
        recipients: whose identities open the backups that are made.
        kms_keys: keys of services that open them, too, and those that are read. Without recipients and
            these, plain backups are made.
        identities: open the backups that are read.
        kms_access: the rights to keys of services, for writing and reading; made when it is needed.
        hides_details: the metadata of backups that are made have a plain part only. (`hidden_details`)
    """

    recipients: tuple[Recipient, ...] = ()
    kms_keys: tuple[KMSKey, ...] = ()
    identities: Identities | None = None
    kms_access: "Callable[[], KMSAccess] | None" = None
    hides_details: bool = False

    @property
    def encrypts(self) -> bool:
        """Whether backups that are made are encrypted."""
        return bool(self.recipients or self.kms_keys)

    @property
    def is_used(self) -> bool:
        """Whether backups of the location are expected to be encrypted, or some of them."""
        return self.encrypts or self.identities is not None


def recipients_of(config: Mapping[str, str], *, is_tenants: bool = False) -> tuple[Recipient, ...]:
    """The recipients that the settings of a location name. Raises StoreConfigError.

    Args:
        is_tenants: it is a tenant's location; no programs run for it.
    """
    if RECIPIENTS not in config:
        return ()
    try:
        return parse_recipients(config[RECIPIENTS], simple_only=is_tenants)
    except InvalidRecipient as error:
        raise StoreConfigError(f"config.{RECIPIENTS}: {error}") from None


def kms_keys_of(config: Mapping[str, str]) -> tuple[KMSKey, ...]:
    """The keys of services that the settings of a location name. Raises InvalidKMSKey, StoreConfigError."""
    keys = parse_keys(config.get(KMS_KEYS, ""))
    if len(keys) > MOST_KMS_KEYS:
        raise StoreConfigError(f"config.{KMS_KEYS} names more than {MOST_KMS_KEYS} keys")
    return keys


def hides_details_of(config: Mapping[str, str]) -> bool:
    """Whether the settings of a location hide the details of its backups. Raises StoreConfigError."""
    hides = parse_bool(config.get(HIDE_DETAILS, ""))
    if hides is None:
        raise StoreConfigError(f"config.{HIDE_DETAILS} is {config[HIDE_DETAILS]!r}: write true or false")
    if hides and not (config.get(RECIPIENTS) or config.get(KMS_KEYS)):
        raise StoreConfigError(
            f"config.{HIDE_DETAILS} hides nothing in plain backups: give config.{RECIPIENTS} or"
            f" config.{KMS_KEYS} as well"
        )
    return hides


async def key_file(
    identity: "X25519Identity",
    owner: str,
    recipients: tuple[Recipient, ...],
    wrapped_by_kms: Mapping[str, bytes] = {},
) -> bytes:
    """The file with the identity of one backup, wrapped for the recipients and by keys of services.

    The age program opens it, too: the value of `age` is the base64 of an age file of a file of identities.

    Args:
        owner: the name of the backup, so that its key does not pass for that of another.
        wrapped_by_kms: `kms_secret`, wrapped, by the URI of the key.

    Raises:
        PluginFailed: the plugin of a recipient does not wrap it.
    """
    document: dict[str, object] = {"version": _VERSION}
    text = f"{_COMMENT}{orjson.dumps(owner).decode()}\n{identity.secret_text()}\n"
    if recipients:
        document["age"] = b64encode(await wrap_for_all(text.encode(), recipients)).decode()
    if wrapped_by_kms:
        document["kms"] = [
            {"kms": uri, "ciphertext": b64encode(wrapped).decode()} for uri, wrapped in wrapped_by_kms.items()
        ]
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def kms_secret(identity: "X25519Identity", owner: str) -> bytes:
    """What a key of a service wraps: the identity, and the digest of its backup's name."""
    return f"{identity.secret_text()}\n".encode() + sha256(owner.encode()).digest()


def kms_entries(data: bytes) -> list[tuple[str, bytes]]:
    """URI and wrapped secret of each key of a service in a key file. Raises MalformedFile."""
    try:
        found = _document(data).get("kms", [])
        entries = [(str(each["kms"]), b64decode(each["ciphertext"], validate=True)) for each in found]
    except (LookupError, TypeError, AttributeError, binascii.Error, ValueError):
        raise MalformedFile("the keys of services in it cannot be read") from None
    if len(entries) > MOST_KMS_KEYS:
        raise MalformedFile(f"it names more than {MOST_KMS_KEYS} keys of services")
    return entries


def open_kms_secret(secret: bytes, owner: str | None) -> "X25519Identity":
    """The identity that a key of a service has unwrapped. Raises MalformedFile.

    Args:
        owner: as for `open_key_file`.
    """
    text, _, digest = secret.partition(b"\n")
    if owner is not None and digest != sha256(owner.encode()).digest():
        raise MalformedFile("it is the key file of another backup")
    return _parsed(text)


async def open_key_file(data: bytes, owner: str | None, identities: Identities) -> "X25519Identity":
    """The identity in a key file.

    Args:
        owner: the name of the backup; None for any, as a restore has the key file of its backup.

    Raises:
        NoIdentityMatches: it is for none of the identities.
        MalformedFile: it is damaged, beyond the limits, or of another backup.
        PluginFailed: the plugin of an identity is missing, hangs or fails.
    """
    document = _document(data)
    if "age" not in document and "kms" in document:
        raise NoIdentityMatches
    try:
        wrapped = b64decode(document["age"], validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error):
        wrapped = b""
    if not wrapped:
        raise MalformedFile(_UNKNOWN)
    text = await identities.open(wrapped)
    comment, _, rest = text.partition(b"\n")
    if owner is not None and comment != f"{_COMMENT}{orjson.dumps(owner).decode()}".encode():
        raise MalformedFile("it is the key file of another backup")
    return _parsed(rest)


def _document(data: bytes) -> Mapping[str, Any]:
    """A key file as it is. Raises MalformedFile."""
    try:
        document = orjson.loads(data)
    except ValueError:
        document = None
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise MalformedFile(_UNKNOWN)
    return document


def _parsed(text: bytes) -> "X25519Identity":
    from pinnace.age.x25519 import X25519Identity

    try:
        return X25519Identity.parse(text.decode("ascii").strip())
    except (AgeError, UnicodeDecodeError):
        raise MalformedFile("the key in it cannot be read") from None
