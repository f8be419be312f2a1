"""Puts the controllers of self-service together and adds them to a manager. (docs/spec: NAC 2, 11)"""

from collections.abc import Callable, Sequence
from typing import Final

from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS
from pinnace.nonadmin.controllers import backup, download, location, periodic, positions, restore
from pinnace.nonadmin.controllers.parts import NonAdminOptions, Wiring
from pinnace.runtime.controller import Controller
from pinnace.runtime.informer import Informer, Selectors
from pinnace.runtime.keys import Key
from pinnace.runtime.manager import Manager

CONTROLLERS: Final[Sequence[Callable[[Wiring], Controller]]] = (
    backup.controller,
    restore.controller,
    location.controller,
    download.controller,
    positions.backup_positions,
    positions.restore_positions,
    periodic.synchronizer_controller,
    periodic.collector_controller,
)
"""The controllers of self-service, in the order of their start."""


def add_nonadmin(manager: Manager, client: KubeClient, options: NonAdminOptions) -> None:
    """Add caches, settings and controllers. Bad settings end the start of the manager with SettingsError."""
    parts = Wiring.of(client, options)
    for informer in parts.informers.values():
        manager.add_informer(informer)
    _watch_settings(parts, manager)
    for make in CONTROLLERS:
        manager.add_controller(make(parts))


def _watch_settings(parts: Wiring, manager: Manager) -> None:
    name = parts.options.settings.config_map
    informer = manager.add_informer(
        Informer(
            parts.client,
            CONFIGMAPS,
            parts.options.namespace,
            selectors=Selectors(fields=f"metadata.name={name}"),
        )
    )

    async def start() -> None:
        parts.settings.start(informer.get(Key(parts.options.namespace, name)))
        informer.add_handlers(
            on_add=parts.settings.take,
            on_update=lambda _, new: parts.settings.take(new),
            on_delete=lambda _: parts.settings.take(None),
        )

    manager.add_preparation("nonadmin-settings", start)
