"""The errors of encrypted files and their keys.

A module of its own, which loads no library: commands that read what others have opened know these errors too.
"""

from typing import Final

from pinnace.kms.errors import InvalidKMSKey, KMSRefused
from pinnace.notices.codes import Code
from pinnace.notices.notice import Coded
from pinnace.storage.errors import StorageError, UnreadableObject


class IdentityMissing(Coded, UnreadableObject):
    """A file is encrypted, and no identity was given."""

    notice_code = Code.IDENTITY_MISSING


class IdentityRefused(Coded, UnreadableObject):
    """A file is encrypted, and none of the given identities opens it."""

    notice_code = Code.IDENTITY_REFUSED


class EncryptionBroken(Coded, UnreadableObject):
    """An encrypted file, or a key file, is not as it was written."""

    notice_code = Code.ENCRYPTION_BROKEN


class AgePluginFailed(Coded, StorageError):
    """A plugin program of age does not wrap or unwrap the key of a backup."""

    notice_code = Code.AGE_PLUGIN_FAILED


NOT_OPENED: Final = (IdentityMissing, IdentityRefused, KMSRefused, InvalidKMSKey)
"""The errors that say that a file is encrypted and that whoever reads here has no key to it."""
