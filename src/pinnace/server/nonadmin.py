"""The process of self-service: controllers, lease, probes, metrics. (docs/spec: NAC 2)"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, GCCollector, ProcessCollector, generate_latest

from pinnace._version import __version__
from pinnace.kube.client import KubeClient
from pinnace.kube.transport.config import ClusterConfig
from pinnace.nonadmin.assembly import add_nonadmin
from pinnace.nonadmin.controllers.parts import NonAdminOptions
from pinnace.nonadmin.manifests import LEASE
from pinnace.nonadmin.settings.source import SettingsFlags
from pinnace.runtime.keys import Key
from pinnace.runtime.leader import LeaderElector, candidate_name
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.manager import GRACE_PERIOD_SECONDS, Manager
from pinnace.server.monitoring.pages import StatusServer
from pinnace.server.signals import stop_on_signals
from pinnace.server.watchdog import Watchdog

log = get_logger(__name__)

STOP_SECONDS: Final = GRACE_PERIOD_SECONDS + 10.0
"""How long a stop may take: work that was cancelled cleans up after the grace period."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NonAdminServerOptions:
    """The settings of the self-service process, from flags and environment. (docs/spec: NAC 2)

    Attributes:
        namespace: the namespace of the server, where it makes objects for tenants.
        metrics_address, health_address: `host:port`; the pages are the same on both.
        leader_election: work only while holding the Lease.
        default_location: the server's default location, as its flag says.
    """

    namespace: str
    metrics_address: str = ":8080"
    health_address: str = ":8081"
    leader_election: bool = False
    default_location: str = "default"
    settings: SettingsFlags = field(default_factory=SettingsFlags)


class _Metrics:
    """Counts reconciliations, under the name that this metric usually has."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._passes = Counter(
            "controller_runtime_reconcile",
            "Total number of reconciliations per controller",
            ["controller"],
            registry=self._registry,
        )

    def passed(self, controller: str, _key: Key) -> None:
        self._passes.labels(controller).inc()

    def exposition(self) -> bytes:
        return generate_latest(self._registry)


async def run_nonadmin(config: ClusterConfig, options: NonAdminServerOptions, *, user_agent: str) -> None:
    """Run the self-service process until SIGINT or SIGTERM.

    Raises:
        RuntimeFailure: bad settings, caches that do not fill, a lost lease.
        KubeError, OSError: it cannot start.
    """
    log.info(f"Starting Pinnace self-service v{__version__}", namespace=options.namespace)
    stop, metrics = asyncio.Event(), _Metrics()
    with Watchdog(STOP_SECONDS) as watchdog, stop_on_signals(stop, on_stop=watchdog.ending):
        async with KubeClient(config, user_agent=user_agent) as client:
            elector, leading = None, client
            if options.leader_election:
                elector = LeaderElector(client, Key(options.namespace, LEASE), candidate_name())
                leading = client.fenced(elector.fence)
            manager = Manager(elector=elector)
            for flag, address in (
                ("--metrics-bind-address", options.metrics_address),
                ("--health-probe-bind-address", options.health_address),
            ):
                page = StatusServer(address, metrics.exposition, lambda: manager.health, flag=flag)
                manager.add_service(flag, page)
            given = NonAdminOptions(
                namespace=options.namespace,
                settings=options.settings,
                default_location=options.default_location,
                passes=metrics.passed,
            )
            add_nonadmin(manager, leading, given)
            await manager.run(stop, on_ending=watchdog.ending)
    log.info("Self-service stopped")
