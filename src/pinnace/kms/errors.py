"""The errors of key management services.

KMSError             the base, a StorageError; one line of text that holds no secret
├── InvalidKMSKey    the URI of a key cannot be used
├── KMSUnavailable   the service did not answer in time, or failed by itself: try again later
└── KMSRefused       it refused: the text names its code and what to do
"""

from pinnace.notices.codes import Code
from pinnace.notices.notice import Coded
from pinnace.store_access.errors import StorageError


class KMSError(Coded, StorageError):
    """Base of the errors of key management services."""

    notice_code = Code.KMS_REFUSED


class InvalidKMSKey(KMSError):
    """The URI names no key of a service that is known, or none that may be used here."""

    notice_code = Code.KMS_KEY_INVALID


class KMSUnavailable(KMSError):
    """The service did not answer in time, or failed by itself."""

    notice_code = Code.KMS_UNAVAILABLE


class KMSRefused(KMSError):
    """The service refused, or its answer cannot be used."""
