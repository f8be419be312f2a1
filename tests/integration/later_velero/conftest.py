"""A separate cluster with the definitions of Velero 1.18."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.controllers.sync import backup_sync
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, velero
from tests.support.cluster.connect import Connect
from tests.support.cluster.velero_definitions import definitions_of_velero_1_18
from tests.support.servers.sites import Serve, Site, running
from tests.support.waiting import eventually

__all__ = ["Serve"]


@pytest.fixture(scope="module")
def velero_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster that is not shared with other folders, as those have our definitions."""
    plane = ControlPlane(tmp_path_factory.mktemp("cluster-velero"), name="velero")
    plane.start()
    yield plane
    plane.remove()


@pytest.fixture
async def velero_client(velero_plane: ControlPlane, connect: Connect) -> KubeClient:
    """A client of that cluster, once it serves the definitions; they are as they were at first."""
    client = await connect(velero_plane)
    for definition in definitions_of_velero_1_18():
        name = definition["metadata"]["name"]
        try:
            stored = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        except NotFound:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        else:
            stored["spec"]["versions"] = definition["spec"]["versions"]
            await client.replace(CUSTOM_RESOURCE_DEFINITIONS, name, stored)

    async def served() -> bool:
        try:
            for definition in definitions_of_velero_1_18():
                await client.list_all(velero(definition["spec"]["names"]["plural"]), "default")
        except NotFound:
            return False
        return True

    await eventually(served)
    return client


@pytest.fixture
async def site(velero_client: KubeClient, tmp_path: Path) -> AsyncIterator[Site]:
    """A namespace of that cluster, without a server."""
    name = f"test-{secrets.token_hex(4)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await velero_client.create(NAMESPACES, body)
    yield Site(velero_client, name, tmp_path)
    await velero_client.delete(NAMESPACES, name)


@pytest.fixture
async def server(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """A server of that namespace runs, and looks often for what is to be synced."""
    monkeypatch.setattr(backup_sync, "PERIOD_SECONDS", 0.5)
    async with running(site.client, site.namespace, tmp_path):
        yield
