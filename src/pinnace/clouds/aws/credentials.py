"""The credentials that requests to AWS are signed with."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

import msgspec

REFRESH_BEFORE = timedelta(minutes=5)
"""Temporary credentials are renewed this long before they expire, so that no upload outlives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """Credentials to sign a request with. The secrets are kept out of the representation."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class CredentialSource(Protocol):
    """A source of the credentials for each request."""

    async def get(self) -> AccessKey:
        """The credentials to sign with now. Raises StorageError."""
        ...


class FixedCredentials(msgspec.Struct, frozen=True):
    """Credentials that never change."""

    credentials: AccessKey

    async def get(self) -> AccessKey:
        """Always the same."""
        return self.credentials
