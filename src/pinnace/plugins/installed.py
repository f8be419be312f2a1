"""Finds all plugins that a server or a command has, once at its start.

    builtin = ActionRegistry(builtin_backup_actions=..., builtin_restore_actions=...)
    plugins = await find_plugins(PluginOptions(directory=DEFAULT_DIRECTORY), builtin=builtin.ids)

    async with plugins.operation(client=client, namespace="velero") as operation:
        registry = ActionRegistry(builtin_backup_actions=..., backup_actions=operation.backup_actions)
        await execute_backup(..., actions=registry.backup_actions, on_log=operation.log_to)

`plugin get` shows `[*builtin.ids, *plugins.ids]`; a location whose provider is not built in is opened with
`plugins.open_store`. Where there is neither a program nor a Python plugin all this costs nothing.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from pinnace.kube.reading import ObjectLister
from pinnace.plugins.calling import DEFAULT_DEADLINES, Deadlines
from pinnace.plugins.configuration import ConfigReader
from pinnace.plugins.declaration import Named
from pinnace.plugins.errors import DuplicatePlugin
from pinnace.plugins.host.options import LaunchOptions, ProcessLimits
from pinnace.plugins.kinds import FoundPlugin, PluginId, PluginKind, qualified_name
from pinnace.plugins.logs import LogSink, ProcessLog
from pinnace.plugins.object_store import PluginStore
from pinnace.plugins.python.loading import load_python_plugins, modules_from
from pinnace.plugins.session import PluginSession
from pinnace.storage.interface import ObjectStore

DEFAULT_DIRECTORY: Final = Path("/plugins")
"""Of `--plugin-dir`. (docs/spec: PLG 2)"""


class PluginOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where plugins are looked for and how they are run.

    Attributes:
        directory: of executables; None: none are run.
        modules: of Python plugins, beside installed packages; None: as PINNACE_PLUGINS says.
        log_level, features: the server's, told to programs.
    """

    directory: Path | None = None
    modules: Sequence[str] | None = None
    log_level: str = "info"
    features: frozenset[str] = frozenset()
    environ: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(os.environ))
    limits: ProcessLimits = msgspec.field(default_factory=ProcessLimits)
    deadlines: Deadlines = DEFAULT_DEADLINES

    @property
    def launch(self) -> LaunchOptions:
        """The options for programs."""
        return LaunchOptions(
            environ=self.environ,
            log_level=self.log_level,
            features=self.features,
            limits=self.limits,
            deadlines=self.deadlines,
        )


@dataclass(frozen=True, slots=True)
class InstalledPlugins:
    """The plugins that were found, without the built-in ones. Nothing runs yet."""

    python: Mapping[PluginId, Callable[[], Named]]
    programs: Sequence[FoundPlugin]
    options: LaunchOptions

    @property
    def ids(self) -> list[PluginId]:
        """All of them, in the execution order of actions; for `plugin get`."""
        return [*self.python, *(found.plugin for found in self.programs)]

    def operation(
        self,
        *,
        client: ObjectLister | None = None,
        namespace: str = "",
        sink: LogSink | None = None,
    ) -> PluginSession:
        """The plugins for one backup, restore or deletion; close it at the end.

        Args:
            client, namespace: where Python actions' ConfigMaps are; without a client they get no settings.
            sink: receives the lines of plugins, by default the log of the process; `PluginSession.log_to`
                changes it.
        """
        return PluginSession(
            python=self.python,
            programs=self.programs,
            options=self.options,
            sink=sink or ProcessLog(),
            configs=ConfigReader(client, namespace),
        )

    def open_store(self, provider: str, config: Mapping[str, str]) -> ObjectStore | None:
        """A store of a plugin; None if no plugin is of this provider.

        Each has a process of its own, so that locations of one provider do not share a configuration.
        (docs/spec: STO 8)
        """
        if PluginId(PluginKind.OBJECT_STORE, qualified_name(provider)) not in self.ids:
            return None
        operation = self.operation()
        return PluginStore(operation.object_store(provider), config, operation.close)


NO_PLUGINS: Final = InstalledPlugins({}, (), LaunchOptions(environ={}))
"""No plugins besides the built-in ones."""


async def find_plugins(options: PluginOptions, *, builtin: Iterable[PluginId] = ()) -> InstalledPlugins:
    """Load Python plugins, and list the plugins of every program in the plugin directory.

    Args:
        builtin: the plugins that cannot be registered again.

    Raises:
        PluginError: one cannot be loaded or started, is no plugin, or repeats a name. The text names it.
    """
    modules = modules_from(options.environ) if options.modules is None else options.modules
    python = load_python_plugins(modules)
    programs: Sequence[FoundPlugin] = ()
    if options.directory is not None and options.directory.exists():
        # gRPC is loaded only where there may be something to call.
        from pinnace.plugins.host.discovery import discover

        programs = await discover(options.directory, options.launch, ProcessLog())
    _check_unique(builtin, python, programs)
    return InstalledPlugins(python, programs, options.launch)


def _check_unique(
    builtin: Iterable[PluginId], python: Iterable[PluginId], programs: Iterable[FoundPlugin]
) -> None:
    """Raise DuplicatePlugin, naming both sides. (docs/spec: PLG-005)"""
    sources: dict[PluginId, str] = dict.fromkeys(builtin, "built in")
    offered = [
        *((plugin, "a Python plugin") for plugin in python),
        *((found.plugin, str(found.program)) for found in programs),
    ]
    for plugin, source in offered:
        if plugin in sources:
            raise DuplicatePlugin(
                f"unable to register plugin (kind={plugin.kind}, name={plugin.name}, command={source})"
                " because another plugin is already registered for this kind and name"
                f" (command={sources[plugin]})"
            )
        sources[plugin] = source
