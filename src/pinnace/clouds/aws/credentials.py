"""What requests to AWS are signed with."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

import msgspec

REFRESH_BEFORE = timedelta(minutes=5)
"""Temporary credentials are renewed this long before they end, so that no upload outlives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a request is signed with. The secrets are kept out of the representation."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class CredentialSource(Protocol):
    """Where the credentials for each request come from."""

    async def get(self) -> Credentials:
        """The credentials to sign with now. Raises StorageError."""
        ...


class FixedCredentials(msgspec.Struct, frozen=True):
    """Credentials that never change."""

    credentials: Credentials

    async def get(self) -> Credentials:
        """Always the same."""
        return self.credentials
