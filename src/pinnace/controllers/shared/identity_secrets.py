"""Reads the identities that a Restore names, for an encrypted backup: those in a Secret. (docs/adr/124)"""

import base64
import binascii
from typing import Final

from pinnace.age.errors import InvalidIdentity
from pinnace.age.identities import Identities
from pinnace.aio.blocking import in_thread
from pinnace.api.labels import IDENTITY_SECRET
from pinnace.api.nonadmin.names import Origin, is_object_name
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.restore import Restore
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import SECRETS
from pinnace.storage.key_errors import IdentityMissing, IdentityRefused

MOST_VALUE_BYTES: Final = 8 << 10
"""An RSA key with 8,192 bits has less; one with 65,536 would hold the interpreter for minutes."""


class IdentitySecretUnusable(Exception):
    """The Secret that a Restore names has no identity that can be used; the text names both."""


async def identities_of(client: KubeClient, namespace: str, restore: Restore) -> Identities | None:
    """The identities that open the backup of a Restore; None if it names none.

    Each value of the Secret is a file of identities of age, or an ssh key; none may have a passphrase.

    Args:
        namespace: of the server. The Secret is there, or in that of the tenant whose request the Restore is.

    Raises:
        IdentitySecretUnusable
        KubeError: the Secret cannot be asked for.
    """
    if not (name := restore.metadata.annotations.get(IDENTITY_SECRET, "")):
        return None
    what, namespace = f"the annotation {IDENTITY_SECRET} names Secret {name!r}", _place(restore, namespace)
    if not is_object_name(name):
        raise IdentitySecretUnusable(f"{what}, which is not the name of a Secret")
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
            content = base64.b64decode(text(data, key), validate=True)
            if len(content) > MOST_VALUE_BYTES:
                raise InvalidIdentity(f"it has more than {MOST_VALUE_BYTES} bytes")
            found.append(Identities.parse(content))
        except InvalidIdentity as error:
            raise InvalidIdentity(f"key {key!r}: {error}") from None
        except binascii.Error:
            raise InvalidIdentity(f"key {key!r}: it is not base64") from None
    return Identities.joined(found)


def _place(restore: Restore, namespace: str) -> str:
    """The namespace of the Secret that a Restore names: a tenant's own, for the Restore of a tenant."""
    return restore.metadata.annotations.get(Origin.RESTORE.namespace_annotation, namespace)


def with_remedy(error: IdentityMissing | IdentityRefused, restore: Restore, namespace: str) -> str:
    """Why the backup of a Restore cannot be opened, and what to do.

    Args:
        namespace: of the server.
    """
    name = restore.metadata.annotations.get(IDENTITY_SECRET, "")
    if name:
        return f"{error.reason}: the annotation {IDENTITY_SECRET} names Secret {name!r}"
    place = _place(restore, namespace)
    kind, command = ("Restore", "") if place == namespace else ("NonAdminRestore", "nonadmin ")
    return (
        f"{error.reason}: put one into a Secret of namespace {place}, and name that in the annotation"
        f" {IDENTITY_SECRET} of the {kind} (`{command}restore create --identity-secret NAME`)"
    )
