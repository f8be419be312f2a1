"""Servers with plugin programs."""

from typing import Protocol

from hack.cluster.proxy import FaultProxy
from tests.e2e.server_process import ServerProcess

WHOLE_MODULE = "tests.support.whole_plugin"


class PluginServer(Protocol):
    """The `plugin_server` fixture."""

    async def __call__(self, *arguments: str, via: FaultProxy | None = None) -> ServerProcess: ...
