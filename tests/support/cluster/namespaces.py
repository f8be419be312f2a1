"""Namespaces that go away with all that is in them."""

import asyncio
import http.client
import json
from base64 import b64decode, b64encode
from typing import Any
from urllib.parse import urlsplit

from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES
from tests.support.waiting import eventually

GONE_SECONDS = 180.0
_ROOT = "/registry/"
_STORE_SECONDS = 60.0


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


async def erase_namespace(plane: ControlPlane, client: KubeClient, name: str) -> None:
    """Delete a namespace and all that is in it from the store of a cluster without nodes, at once.

    That costs some milliseconds. The namespace controller begins five seconds later and asks for each kind of
    the cluster: a tenth of a second of processor time for each test. Clients and controllers see the same
    events; finalizers are not waited for. Services are deleted through the API server, which keeps their
    addresses and ports. Nothing happens if there is no such namespace.
    """
    everything = {"key": _encoded(_ROOT), "range_end": _encoded(_end_of(_ROOT)), "keys_only": True}
    found = await asyncio.to_thread(_ask, plane, "range", everything)
    keys = [b64decode(each["key"]).decode() for each in found.get("kvs", ())]
    services = f"{_ROOT}services/specs/{name}/"
    for key in keys:
        if key.startswith(services):
            await client.delete(SERVICES, key.removeprefix(services), name)
    folder = f"/{name}/"
    within = {before + folder for before, inside, _ in (key.partition(folder) for key in keys) if inside}
    # First itself: while it is there, controllers would make its service account and config map again.
    await asyncio.to_thread(_ask, plane, "deleterange", {"key": _encoded(f"{_ROOT}namespaces/{name}")})
    for prefix in within:
        area = {"key": _encoded(prefix), "range_end": _encoded(_end_of(prefix))}
        await asyncio.to_thread(_ask, plane, "deleterange", area)


def _ask(plane: ControlPlane, call: str, body: dict[str, Any]) -> dict[str, Any]:
    """Call etcd through its gateway for JSON."""
    connection = http.client.HTTPConnection(urlsplit(plane.etcd_url).netloc, timeout=_STORE_SECONDS)
    try:
        connection.request("POST", f"/v3/kv/{call}", json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        decoded: dict[str, Any] = json.loads(text)
        return decoded
    finally:
        connection.close()


def _encoded(key: str) -> str:
    return b64encode(key.encode()).decode()


def _end_of(prefix: str) -> str:
    """The first key after all that begin with the prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
