"""Namespaces that go away with all that is in them."""

from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PODS
from tests.support.waiting import eventually

GONE_SECONDS = 180.0


async def delete_namespace(client: KubeClient, name: str) -> None:
    """Delete a namespace, and return when it is gone.

    The namespace controller begins five seconds later, and looks again after five more at each thing that
    does not go at once: pods that end, claims that are in use. They are deleted here right away, so that it
    finds none.
    """
    await client.delete(NAMESPACES, name)
    for resource in (PODS, PERSISTENT_VOLUME_CLAIMS):
        await client.request("DELETE", resource.path(name))

    async def gone() -> bool:
        try:
            await client.get(NAMESPACES, name)
        except NotFound:
            return True
        return False

    await eventually(gone, timeout_seconds=GONE_SECONDS)
