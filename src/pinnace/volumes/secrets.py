"""Secrets of the server's namespace, decoded."""

import base64
import binascii
from collections.abc import Mapping

from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import SECRETS
from pinnace.storage.errors import StoreConfigError


async def read_secret(client: KubeClient, name: str, namespace: str) -> Mapping[str, bytes] | None:
    """The data of a Secret; None if there is no such Secret.

    Raises:
        StoreConfigError: it cannot be read, with the API's text; or holds something that is not base64.
    """
    try:
        secret = await client.get(SECRETS, name, namespace)
    except NotFound:
        return None
    except KubeError as error:
        raise StoreConfigError(str(error)) from error
    try:
        data = secret.get("data") or {}
        return {key: base64.b64decode(value, validate=True) for key, value in data.items()}
    except (binascii.Error, TypeError) as error:
        raise StoreConfigError(f"Secret {name} holds something that is not base64") from error
