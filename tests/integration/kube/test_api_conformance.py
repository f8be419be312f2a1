"""The real API server against the tests that the scripted one passes too."""

import asyncio
import json
import secrets
import urllib.request
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Conflict, NotFound
from pinnace.kube.resources import NAMESPACES
from tests.support.cluster.api_conformance import APIConformance, Compact
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
        with suppress(Conflict, NotFound):  # it is going already
            await client.delete(NAMESPACES, name)

    @pytest.fixture
    def compact(self, control_plane: ControlPlane) -> Compact:
        def ask(what: str, **message: object) -> dict[str, Any]:
            url = f"{control_plane.etcd_url}/v3/kv/{what}"
            request = urllib.request.Request(url, json.dumps(message).encode())
            with urllib.request.urlopen(request, timeout=30) as answer:
                found: dict[str, Any] = json.load(answer)
            return found

        async def compact() -> None:
            now = await asyncio.to_thread(ask, "range", key="AA==")
            await asyncio.to_thread(ask, "compaction", revision=now["header"]["revision"], physical=True)

        return compact
