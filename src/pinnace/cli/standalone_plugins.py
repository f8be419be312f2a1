"""Plugins for backups and restores that the command itself makes, without a server. (docs/spec: PLG 10)"""

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from pinnace.cli.errors import InvalidInput
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.plugins.errors import PluginError
from pinnace.plugins.installed import PluginOptions, find_plugins
from pinnace.plugins.kinds import PluginId
from pinnace.plugins.operation import Operation

DIRECTORY_VARIABLE: Final = "PINNACE_PLUGIN_DIR"
"""Names a directory of plugins' programs; without it none are run, as nobody has installed any here."""


@asynccontextmanager
async def open_plugins(
    client: KubeClient, settings: Settings, *, builtin: Iterable[PluginId]
) -> AsyncIterator[Operation]:
    """The plugins of one run: Python packages and modules, and programs of the directory.

    Args:
        builtin: what none of them may be.

    Raises:
        InvalidInput: one cannot be loaded or is no plugin; nothing has been done yet.
    """
    environ = dict(os.environ)
    environ["VELERO_NAMESPACE"] = settings.namespace
    if settings.kubeconfig:
        environ["KUBECONFIG"] = settings.kubeconfig
    directory = environ.get(DIRECTORY_VARIABLE)
    options = PluginOptions(
        directory=Path(directory) if directory else None, features=settings.features, environ=environ
    )
    try:
        found = await find_plugins(options, builtin=builtin)
    except PluginError as error:
        raise InvalidInput(str(error)) from error
    async with found.operation(client=client, namespace=settings.namespace) as operation:
        yield operation
