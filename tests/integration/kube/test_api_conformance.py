"""The real API server against the tests that the scripted one passes too."""

import secrets
from collections.abc import AsyncIterator

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import NAMESPACES
from tests.support.cluster.api_conformance import APIConformance
from tests.support.cluster.connect import Connect


class TestConformance(APIConformance):
    @pytest.fixture
    async def client(self, connect: Connect, control_plane: ControlPlane) -> KubeClient:
        return await connect(control_plane)

    @pytest.fixture
    async def namespace(self, client: KubeClient) -> AsyncIterator[str]:
        name = f"conformance-{secrets.token_hex(4)}"
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield name
        await client.delete(NAMESPACES, name)
