"""Creates an object with a generated name so that a lost answer does no harm.

If the server generates the name, it is unknown after a broken connection whether the object exists, and a
second attempt creates another one. Here the name is generated before the request, in the same form.
"""

import secrets
from contextlib import suppress

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, ConnectionFailed, KubeError, NotFound, ServerFault
from pinnace.kube.resources import APIResource

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LETTERS = 5
_LONGEST_BASE = 58
"""How many characters of `generateName` the API server keeps."""

_TRIES = 4


async def create_generated(
    client: KubeClient, resource: APIResource, body: JSONObject, namespace: str
) -> JSONObject:
    """Create an object whose metadata has `generateName`; return it as the server made it.

    Raises:
        KubeError: it was not created, as far as can be told.
    """
    name = _generated(body)
    failure: KubeError | None = None
    for _ in range(_TRIES):
        named = {**body, "metadata": {**body["metadata"], "name": name}}
        try:
            return await client.create(resource, named, namespace)
        except AlreadyExists:
            if failure is not None:
                # An earlier attempt, whose answer was lost, was carried out late.
                return await client.get(resource, name, namespace)
            name = _generated(body)  # taken by another object, by a rare accident
        except (ConnectionFailed, ServerFault) as error:
            failure = error
            with suppress(NotFound):
                return await client.get(resource, name, namespace)
    raise failure or AlreadyExists(409, reason="AlreadyExists", message=f"{name} already exists")


def _generated(body: JSONObject) -> str:
    suffix = "".join(secrets.choice(_LETTERS) for _ in range(_SUFFIX_LETTERS))
    return f"{body['metadata']['generateName'][:_LONGEST_BASE]}{suffix}"
