"""Fixtures for the whole program with a server: a namespace with a location, servers, commands."""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.proxy import FaultProxy
from pinnace.kube.client import KubeClient
from tests.e2e.server_process import ServerProcess
from tests.e2e.without_server.command import Pinnace
from tests.support.servers.homes import PASSWORD, Home, NewServer


@pytest.fixture
async def home(client: KubeClient, namespace: str, velero_crds: None, tmp_path: Path) -> Home:
    """A furnished namespace without a server."""
    made = Home(client, namespace, tmp_path)
    await made.furnish()
    return made


@pytest.fixture
async def new_server(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[NewServer]:
    """A function that starts a server of the namespace; all are killed at the end of the test."""
    async with AsyncExitStack() as stack:

        async def start(
            *arguments: str, via: FaultProxy | None = None, grace_seconds: float | None = None
        ) -> ServerProcess:
            kubeconfig = control_plane.kubeconfig
            if via is not None:
                kubeconfig = control_plane.write_kubeconfig(tmp_path / "through-proxy", server=via.url)
            server = ServerProcess(
                tmp_path, kubeconfig, "-n", namespace, *arguments, grace_seconds=grace_seconds
            )
            await server.start()
            stack.push_async_callback(server.kill)
            return server

        yield start


@pytest.fixture
def command(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Callable[..., Any]:
    """The `pinnace` command for the server of the namespace."""
    folder = tmp_path / "command"
    folder.mkdir()
    environ = {"VELERO_NAMESPACE": namespace}
    return Pinnace(
        folder,
        kubeconfig=control_plane.kubeconfig,
        location=None,
        secrets=(PASSWORD, base64.b64encode(PASSWORD.encode()).decode()),
        environ=environ,
    )
