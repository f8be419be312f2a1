"""The password of the repositories: one Secret for all of a server. (docs/spec: PVL 2)

Velero names the Secret `velero-repo-credentials` since 1.10, and `velero-restic-credentials` before. At its
start the server creates the one that is not there with the password of the other, or both with Velero's
default, which is public: it hides nothing from users who can read the bucket. Repositories of restic are
older than the new name, so the old Secret counts first for them; those of kopia are younger.
"""

from typing import Final

from pinnace.kube.client import KubeClient
from pinnace.storage.errors import StoreConfigError
from pinnace.volumes.secrets import read_secret
from pinnace.volumes.uploader.errors import AccessError

SECRET_NAME: Final = "velero-restic-credentials"  # noqa: S105 - a name
REPOSITORY_SECRET_NAME: Final = "velero-repo-credentials"  # noqa: S105 - a name
SECRET_KEY: Final = "repository-password"  # noqa: S105 - a name

LEGACY_FIRST: Final = (SECRET_NAME, REPOSITORY_SECRET_NAME)
"""The order for restic."""
NEW_FIRST: Final = (REPOSITORY_SECRET_NAME, SECRET_NAME)
"""The order for kopia."""


async def read_password(client: KubeClient, namespace: str, names: tuple[str, ...] = LEGACY_FIRST) -> bytes:
    """The password as it is now, without white space at its ends.

    Args:
        names: of the Secrets that may have it; the first that is there counts.

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
        password = secret.get(SECRET_KEY, b"").strip()
        if not password:
            raise AccessError(f'{what}: "{name}" secret is missing data for key "{SECRET_KEY}"')
        return password
    raise AccessError(f'{what}: Secret "{names[0]}" not found in namespace "{namespace}"')
