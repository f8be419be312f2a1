"""The cluster of a plugin's process, by its service account or its environment. (PLG 9)"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pinnace.plugins.configuration import ConfigReader
from pinnace.plugins.errors import PluginError
from pinnace.plugins.kinds import PluginId

_NAMESPACE_VARIABLE: Final = "VELERO_NAMESPACE"
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DEFAULT_NAMESPACE: Final = "velero"


class OwnCluster:
    """Reads settings. It connects at the first call, as most plugins have none and must start quickly."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._reader: ConfigReader | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def read_config(self, plugin: PluginId) -> Mapping[str, str]:
        """The settings of an item action. Raises PluginError."""
        async with self._lock:
            if self._reader is None:
                self._reader = await self._connect()
        return await self._reader.read(plugin)

    async def _connect(self) -> ConfigReader:
        from pinnace.kube.client import KubeClient
        from pinnace.kube.config import load_config
        from pinnace.kube.errors import ConfigError

        try:
            config = await asyncio.to_thread(load_config, environ=self._environ)
        except ConfigError as error:
            raise PluginError(f"the settings of the plugin cannot be read: {error}") from error
        client = await self._stack.enter_async_context(KubeClient(config))
        return ConfigReader(client, await asyncio.to_thread(self._namespace))

    def _namespace(self) -> str:
        if named := self._environ.get(_NAMESPACE_VARIABLE):
            return named
        try:
            return _NAMESPACE_FILE.read_text().strip()
        except OSError:
            return _DEFAULT_NAMESPACE
