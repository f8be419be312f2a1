"""Sizes of age files. A module of its own, which loads no library."""

from typing import Final

CHUNK_BYTES: Final = 64 << 10
TAG_BYTES: Final = 16
SEALED_BYTES: Final = CHUNK_BYTES + TAG_BYTES
NONCE_BYTES: Final = 16
OWN_HEAD_BYTES: Final = 184
"""Header and nonce of a file to one X25519 recipient."""


def sealed_size(plain_bytes: int) -> int:
    """The size of the file to one X25519 recipient that has so many bytes of content."""
    chunks = max(1, -(-plain_bytes // CHUNK_BYTES))
    return OWN_HEAD_BYTES + plain_bytes + chunks * TAG_BYTES


def content_size(sealed_bytes: int) -> int:
    """The size of the content of a file to one X25519 recipient; 0 for one that is cut off in its header."""
    chunk_bytes = max(0, sealed_bytes - OWN_HEAD_BYTES)
    return max(0, chunk_bytes - -(-chunk_bytes // SEALED_BYTES) * TAG_BYTES)
