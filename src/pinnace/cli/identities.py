"""The identities that the user gives to open encrypted backups, and the passphrases of these."""

import getpass
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pinnace.age.errors import InvalidIdentity
from pinnace.age.identities import Identities
from pinnace.aio.small_files import read_small_file
from pinnace.cli.errors import InvalidInput
from pinnace.cli.plugin_dialog import TerminalDialog
from pinnace.cli.settings import Settings
from pinnace.kms.errors import InvalidKMSKey
from pinnace.storage.encryption import Encryption, kms_keys_of
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.own_settings import ENVIRONMENT, KMS_KEYS

if TYPE_CHECKING:
    from pinnace.kms.access import KMSAccess

_KMS_KEYS: Final = next(name for name, setting in ENVIRONMENT.items() if setting == KMS_KEYS)
_PASSPHRASE_FILE: Final = "PINNACE_IDENTITY_PASSPHRASE_FILE"  # noqa: S105 - the name of a variable


def given_identities(settings: Settings) -> Identities | None:
    """The identities in the file of the settings; None if there is none. Raises InvalidInput."""
    if not settings.identity_file:
        return None
    path = os.path.expanduser(settings.identity_file)
    try:
        return Identities.parse(read_small_file(Path(path)), _passphrase, TerminalDialog())
    except OSError as error:
        raise InvalidInput(f"cannot read the identity file {path!r}: {error.strerror}") from error
    except InvalidIdentity as error:
        raise InvalidInput(f"the identity file {path!r} cannot be used: {error}") from error


def reading_encryption(settings: Settings) -> Encryption:
    """The identities of the settings, and the keys of services that PINNACE_KMS_KEYS names. (docs/adr/126)

    Raises:
        InvalidInput: one of them cannot be read.
    """
    try:
        kms_keys = kms_keys_of({KMS_KEYS: os.environ.get(_KMS_KEYS, "")})
    except (InvalidKMSKey, StoreConfigError) as error:
        raise InvalidInput(f"{_KMS_KEYS}: {error}") from error
    return Encryption(kms_keys=kms_keys, identities=given_identities(settings), kms_access=_kms_access)


def _kms_access() -> "KMSAccess":
    from pinnace.kms.access import KMSAccess  # loads HTTP, and few have keys in a service

    return KMSAccess()


def _passphrase(what: str) -> str:
    """From the file of the variable, else asked for on the terminal. Raises InvalidIdentity."""
    if path := os.environ.get(_PASSPHRASE_FILE):
        try:
            return read_small_file(Path(path)).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            raise InvalidIdentity(f"the file that {_PASSPHRASE_FILE} names cannot be read") from None
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidIdentity(
            f"{what} is protected by a passphrase: run the command on a terminal, or name a file with the"
            f" passphrase by {_PASSPHRASE_FILE}"
        )
    return getpass.getpass(f"Passphrase of {what}: ")
