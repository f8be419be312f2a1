"""Servers inside the test's process, with everything but a lease, on a real API server."""

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import NAMESPACES
from pinnace.server.app import Assembly
from tests.support.cluster.namespaces import erase_namespace
from tests.support.servers.sites import Serve, Site, StartProxy, running


@pytest.fixture
async def site(client: KubeClient, namespace: str, velero_crds: None, tmp_path: Path) -> Site:
    """The test's namespace, without a server."""
    return Site(client, namespace, tmp_path)


@pytest.fixture
async def other_namespace(control_plane: ControlPlane, client: KubeClient) -> AsyncIterator[str]:
    """A namespace that is not the server's."""
    name = f"other-{secrets.token_hex(4)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.create(NAMESPACES, body)
    yield name
    await erase_namespace(control_plane, client, name)


@pytest.fixture
async def serve(site: Site, fault_proxy: StartProxy, tmp_path: Path) -> AsyncIterator[Serve]:
    """A function that starts a server of the site; it runs until the end of the test.

    It ends before its proxies, as work in flight would wait for them in vain.
    """
    async with AsyncExitStack() as stack:

        async def start(*, client: KubeClient | None = None, **options: Any) -> Assembly:
            return await stack.enter_async_context(
                running(client or site.client, site.namespace, tmp_path, **options)
            )

        yield start
