"""The password of the repositories: one Secret for all of a server. (docs/spec: PVL 2)

The server creates the Secret at its start if there is none, with Velero's default, which is public: it hides
nothing from users who can read the bucket. An existing Secret with another password is used unchanged.
"""

from typing import Final

from pinnace.kube.client import KubeClient
from pinnace.storage.errors import StoreConfigError
from pinnace.volumes.restic.errors import AccessError
from pinnace.volumes.secrets import read_secret

SECRET_NAME: Final = "velero-restic-credentials"  # noqa: S105 - a name
SECRET_KEY: Final = "repository-password"  # noqa: S105 - a name


async def read_password(client: KubeClient, namespace: str) -> bytes:
    """The password as it is now.

    Raises:
        AccessError: there is none, or it cannot be read.
    """
    what = "error creating temp restic credentials file: unable to get key for secret"
    try:
        secret = await read_secret(client, SECRET_NAME, namespace)
    except StoreConfigError as error:
        raise AccessError(f"{what}: {error}") from error
    if secret is None:
        raise AccessError(f'{what}: Secret "{SECRET_NAME}" not found in namespace "{namespace}"')
    password = secret.get(SECRET_KEY)
    if not password:
        raise AccessError(f'{what}: "{SECRET_NAME}" secret is missing data for key "{SECRET_KEY}"')
    return password
