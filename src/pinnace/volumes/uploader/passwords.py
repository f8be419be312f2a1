"""The password of the repositories: one Secret for all of a server. (docs/spec: PVL 2, ADR 126)

Velero names the Secret `velero-repo-credentials` since 1.10, and `velero-restic-credentials` before. At its
start the server creates the one that is not there with the password of the other. Repositories of restic are
older than the new name, so the old Secret counts first for them; those of kopia are younger.

Velero's default is public: it hides nothing from users who can read the bucket. A location may name a Secret
of its own. While the password is changed, the Secret has two: `operations.changing_password` has the steps.
"""

import base64
import binascii
import enum
import secrets
from contextlib import suppress
from typing import Final

from pinnace.api.objects import JSONObject, mapping
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import SECRETS
from pinnace.storage.errors import StoreConfigError
from pinnace.volumes.secrets import read_secret
from pinnace.volumes.uploader.errors import AccessError, PasswordMissing

SECRET_NAME: Final = "velero-restic-credentials"  # noqa: S105 - a name
REPOSITORY_SECRET_NAME: Final = "velero-repo-credentials"  # noqa: S105 - a name
SECRET_KEY: Final = "repository-password"  # noqa: S105 - a name

PUBLIC_PASSWORD: Final = b"static-passw0rd"
"""The password that Velero gives all repositories unless a Secret has another. (docs/spec: SRV 4)"""

LEGACY_FIRST: Final = (SECRET_NAME, REPOSITORY_SECRET_NAME)
"""The order for restic."""
NEW_FIRST: Final = (REPOSITORY_SECRET_NAME, SECRET_NAME)
"""The order for kopia."""

_RANDOM_BYTES: Final = 32


class Password(enum.StrEnum):
    """One of the passwords that a repository may have. The first three stand in the Secret."""

    CURRENT = "repository-password"
    NEXT = "next-repository-password"
    FORMER = "former-repository-password"
    PUBLIC = "public"


OWN_PASSWORDS: Final = (Password.CURRENT, Password.NEXT, Password.FORMER)
"""Those that volumes are saved under: nobody else knows them."""


async def read_password(
    client: KubeClient,
    namespace: str,
    names: tuple[str, ...] = LEGACY_FIRST,
    password: Password = Password.CURRENT,
) -> bytes:
    """The password as it is now, without white space at its ends.

    Args:
        names: of the Secrets that may have it; the first that is there counts.
        password: which one of the Secret.

    Raises:
        AccessError: there is none, or it cannot be read.
    """
    what = "error creating temp restic credentials file: unable to get key for secret"
    for name in names:
        try:
            secret = await read_secret(client, name, namespace)
        except StoreConfigError as error:
            raise AccessError(f"{what}: {error}") from error
        if secret is None:
            continue
        found = secret.get(password, b"").strip()
        if not found:
            raise PasswordMissing(f'{what}: "{name}" secret is missing data for key "{password}"')
        return found
    raise PasswordMissing(f'{what}: Secret "{names[0]}" not found in namespace "{namespace}"')


def new_password() -> bytes:
    """A random password of 256 bits, in characters that every terminal and file keeps."""
    return secrets.token_urlsafe(_RANDOM_BYTES).encode()


async def read_secrets(
    client: KubeClient, namespace: str, names: tuple[str, ...] = LEGACY_FIRST
) -> dict[str, JSONObject]:
    """The Secrets with the password, by name; those that are not there are left out. Raises KubeError."""
    found: dict[str, JSONObject] = {}
    for name in names:
        with suppress(NotFound):
            found[name] = await client.get(SECRETS, name, namespace)
    return found


def with_public_password(found: dict[str, JSONObject]) -> list[str]:
    """The names of the Secrets that have Velero's public password."""
    return [name for name, secret in found.items() if _is_public(mapping(secret, "data").get(SECRET_KEY))]


def _is_public(encoded: object) -> bool:
    try:
        return base64.b64decode(str(encoded or ""), validate=True).strip() == PUBLIC_PASSWORD
    except binascii.Error:
        return False
