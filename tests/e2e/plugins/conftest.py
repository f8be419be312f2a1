"""Servers with plugins' programs, our own and a compiled one."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hack.cluster import binaries
from hack.cluster.control_plane import ControlPlane
from hack.cluster.errors import ClusterError
from hack.cluster.proxy import FaultProxy
from tests.e2e.server_process import ServerProcess
from tests.support.plugins.programs import put_own
from tests.support.plugins.servers import WHOLE_MODULE, PluginServer
from tests.support.whole_plugin.actions import FOLDER_VARIABLE

HERE = Path(__file__).parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the compiled plugin before the first test starts, as that outlasts any test's timeout."""
    if not session.config.option.collectonly and any(HERE in item.path.parents for item in session.items):
        with contextlib.suppress(ClusterError):
            binaries.locate(["plugin-sample"])


@pytest.fixture(scope="session")
def compiled_sample() -> Path:
    """A plugin built from Velero's own framework."""
    return binaries.locate(["plugin-sample"])["plugin-sample"]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """An empty plugin directory."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    return folder


@pytest.fixture
def both(programs: Path, compiled_sample: Path) -> Path:
    """The plugin directory with our program that keeps things, and the compiled one."""
    put_own(programs, "whole", WHOLE_MODULE)
    (programs / "compiled").symlink_to(compiled_sample)
    return programs


@pytest.fixture
async def plugin_server(
    control_plane: ControlPlane, namespace: str, programs: Path, tmp_path: Path
) -> AsyncIterator[PluginServer]:
    """A function that starts a server with the plugin directory; all are killed at the end of the test."""
    async with AsyncExitStack() as stack:

        async def start(*arguments: str, via: FaultProxy | None = None) -> ServerProcess:
            kubeconfig = control_plane.kubeconfig
            if via is not None:
                kubeconfig = control_plane.write_kubeconfig(tmp_path / "through-proxy", server=via.url)
            server = ServerProcess(
                tmp_path,
                kubeconfig,
                *("-n", namespace, "--plugin-dir", str(programs), "--leader-elect=false"),
                *arguments,
                environ={FOLDER_VARIABLE: str(tmp_path)},
            )
            await server.start()
            stack.push_async_callback(server.kill)
            return server

        yield start
