"""Finding Python plugins: entry points of installed packages, and modules that were named.

A package offers a `Plugins` object, either as an entry point of the group `pinnace.plugins`

    [project.entry-points."pinnace.plugins"]
    my-plugin = "my_plugin:plugins"

or by name, as `my_plugin:plugins` or `my_plugin`, in the variable PINNACE_PLUGINS (comma list) or a flag.

What cannot be loaded is an error: a backup made without a plugin that is installed is not the backup that
was asked for.
"""

import asyncio
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from pinnace.plugins.declaration import Named, Plugins, by_id
from pinnace.plugins.errors import DuplicatePlugin, PluginLoadError, describe
from pinnace.plugins.kinds import PluginId

ENTRY_POINT_GROUP: Final = "pinnace.plugins"
VARIABLE: Final = "PINNACE_PLUGINS"
_DEFAULT_ATTRIBUTE: Final = "plugins"


def modules_from(environ: Mapping[str, str]) -> list[str]:
    """The names in PINNACE_PLUGINS."""
    return [name.strip() for name in environ.get(VARIABLE, "").split(",") if name.strip()]


def load_python_plugins(
    modules: Sequence[str] = (), *, installed: Iterable[EntryPoint] | None = None
) -> dict[PluginId, Callable[[], Named]]:
    """The plugins of all installed packages, by the names of their entry points, then those of `modules`.

    Args:
        modules: `package.module` or `package.module:attribute`; one that an entry point also offers is taken
            once.
        installed: entry points in place of those of this environment.

    Raises:
        PluginLoadError: an import failed, or what was imported is no `Plugins`.
        PluginNameError: a plugin's name has the wrong form.
        DuplicatePlugin: two plugins of one kind have the same name.
    """
    if installed is None:
        installed = entry_points(group=ENTRY_POINT_GROUP)
    found: dict[PluginId, Callable[[], Named]] = {}
    sources: dict[PluginId, str] = {}
    loaded: list[Plugins] = []
    for source, plugins in _declared(installed, modules):
        if any(plugins is known for known in loaded):
            continue
        loaded.append(plugins)
        for plugin, factory in by_id(plugins).items():
            if plugin in found:
                raise DuplicatePlugin(f"{plugin} is offered by {sources[plugin]} and by {source}")
            found[plugin], sources[plugin] = factory, source
    return found


def _declared(installed: Iterable[EntryPoint], modules: Sequence[str]) -> Iterator[tuple[str, Plugins]]:
    for entry in sorted(installed, key=lambda entry: entry.name):
        origin = f"entry point {entry.name} ({entry.value})"
        if entry.dist is not None:
            origin += f" of package {entry.dist.name}"
        yield origin, _checked(origin, entry.load)
    for name in modules:
        origin = f"plugin module {name}"
        yield origin, _checked(origin, partial(_import, name))


def _import(name: str) -> object:
    module, _, attribute = name.partition(":")
    found: object = importlib.import_module(module)
    for part in (attribute or _DEFAULT_ATTRIBUTE).split("."):
        found = getattr(found, part)
    return found


def _checked(origin: str, load: Callable[[], object]) -> Plugins:
    try:
        found = load()
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        # Foreign code runs when it is imported: whatever it raises, the operator must learn where it was.
        raise PluginLoadError(f"{origin} cannot be loaded: {describe(error)}") from error
    if not isinstance(found, Plugins):
        raise PluginLoadError(
            f"{origin} is a {type(found).__name__}, not a pinnace.plugins.Plugins; say module:attribute"
        )
    return found
