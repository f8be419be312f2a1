"""Asks a server for its version and plugins by a ServerStatusRequest. (docs/spec: CLI 8.2)"""

import asyncio
from typing import TYPE_CHECKING

from pinnace.api.objects import JSONObject, objects, text
from pinnace.api.values.digits import is_digits
from pinnace.kube.resources import SERVER_STATUS_REQUESTS

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient


POLL_SECONDS = 0.25
_PROVIDER = "pinnace.io/filesystem"


async def ask_server(client: "KubeClient", namespace: str, timeout_seconds: float) -> JSONObject:
    """Make a ServerStatusRequest and wait for the answer to it.

    Returns:
        The request as it was last seen; `answered` tells whether the server answered in time.

    Raises:
        KubeError: the request could not be made or read.
    """
    resource = SERVER_STATUS_REQUESTS
    request = {
        "apiVersion": "velero.io/v1",
        "kind": "ServerStatusRequest",
        "metadata": {"generateName": "velero-cli-", "namespace": namespace},
        "spec": {},
    }
    answer = await client.create(resource, request, namespace)
    try:
        async with asyncio.timeout(timeout_seconds):
            while not answered(answer):
                await asyncio.sleep(POLL_SECONDS)
                answer = await client.get(resource, answer["metadata"]["name"], namespace)
    except TimeoutError:
        return answer
    return answer


def answered(request: JSONObject) -> bool:
    """Whether a server has answered the request."""
    return (request.get("status") or {}).get("phase") == "Processed"


def is_ours(request: JSONObject) -> bool:
    """Whether a Pinnace server answered: it names a provider that no other server has built in."""
    return any(text(plugin, "name") == _PROVIDER for plugin in objects(request, "status", "plugins"))


def older_side(client: str, server: str) -> str:
    """`client` or `server`: whose major.minor is the older; empty if they are equal. (docs/spec: CLI 8.2)"""
    client_version, server_version = _major_minor(client), _major_minor(server)
    if client_version == server_version:
        return ""
    return "server" if client_version > server_version else "client"


def _major_minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.lstrip("v").split(".")[:2] if is_digits(part))
