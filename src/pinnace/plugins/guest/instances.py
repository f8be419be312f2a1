"""The plugins of this process: made at the first call for their name, kept for its life. (PLG 6.3)"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pinnace.plugins.declaration import Named, Plugins, by_id
from pinnace.plugins.errors import PluginError, SettingsUnreadable
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.plugins.protocols import Configurable, ResourceSelector

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
        self._unreadable: dict[PluginId, SettingsUnreadable] = {}

    @property
    def ids(self) -> list[PluginId]:
        """The plugins, in the order of listings."""
        return list(self._factories)

    def find(self, kind: PluginKind, name: str) -> Any:
        """The instance of that kind and name; it follows the kind's protocol. Raises UnknownPlugin."""
        plugin = PluginId(kind, name)
        if plugin not in self._made:
            factory = self._factories.get(plugin)
            if factory is None:
                raise UnknownPlugin(name)
            self._made[plugin] = factory()
        return self._made[plugin]

    async def selector(self, kind: PluginKind, name: str) -> ResourceSelector:
        """The selector of an action, with the settings that its ConfigMap has now.

        Settings that cannot be read are an error of each wanted item (see `ready`), not of the run.
        Delete item actions are the exception: what they clean up is lost with the backup.

        Raises UnknownPlugin, PluginError.
        """
        plugin, unreadable = PluginId(kind, name), None
        try:
            action = await self._configure(plugin)
        except SettingsUnreadable as error:
            if kind is PluginKind.DELETE_ITEM_ACTION:
                raise
            action, unreadable = self.find(kind, name), error
            self._unreadable[plugin] = error
        try:
            wanted: ResourceSelector = await action.applies_to()
        except Exception:  # a plugin's own code, which may need what could not be read
            if unreadable is not None:
                raise unreadable from None
            raise
        return wanted

    async def ready(self, kind: PluginKind, name: str) -> Any:
        """An action that has had its settings; it may be called before it is asked what it wants to see.

        Raises UnknownPlugin, PluginError.
        """
        plugin = PluginId(kind, name)
        if plugin in self._unreadable:
            raise self._unreadable[plugin]
        return self.find(kind, name) if plugin in self._configured else await self._configure(plugin)

    async def _configure(self, plugin: PluginId) -> Any:
        action = self.find(plugin.kind, plugin.name)
        if isinstance(action, Configurable):
            await action.configure(await self._read_config(plugin))
        self._configured.add(plugin)
        self._unreadable.pop(plugin, None)
        return action
