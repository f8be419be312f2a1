"""Reads the identities that a Restore names, for an encrypted backup: those in a Secret. (docs/adr/124)"""

import base64
import binascii

from pinnace.age.errors import InvalidIdentity
from pinnace.age.identities import Identities
from pinnace.aio.blocking import in_thread
from pinnace.api.labels import IDENTITY_SECRET
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.restore import Restore
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import SECRETS
from pinnace.storage.key_opening import IdentityMissing, IdentityRefused


class IdentitySecretUnusable(Exception):
    """The Secret that a Restore names has no identity that can be used; the text names both."""


async def identities_of(client: KubeClient, namespace: str, restore: Restore) -> Identities | None:
    """The identities that open the backup of a Restore; None if it names none.

    Each value of the Secret is a file of identities of age, or an ssh key; none may have a passphrase.

    Args:
        namespace: of the server, and of the Secret.

    Raises:
        IdentitySecretUnusable
        KubeError: the Secret cannot be asked for.
    """
    if not (name := restore.metadata.annotations.get(IDENTITY_SECRET, "")):
        return None
    what = f"the annotation {IDENTITY_SECRET} names Secret {name!r}"
    try:
        secret = await client.get(SECRETS, name, namespace)
    except NotFound:
        raise IdentitySecretUnusable(f"{what}, which is not in namespace {namespace}") from None
    try:
        return await in_thread(_parsed, mapping(secret, "data"))
    except InvalidIdentity as error:
        raise IdentitySecretUnusable(f"{what}, which cannot be used: {error}") from None


def _parsed(data: JSONObject) -> Identities:
    """All identities in the values of a Secret. Raises InvalidIdentity, whose text has nothing of a value."""
    found: list[Identities] = []
    for key in sorted(data):
        try:
            found.append(Identities.parse(base64.b64decode(text(data, key), validate=True)))
        except InvalidIdentity as error:
            raise InvalidIdentity(f"key {key!r}: {error}") from None
        except binascii.Error:
            raise InvalidIdentity(f"key {key!r}: it is not base64") from None
    return Identities.joined(found)


def with_remedy(error: IdentityMissing | IdentityRefused, restore: Restore, namespace: str) -> str:
    """Why the backup of a Restore cannot be opened, and what to do."""
    name = restore.metadata.annotations.get(IDENTITY_SECRET, "")
    if name:
        return f"{error.reason}: the annotation {IDENTITY_SECRET} names Secret {name!r}"
    return (
        f"{error.reason}: put one into a Secret of namespace {namespace}, and name that in the annotation"
        f" {IDENTITY_SECRET} of the Restore (`restore create --identity-secret NAME`)"
    )
