"""The server process: parts made, checked, started and stopped in order. (docs/spec: SRV 4, 13)"""

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Final

from pinnace._version import __version__
from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.racing import unless_stopped
from pinnace.controllers import backup_repository
from pinnace.controllers.former_pod_volumes import release_former_pod_volumes
from pinnace.controllers.former_repositories import move_former_repositories
from pinnace.controllers.registry import enabled
from pinnace.controllers.repository_jobs import check_settings
from pinnace.controllers.server_status import built_in_plugins
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.parts import Informers, Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.client import KubeClient
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.limiting import RateCap
from pinnace.nonadmin.assembly import add_nonadmin
from pinnace.nonadmin.controllers.parts import NonAdminOptions
from pinnace.nonadmin.settings.source import SettingsFlags
from pinnace.operations.workdir import work_directory
from pinnace.plugins.errors import PluginError
from pinnace.plugins.installed import NO_PLUGINS, InstalledPlugins, PluginOptions, find_plugins
from pinnace.runtime.keys import Key
from pinnace.runtime.leader import LeaderElector, LeaseTimes, candidate_name
from pinnace.runtime.lease import SERVER_LEASE
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.manager import GRACE_PERIOD_SECONDS, Manager
from pinnace.server.checks import (
    StartupError,
    check_cluster,
    check_default_modifiers,
    check_global_policies,
    check_node_agents,
)
from pinnace.server.monitoring.metrics import ServerMetrics
from pinnace.server.monitoring.pages import StatusServer
from pinnace.server.monitoring.profiler import ProfilerServer
from pinnace.server.options import ServerOptions
from pinnace.server.repository_password import prepare_repository_password
from pinnace.server.signals import stop_on_signals
from pinnace.server.watchdog import Watchdog

log = get_logger(__name__)

STOP_SECONDS: Final = GRACE_PERIOD_SECONDS + 10.0
"""How long a stop may take: work that was cancelled cleans up after the grace period. Below the 45 seconds
until the kubelet kills the pod, so that the log says what did not end."""


async def run_server(config: ClusterConfig, options: ServerOptions, *, user_agent: str) -> None:
    """Run the server until SIGINT or SIGTERM.

    Raises:
        StartupError, KubeError, OSError: it cannot start.
        RuntimeFailure kinds of `pinnace.runtime`: it lost its lease, or had to cancel work at the stop.
    """
    log.info(f"Starting Pinnace server v{__version__}", features=",".join(sorted(options.features)) or "none")
    rate = RateCap(options.client_qps, options.client_burst) if options.client_qps is not None else None
    stop = asyncio.Event()
    with Watchdog(STOP_SECONDS) as watchdog, stop_on_signals(stop, on_stop=watchdog.ending):
        async with (
            KubeClient(config, user_agent=user_agent, rate=rate) as client,
            work_directory(options.scratch) as work,
        ):
            plugins = await unless_stopped(stop, _prepared(client, options, work))
            if plugins is not None:
                assembly = Assembly(client, options, work, plugins=plugins)
                await assembly.manager().run(stop, on_ending=watchdog.ending)
    log.info("Server stopped")


async def _prepared(client: KubeClient, options: ServerOptions, work: Path) -> InstalledPlugins:
    """The plugins that are installed, after the checks at start."""
    discovery = await check_cluster(client, options.namespace, options.features)
    await check_node_agents(client, options.namespace)
    await check_global_policies(client, options.namespace, options.defaults.volume_policies)
    await check_default_modifiers(client, options.namespace, options.restore.default_modifiers)
    wanted = PluginOptions(
        directory=options.plugin_directory, log_level=options.log_level, features=options.features
    )
    try:
        plugins = await find_plugins(wanted, builtin=built_in_plugins(client, discovery, options.namespace))
    except PluginError as error:
        raise StartupError(f"{error}; fix or remove the plugin") from error
    stores = LocationStores(client, options.namespace, work / "credentials", plugins=plugins)
    await prepare_repository_password(client, options.namespace, stores)
    return plugins


class Assembly:
    """The parts of one server, put together; nothing runs yet.

    Args:
        workdir: private to this server.
        plugins: the plugins that are installed beside the built-in actions.
    """

    def __init__(
        self,
        client: KubeClient,
        options: ServerOptions,
        workdir: Path,
        *,
        plugins: InstalledPlugins = NO_PLUGINS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.metrics = ServerMetrics(leads=lambda: self._manager.leads)
        self._options = options
        elector = _elector(client, options) if options.leader_election else None
        if elector is not None:
            # All that a leader writes goes through this client or asks its fence.
            client = client.fenced(elector.fence)
        self._manager = Manager(elector=elector)
        scope = Scope(
            client=client,
            namespace=options.namespace,
            metrics=self.metrics,
            workdir=workdir,
            features=options.features,
            log_level=options.log_level,
            log_format=options.log_format,
            log_echo=sys.stdout,
            clock=clock,
            plugins=plugins,
            leads=elector is not None,
        )
        informers = Informers(client, options.namespace, self._manager.add_informer)
        self._parts = Parts.of(scope, options, informers)

    def manager(self) -> Manager:
        """The manager with all parts added. Call it once."""
        manager, options, parts = self._manager, self._options, self._parts
        page = StatusServer(options.metrics_address, self.metrics.exposition, lambda: manager.health)
        manager.add_service("status", page)
        if options.profiler_address is not None:
            manager.add_service("profiler", ProfilerServer(options.profiler_address))
        manager.add_preparation("orphans", parts.settler.settle_orphans)
        manager.add_preparation("pod volumes", partial(release_former_pod_volumes, parts.scope))
        for each in enabled(options.disabled_controllers, leads=parts.scope.leads):
            manager.add_controller(each.make(parts))
        if "NonAdmin" in options.features:
            add_nonadmin(
                manager,
                parts.scope.client,
                NonAdminOptions(
                    namespace=options.namespace,
                    default_location=options.defaults.storage_location,
                    settings=SettingsFlags(velero_sync_period=options.backup_sync_period),
                ),
            )
        if backup_repository.NAME not in options.disabled_controllers:
            manager.add_preparation("repositories", partial(move_former_repositories, parts.scope))
            if name := options.maintenance_config_map:
                manager.add_preparation("maintenance", partial(check_settings, parts.scope, name))
        return manager


def _elector(client: KubeClient, options: ServerOptions) -> LeaderElector:
    times = LeaseTimes.lasting(options.lease_duration.total_seconds())
    return LeaderElector(client, Key(options.namespace, SERVER_LEASE), candidate_name(), times=times)
