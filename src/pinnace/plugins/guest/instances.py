"""The plugins of this process: made at the first call for their name, kept for its life. (PLG 6.3)"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pinnace.plugins.declaration import Named, Plugins, by_id
from pinnace.plugins.errors import PluginError
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.plugins.protocols import Configurable

ReadConfig = Callable[[PluginId], Awaitable[Mapping[str, str]]]


class UnknownPlugin(PluginError):
    """A call names a plugin that this program does not have. The text is Velero's own."""

    def __init__(self, name: str) -> None:
        super().__init__(f" plugin: {name} was not found or has an invalid name format")


class Instances:
    """One instance for each plugin, shared by all callers.

    Args:
        read_config: reads the ConfigMap of an action.
    """

    def __init__(self, plugins: Plugins, read_config: ReadConfig) -> None:
        self._factories = by_id(plugins)
        self._made: dict[PluginId, Named] = {}
        self._read_config = read_config
        self._configured: set[PluginId] = set()

    @property
    def ids(self) -> list[PluginId]:
        """What there is, as it is to be listed."""
        return list(self._factories)

    def find(self, kind: PluginKind, name: str) -> Any:
        """The instance of that kind, which follows its protocol, and name. Raises UnknownPlugin."""
        plugin = PluginId(kind, name)
        if plugin not in self._made:
            factory = self._factories.get(plugin)
            if factory is None:
                raise UnknownPlugin(name)
            self._made[plugin] = factory()
        return self._made[plugin]

    async def configured(self, kind: PluginKind, name: str) -> Any:
        """An action, with the settings that its ConfigMap has now. Raises UnknownPlugin, PluginError."""
        action, plugin = self.find(kind, name), PluginId(kind, name)
        if isinstance(action, Configurable):
            await action.configure(await self._read_config(plugin))
        self._configured.add(plugin)
        return action

    async def ready(self, kind: PluginKind, name: str) -> Any:
        """An action that has had its settings; an operation may be asked for before anything else.

        Raises UnknownPlugin, PluginError.
        """
        if PluginId(kind, name) in self._configured:
            return self.find(kind, name)
        return await self.configured(kind, name)
