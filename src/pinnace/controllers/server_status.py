"""The ServerStatusRequest controller: the server's version and its plugins. (docs/spec: CTL 14)"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final

from pinnace._version import __version__
from pinnace.api.codec import DecodeError, decode
from pinnace.api.values.times import format_time, later
from pinnace.api.velero.server_status import ServerStatusRequest
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import delete_if_there, patch_status
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import SERVER_STATUS_REQUESTS
from pinnace.operations.snapshots import csi_plugins
from pinnace.plugins.builtin.backup.actions import backup_actions
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.plugins.registry import ActionRegistry
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.storage.providers import PROVIDERS
from pinnace.volumes.disks import BUILT_IN_SNAPSHOTTERS

log = get_logger(__name__)

NAME: Final = "server-status-request"
WORKERS: Final = 10

_KEPT: Final = timedelta(minutes=1)
_NEXT_LOOK_SECONDS: Final = 300.0


def shown_plugins(*sources: Iterable[PluginId]) -> list[tuple[str, str]]:
    """Name and kind of all plugins, the providers that are built in among them; by kind, in a fixed order.

    Args:
        sources: plugins in execution order. A duplicate is shown once: a program may bring a provider that is
            built in, and the built-in one is used.
    """
    order = list(PluginKind)
    built_in = [
        *(
            PluginId(PluginKind.OBJECT_STORE, name)
            for name in sorted(PROVIDERS, key=lambda each: each.partition("/")[2])
        ),
        *(PluginId(PluginKind.VOLUME_SNAPSHOTTER, name) for name in BUILT_IN_SNAPSHOTTERS),
    ]
    known = dict.fromkeys((*built_in, *(plugin for source in sources for plugin in source)))
    return [
        (plugin.name, plugin.kind.value) for plugin in sorted(known, key=lambda each: order.index(each.kind))
    ]


class ServerStatusReconciler:
    """Answers with version and plugins; deletes answered requests after a while.

    Args:
        version: of the server.
        plugins: returns what `shown_plugins` gives now.
    """

    def __init__(
        self, scope: Scope, *, version: str, plugins: Callable[[], Awaitable[Sequence[tuple[str, str]]]]
    ) -> None:
        self._scope = scope
        self._version = version
        self._plugins = plugins

    async def reconcile(self, key: Key) -> Result:
        """One pass."""
        client = self._scope.client
        try:
            request = decode(
                ServerStatusRequest, await client.get(SERVER_STATUS_REQUESTS, key.name, key.namespace)
            )
        except NotFound:
            return DONE
        except DecodeError as error:
            log.warning("Request cannot be read", error=error)
            return DONE
        now = self._scope.clock.now()
        match request.status.phase:
            case "" | "New":
                status = {
                    "phase": "Processed",
                    "processedTimestamp": format_time(now),
                    "serverVersion": self._version,
                    "plugins": [{"name": name, "kind": kind} for name, kind in await self._plugins()],
                }
                await patch_status(self._scope, SERVER_STATUS_REQUESTS, key, status)
            case "Processed":
                processed = request.status.processed_timestamp or now - _KEPT
                if later(processed, _KEPT) <= now:
                    await delete_if_there(client, SERVER_STATUS_REQUESTS, key)
                    return DONE
            case phase:
                raise ValueError(f"unexpected ServerStatusRequest phase {phase!r}")
        return Result.after(_NEXT_LOOK_SECONDS)


def controller(parts: Parts) -> Controller:
    """The ServerStatusRequest controller of a server."""
    scope = parts.scope

    async def plugins() -> list[tuple[str, str]]:
        """The actions of the next backup: those for CSI are there once the cluster serves its snapshots."""
        discovery = await Discovery.load(scope.client)
        # The built-in actions for CSI give way to a plugin that brings them.
        csi = csi_plugins(scope.client, discovery, scope.features)
        return shown_plugins(
            built_in_plugins(scope.client, discovery, scope.namespace), csi, scope.plugins.ids
        )

    reconciler = ServerStatusReconciler(scope, version=f"v{__version__}", plugins=plugins)
    made = Controller(NAME, reconciler.reconcile, workers=WORKERS, clock=parts.scope.clock)
    made.watch(parts.informers.of(SERVER_STATUS_REQUESTS))
    return made


def built_in_plugins(client: KubeClient, discovery: Discovery, namespace: str) -> Sequence[PluginId]:
    """The built-in actions of backups and restores."""
    return ActionRegistry(
        builtin_backup_actions=backup_actions(client, discovery),
        builtin_restore_actions=restore_actions(client, discovery, namespace),
    ).ids
