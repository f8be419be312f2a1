"""The encryption of a location: its recipients, the identities of its readers, key files. (docs/adr/124)"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
import orjson

from pinnace.age.errors import AgeError, InvalidRecipient, MalformedFile
from pinnace.age.identities import MOST_WRAPPED_BYTES, Identities
from pinnace.age.recipients import Recipient, parse_recipients, wrap
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.own_settings import RECIPIENTS

if TYPE_CHECKING:  # cryptography is loaded where something is encrypted only
    from pinnace.age.x25519 import X25519Identity

MOST_KEY_FILE_BYTES: Final = 2 * MOST_WRAPPED_BYTES
_COMMENT: Final = "# the key of "
_VERSION: Final = 1


class Encryption(msgspec.Struct, frozen=True, kw_only=True):
    """How the files of a location are encrypted and decrypted.

    Attributes:
        recipients: whose identities open the backups that are made; none makes plain backups.
        identities: open the backups that are read.
    """

    recipients: tuple[Recipient, ...] = ()
    identities: Identities | None = None

    @property
    def is_used(self) -> bool:
        """Whether backups of the location are expected to be encrypted, or some of them."""
        return bool(self.recipients) or self.identities is not None


def recipients_of(config: Mapping[str, str]) -> tuple[Recipient, ...]:
    """The recipients that the settings of a location name. Raises StoreConfigError."""
    if RECIPIENTS not in config:
        return ()
    try:
        return parse_recipients(config[RECIPIENTS])
    except InvalidRecipient as error:
        raise StoreConfigError(f"config.{RECIPIENTS}: {error}") from None


def key_file(identity: "X25519Identity", owner: str, recipients: tuple[Recipient, ...]) -> bytes:
    """The file with the identity of one backup, wrapped for the recipients.

    The age program opens it, too: the value of `age` is the base64 of an age file of a file of identities.

    Args:
        owner: the name of the backup, so that its key does not pass for that of another.
    """
    text = f"{_COMMENT}{orjson.dumps(owner).decode()}\n{identity.secret_text()}\n"
    wrapped = b64encode(wrap(text.encode(), recipients)).decode()
    return orjson.dumps({"version": _VERSION, "age": wrapped}, option=orjson.OPT_INDENT_2)


def open_key_file(data: bytes, owner: str | None, identities: Identities) -> "X25519Identity":
    """The identity in a key file.

    Args:
        owner: the name of the backup; None for any, as a restore has the key file of its backup.

    Raises:
        NoIdentityMatches: it is for none of the identities.
        MalformedFile: it is damaged, beyond the limits, or of another backup.
    """
    try:
        document = orjson.loads(data)
        is_known = isinstance(document, dict) and document.get("version") == _VERSION
        wrapped = b64decode(document["age"], validate=True) if is_known else b""
    except (ValueError, KeyError, TypeError, binascii.Error):
        wrapped = b""
    if not wrapped:
        raise MalformedFile("it is no key file of a version that is known")
    text = identities.unwrap(wrapped)
    comment, _, rest = text.partition(b"\n")
    if owner is not None and comment != f"{_COMMENT}{orjson.dumps(owner).decode()}".encode():
        raise MalformedFile("it is the key file of another backup")
    from pinnace.age.x25519 import X25519Identity

    try:
        return X25519Identity.parse(rest.decode("ascii").strip())
    except (AgeError, UnicodeDecodeError):
        raise MalformedFile("the key in it cannot be read") from None
