"""The plugins of one operation: a backup, a restore, a deletion. (docs/spec: PLG 10)

Every operation has instances of Python plugins and processes of programs for itself, made when first called
and ended with it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pinnace.plugins.asynchronous import AnyBackupItemAction, ItemBlockAction
from pinnace.plugins.calling import Deadlines
from pinnace.plugins.configuration import ConfigReader
from pinnace.plugins.declaration import Named
from pinnace.plugins.errors import PluginCallError, PluginNotFound, describe
from pinnace.plugins.host.options import LaunchOptions
from pinnace.plugins.kinds import SUPERSEDES, FoundPlugin, PluginId, PluginKind, qualified_name
from pinnace.plugins.logs import LogSink
from pinnace.plugins.protocols import (
    DeleteItemAction,
    ObjectStorePlugin,
    RestoreItemAction,
    VolumeSnapshotter,
)
from pinnace.plugins.python.in_process import (
    LocalBackupItemAction,
    LocalBackupItemActionV2,
    LocalDeleteItemAction,
    LocalItemBlockAction,
    LocalObjectStore,
    LocalRestoreItemAction,
    LocalRestoreItemActionV2,
    LocalVolumeSnapshotter,
)

if TYPE_CHECKING:
    from pinnace.plugins.host.supervisor import Supervisor


class PluginSession:
    """The plugins of one operation: use it as an async context manager, or call `close`.

    Actions are in execution order, after the built-in ones: Python plugins, then those of programs in the
    order of their discovery.

    Args:
        python: factories of Python plugins.
        programs: plugins of programs.
        sink: where plugins' lines go until `log_to` names another.
        configs: reads settings of Python actions; programs read theirs themselves.
    """

    def __init__(
        self,
        *,
        python: Mapping[PluginId, Callable[[], Named]],
        programs: Sequence[FoundPlugin],
        options: LaunchOptions,
        sink: LogSink,
        configs: ConfigReader,
    ) -> None:
        self._python = python
        self._programs = programs
        self._options = options
        self._sink = sink
        self._configs = configs
        self._supervisors: dict[Path, Supervisor] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End every process. Idempotent."""
        async with asyncio.TaskGroup() as group:
            for supervisor in self._supervisors.values():
                group.create_task(supervisor.close())

    def log_to(self, sink: LogSink) -> None:
        """Send plugins' lines there from now on: the log of a backup is made when it begins."""
        self._sink = sink

    def log(
        self, level: str, msg: str, /, *, error: BaseException | str | None = None, **fields: Any
    ) -> None:
        """Pass a line on to the current sink."""
        self._sink.log(level, msg, error=error, **fields)

    @property
    def backup_actions(self) -> Sequence[AnyBackupItemAction]:
        """All backup item actions, of both versions."""
        return [self._make(plugin) for plugin in self._versions(PluginKind.BACKUP_ITEM_ACTION_V2)]

    @property
    def restore_actions(self) -> Sequence[RestoreItemAction]:
        """All restore item actions, of both versions."""
        return [self._make(plugin) for plugin in self._versions(PluginKind.RESTORE_ITEM_ACTION_V2)]

    @property
    def delete_actions(self) -> Sequence[DeleteItemAction]:
        """All delete item actions."""
        return [self._make(plugin) for plugin in self._all(PluginKind.DELETE_ITEM_ACTION)]

    @property
    def block_actions(self) -> Sequence[ItemBlockAction]:
        """All item block actions."""
        return [self._make(plugin) for plugin in self._all(PluginKind.ITEM_BLOCK_ACTION)]

    def object_store(self, provider: str) -> ObjectStorePlugin:
        """The object store of a provider, not configured yet. Raises PluginNotFound."""
        store: ObjectStorePlugin = self._make(self._known(PluginKind.OBJECT_STORE, provider))
        return store

    def volume_snapshotter(self, provider: str) -> VolumeSnapshotter:
        """The volume snapshotter of a provider, not configured yet. Raises PluginNotFound."""
        found: VolumeSnapshotter = self._make(self._known(PluginKind.VOLUME_SNAPSHOTTER, provider))
        return found

    @property
    def _ids(self) -> Sequence[PluginId]:
        return (*self._python, *(found.plugin for found in self._programs))

    def _all(self, kind: PluginKind) -> Sequence[PluginId]:
        return [plugin for plugin in self._ids if plugin.kind is kind]

    def _versions(self, newer: PluginKind) -> Sequence[PluginId]:
        """The plugins of a kind and of the one that it supersedes, in their order; each name once."""
        ids = self._ids
        return [
            plugin
            for plugin in ids
            if plugin.kind is newer
            or (plugin.kind is SUPERSEDES[newer] and PluginId(newer, plugin.name) not in ids)
        ]

    def _known(self, kind: PluginKind, provider: str) -> PluginId:
        plugin = PluginId(kind, qualified_name(provider))
        if plugin not in self._all(kind):
            raise PluginNotFound(f"unable to locate {kind} plugin named {plugin.name}")
        return plugin

    def _make(self, plugin: PluginId) -> Any:
        """An object that follows the protocol of the plugin's kind."""
        if plugin in self._python:
            return self._local(plugin)
        from pinnace.plugins.host.proxies import PROXIES

        program = next(found.program for found in self._programs if found.plugin == plugin)
        return PROXIES[plugin.kind](plugin.name, self._supervisor(program))

    def _local(self, plugin: PluginId) -> Any:
        try:
            instance: Any = self._python[plugin]()
        except BaseException as error:  # foreign code; whatever it raises, the process goes on
            raise PluginCallError(plugin.name, f"it cannot be made: {describe(error)}") from error
        deadlines: Deadlines = self._options.deadlines
        read_config = partial(self._configs.read, plugin)
        match plugin.kind:
            case PluginKind.BACKUP_ITEM_ACTION:
                return LocalBackupItemAction(instance, self, read_config=read_config, deadlines=deadlines)
            case PluginKind.RESTORE_ITEM_ACTION:
                return LocalRestoreItemAction(instance, self, read_config=read_config, deadlines=deadlines)
            case PluginKind.DELETE_ITEM_ACTION:
                return LocalDeleteItemAction(instance, self, read_config=read_config, deadlines=deadlines)
            case PluginKind.BACKUP_ITEM_ACTION_V2:
                return LocalBackupItemActionV2(instance, self, read_config=read_config, deadlines=deadlines)
            case PluginKind.RESTORE_ITEM_ACTION_V2:
                return LocalRestoreItemActionV2(instance, self, read_config=read_config, deadlines=deadlines)
            case PluginKind.ITEM_BLOCK_ACTION:
                return LocalItemBlockAction(instance, self, read_config=read_config, deadlines=deadlines)
            case PluginKind.OBJECT_STORE:
                return LocalObjectStore(instance, self, deadlines=deadlines)
            case PluginKind.VOLUME_SNAPSHOTTER:
                return LocalVolumeSnapshotter(instance, self, deadlines=deadlines)

    def _supervisor(self, program: Path) -> "Supervisor":
        from pinnace.plugins.host.supervisor import Supervisor

        if program not in self._supervisors:
            self._supervisors[program] = Supervisor(program, self._options, lambda: self._sink)
        return self._supervisors[program]
