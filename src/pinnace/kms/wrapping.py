"""Wraps and unwraps the key of a backup by the URI of a key in a key management service."""

from collections.abc import Awaitable, Callable
from typing import Final

from pinnace.kms import aws, azure, gcp, vault
from pinnace.kms.access import KMSAccess, within_deadline
from pinnace.kms.errors import KMSError, KMSRefused
from pinnace.kms.uris import AWS, AZURE, GOOGLE, VAULT, KMSKey, parse_key
from pinnace.store_access.errors import StorageError, StoreUnavailable

MOST_SECRET_BYTES: Final = 128
"""Every service takes this much: an RSA key of 2,048 bits wraps 190 bytes."""
MOST_WRAPPED_BYTES: Final = 8192

_Work = Callable[[KMSAccess, KMSKey, bytes, str], Awaitable[bytes]]
_WRAP: Final[dict[str, _Work]] = {
    AWS: aws.wrap,
    GOOGLE: gcp.wrap,
    AZURE: azure.wrap,
    VAULT: vault.wrap,
}
_UNWRAP: Final[dict[str, _Work]] = {
    AWS: aws.unwrap,
    GOOGLE: gcp.unwrap,
    AZURE: azure.unwrap,
    VAULT: vault.unwrap,
}


async def wrap(uri: str, secret: bytes, access: KMSAccess) -> bytes:
    """The secret, encrypted by the key: what `unwrap` takes. The right to encrypt is enough.

    Args:
        secret: at most 128 bytes.

    Raises:
        KMSError: the key cannot be used; the text names it and what to do.
    """
    key, what = parse_key(uri), f"the key of the backup cannot be wrapped by {uri}"
    if not 0 < len(secret) <= MOST_SECRET_BYTES:
        raise ValueError("a secret has 1 to 128 bytes")
    wrapped = await _done(_WRAP, access, key, secret, what)
    if len(wrapped) > MOST_WRAPPED_BYTES:
        raise KMSRefused(f"{what}: the answer is too long")
    return wrapped


async def unwrap(uri: str, wrapped: bytes, access: KMSAccess) -> bytes:
    """The secret that was wrapped by the key.

    Args:
        uri, wrapped: may be hostile, as they come out of a bucket.

    Raises:
        KMSError: the key cannot be used, or did not wrap this.
    """
    key, what = parse_key(uri), f"the key of the backup cannot be unwrapped by {uri}"
    if not 0 < len(wrapped) <= MOST_WRAPPED_BYTES:
        raise KMSRefused(f"{what}: what was wrapped has {len(wrapped)} bytes")
    secret = await _done(_UNWRAP, access, key, wrapped, what)
    if not 0 < len(secret) <= MOST_SECRET_BYTES:
        raise KMSRefused(f"{what}: what was wrapped is not the key of a backup")
    return secret


async def _done(table: dict[str, _Work], access: KMSAccess, key: KMSKey, data: bytes, what: str) -> bytes:
    try:
        return await within_deadline(access, what, table[key.service](access, key, data, what))
    except (KMSError, StoreUnavailable):
        raise
    except StorageError as error:  # of credentials
        raise KMSRefused(f"{what}: {error}") from error
