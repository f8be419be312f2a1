"""The server process: parts made, checked, started and stopped in order. (docs/spec: SRV 4, 13)"""

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from pinnace import __version__
from pinnace.aio.clock import Clock
from pinnace.aio.racing import unless_stopped
from pinnace.api.backup import Backup
from pinnace.api.restore import Restore
from pinnace.api.values.times import utcnow
from pinnace.controllers import (
    backup,
    download_request,
    foreign_runs,
    restic_repository,
    restore,
    schedule,
    server_status,
    storage_location,
)
from pinnace.controllers.availability import Availability
from pinnace.controllers.deletion import backup_deletion, gc
from pinnace.controllers.lanes import LaneOf, Lanes
from pinnace.controllers.locations import LocationStores
from pinnace.controllers.ports import MAIN_WORKERS, Scope
from pinnace.controllers.runs import RunReconciler
from pinnace.controllers.settling import Settler
from pinnace.controllers.sync import backup_sync
from pinnace.controllers.sync.location import Caches
from pinnace.controllers.turns import NamespaceTurns
from pinnace.controllers.writes import BACKUPS, RESTORES
from pinnace.kube.client import KubeClient
from pinnace.kube.config import ClusterConfig
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import APIResource
from pinnace.kube.transport.limiting import RateCap
from pinnace.nonadmin.assembly import NonAdminOptions, add_nonadmin
from pinnace.nonadmin.settings_source import SettingsFlags
from pinnace.operations.snapshots import csi_plugins
from pinnace.operations.workdir import work_directory
from pinnace.plugins.builtin.backup.actions import backup_actions
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.errors import PluginError
from pinnace.plugins.installed import NO_PLUGINS, InstalledPlugins, PluginOptions, find_plugins
from pinnace.plugins.registry import ActionRegistry
from pinnace.runtime.controller import Controller, Resync
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.leader import LeaderElector, LeaseTimes
from pinnace.runtime.lease import SERVER_LEASE
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.manager import Manager
from pinnace.runtime.queue import RateLimitedQueue
from pinnace.server.checks import StartupError, check_cluster, prepare_restic
from pinnace.server.monitoring.metrics import ServerMetrics
from pinnace.server.monitoring.pages import StatusServer
from pinnace.server.monitoring.profiler import ProfilerServer
from pinnace.server.options import ServerOptions
from pinnace.server.restic import repository_controllers, restic_parts
from pinnace.server.signals import stop_on_signals
from pinnace.volumes.repositories import REPOSITORIES

log = get_logger(__name__)


async def run_server(config: ClusterConfig, options: ServerOptions, *, user_agent: str) -> None:
    """Run until SIGINT or SIGTERM.

    Raises:
        StartupError, KubeError, OSError: it cannot start.
        RuntimeFailure kinds of `pinnace.runtime`: it lost its lease, or had to cancel work at the stop.
    """
    log.info(f"Starting Pinnace server v{__version__}", features=",".join(sorted(options.features)) or "none")
    rate = RateCap(options.client_qps, options.client_burst) if options.client_qps is not None else None
    stop = asyncio.Event()
    with stop_on_signals(stop):
        async with (
            KubeClient(config, user_agent=user_agent, rate=rate) as client,
            work_directory(options.scratch) as work,
        ):
            found = await unless_stopped(stop, _prepared(client, options))
            if found is not None:
                discovery, plugins = found
                await Assembly(client, discovery, options, work, plugins=plugins).manager().run(stop)
    log.info("Server stopped")


async def _prepared(client: KubeClient, options: ServerOptions) -> tuple[Discovery, InstalledPlugins]:
    """What the cluster serves, and what plugins there are, once all is known to be in place."""
    discovery = await check_cluster(client, options.namespace, options.features)
    await prepare_restic(client, options.namespace)
    wanted = PluginOptions(
        directory=options.plugin_directory, log_level=options.log_level, features=options.features
    )
    try:
        plugins = await find_plugins(wanted, builtin=_built_in(client, discovery, options.namespace).ids)
    except PluginError as error:
        raise StartupError(f"{error}; mend or remove the plugin") from error
    return discovery, plugins


def _built_in(client: KubeClient, discovery: Discovery, namespace: str) -> ActionRegistry:
    return ActionRegistry(
        builtin_backup_actions=backup_actions(client, discovery),
        builtin_restore_actions=restore_actions(client, discovery, namespace),
    )


class Assembly:
    """The parts of one server, put together; nothing runs yet.

    Args:
        workdir: private to this server.
        plugins: what there is beside the built-in actions.
        elector: in place of the usual one.
        clock: the time of day, for controllers.
        timers: what controllers wait by; the event loop's if left out.
    """

    def __init__(
        self,
        client: KubeClient,
        discovery: Discovery,
        options: ServerOptions,
        workdir: Path,
        *,
        plugins: InstalledPlugins = NO_PLUGINS,
        elector: LeaderElector | None = None,
        clock: Callable[[], datetime] = utcnow,
        timers: Clock | None = None,
    ) -> None:
        self.metrics = ServerMetrics()
        self._client = client
        self._discovery = discovery
        self._timers = timers
        self._options = options
        self._scope = Scope(
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
        )
        self._plugins = plugins
        self._locations = LocationStores(client, options.namespace, workdir / "credentials", plugins=plugins)
        self._availability = Availability(self._locations, clock=timers)
        self._settler = Settler(self._scope, self._locations)
        self._restic = restic_parts(self._scope, self._locations, options)
        self._backups_in_hand: set[Key] = set()
        self._informers: dict[APIResource, Informer] = {}
        if elector is None and options.leader_election:
            seconds = options.lease_duration.total_seconds()
            elector = LeaderElector(
                client,
                Key(options.namespace, SERVER_LEASE),
                _identity(),
                times=LeaseTimes.lasting(seconds),
            )
        self._leads = elector is not None
        self._manager = Manager(elector=elector)

    def manager(self) -> Manager:
        """The manager with everything in it. Once."""
        manager, options = self._manager, self._options
        page = StatusServer(options.metrics_address, self.metrics.exposition, lambda: manager.health)
        manager.add_service("status", page)
        if options.profiler_address is not None:
            manager.add_service("profiler", ProfilerServer(options.profiler_address))
        manager.add_preparation("orphans", self._settler.settle_orphans)
        controllers: dict[str, Callable[[], Controller]] = {
            backup.NAME: self._backups,
            backup_deletion.NAME: self._deletions,
            backup_sync.NAME: self._sync,
            gc.NAME: self._expirations,
            schedule.NAME: self._schedules,
            restore.NAME: self._restores,
            storage_location.NAME: self._storage_locations,
            download_request.NAME: self._downloads,
            server_status.NAME: self._status_requests,
        }
        for name, make in controllers.items():
            if name not in options.disabled_controllers:
                manager.add_controller(make())
        if self._leads:
            manager.add_controller(self._foreign_runs())
        if "NonAdmin" in options.features:
            add_nonadmin(
                manager,
                self._client,
                NonAdminOptions(
                    namespace=options.namespace,
                    default_location=options.defaults.storage_location,
                    settings=SettingsFlags(velero_sync_period=options.backup_sync_period),
                ),
            )
        if restic_repository.NAME not in options.disabled_controllers:
            for controller in self._repositories():
                manager.add_controller(controller)
        return manager

    def _informer(self, resource: APIResource) -> Informer:
        """One of each kind: controllers share its cache and its watch."""
        if resource not in self._informers:
            informer = Informer(self._client, resource, self._options.namespace)
            self._informers[resource] = self._manager.add_informer(informer)
        return self._informers[resource]

    def _lanes(self) -> Lanes:
        return Lanes(
            self._options.namespace,
            self._informer(storage_location.LOCATIONS),
            default_location=self._options.defaults.storage_location,
        )

    def _queue(self, lane_of: LaneOf) -> RateLimitedQueue[Key]:
        return RateLimitedQueue[Key](clock=self._timers, lane_of=lane_of)

    def _backups(self) -> Controller:
        informer, workers = self._informer(BACKUPS), self._options.backup_workers
        work = backup.BackupWork(
            self._scope,
            self._locations,
            defaults=self._options.defaults,
            pod_volumes=self._restic.pod_volumes,
            availability=self._availability,
        )
        reconciler = RunReconciler(
            self._scope,
            BACKUPS,
            Backup,
            work,
            self._settler,
            running=self._backups_in_hand,
            leads=self._leads,
        )
        controller = Controller(
            backup.NAME,
            reconciler.reconcile,
            clock=self._timers,
            workers=workers,
            resync=Resync(backup.BackupCensus(self._scope, informer).resync, backup.METRICS_PERIOD_SECONDS),
            queue=self._queue(self._lanes().of_backups(informer, workers)),
        )
        controller.watch(informer, predicate=reconciler.concerns)
        return controller

    def _foreign_runs(self) -> Controller:
        backups, restores = self._informer(BACKUPS), self._informer(RESTORES)
        runs = foreign_runs.ForeignRuns(self._scope, backups=backups, restores=restores, clock=self._timers)
        controller = Controller(
            foreign_runs.NAME,
            clock=self._timers,
            resync=Resync(runs.resync, foreign_runs.PERIOD_SECONDS),
        )
        controller.wait_for(backups, restores)
        return controller

    def _deletions(self) -> Controller:
        informer, workers = self._informer(backup_deletion.REQUESTS), backup_deletion.WORKERS
        reconciler = backup_deletion.BackupDeletionReconciler(
            self._scope,
            self._locations,
            informer,
            running=self._backups_in_hand,
            pod_volumes=self._restic.pod_volumes,
        )
        controller = Controller(
            backup_deletion.NAME,
            reconciler.reconcile,
            clock=self._timers,
            workers=workers,
            resync=Resync(reconciler.expire, backup_deletion.EXPIRY_PERIOD_SECONDS),
            queue=self._queue(self._lanes().of_deletions(informer, self._informer(BACKUPS), workers)),
        )
        # Its own patches must not undo the back-off of a request that has to wait.
        controller.watch(informer, on_update=False)
        return controller

    def _repositories(self) -> tuple[Controller, Controller]:
        informer = self._informer(REPOSITORIES)
        return repository_controllers(
            self._scope, self._restic, self._options, informer, self._lanes(), timers=self._timers
        )

    def _schedules(self) -> Controller:
        informer, queue = self._informer(schedule.SCHEDULES), RateLimitedQueue[Key](clock=self._timers)
        reconciler = schedule.ScheduleReconciler(
            self._scope,
            informer,
            metrics=self.metrics,
            zone=self._options.zone,
            enqueue=queue.add,
            skip_immediately=self._options.schedule_skip_immediately,
        )
        controller = Controller(
            schedule.NAME,
            reconciler.reconcile,
            clock=self._timers,
            workers=MAIN_WORKERS,
            resync=Resync(reconciler.poll, schedule.POLL_PERIOD_SECONDS),
            queue=queue,
        )
        controller.watch(informer)
        return controller

    def _expirations(self) -> Controller:
        informer, queue = self._informer(BACKUPS), RateLimitedQueue[Key](clock=self._timers)
        reconciler = gc.GCReconciler(self._scope, informer, running=self._backups_in_hand, enqueue=queue.add)
        controller = Controller(
            gc.NAME,
            reconciler.reconcile,
            clock=self._timers,
            workers=MAIN_WORKERS,
            resync=Resync(reconciler.enqueue_expired, self._options.gc_frequency.total_seconds()),
            queue=queue,
        )
        controller.watch(informer, predicate=reconciler.is_due)
        return controller

    def _sync(self) -> Controller:
        locations = self._informer(backup_sync.LOCATIONS)
        caches = Caches(backups=self._informer(BACKUPS), schedules=self._informer(schedule.SCHEDULES))
        sync = backup_sync.BackupSync(
            self._scope,
            self._locations,
            locations=locations,
            caches=caches,
            default_location=self._options.defaults.storage_location,
            period=self._options.backup_sync_period,
        )
        controller = Controller(
            backup_sync.NAME,
            clock=self._timers,
            resync=Resync(sync.run, backup_sync.PERIOD_SECONDS),
        )
        controller.wait_for(locations, caches.backups, caches.schedules)
        return controller

    def _restores(self) -> Controller:
        informer, workers = self._informer(RESTORES), self._options.restore_workers
        queue = self._queue(self._lanes().of_restores(informer, self._informer(BACKUPS), workers))
        work = restore.RestoreWork(
            self._scope,
            self._locations,
            options=self._options.restore,
            pod_volumes=self._restic.pod_volumes,
            availability=self._availability,
        )
        alone = not self._options.parallel_restores_into_namespace
        turns = NamespaceTurns(queue.add) if alone else None
        reconciler = RunReconciler(
            self._scope, RESTORES, Restore, work, self._settler, turns=turns, leads=self._leads
        )
        controller = Controller(
            restore.NAME,
            reconciler.reconcile,
            clock=self._timers,
            workers=workers,
            resync=Resync(
                restore.RestoreCensus(self._scope, informer).resync, restore.METRICS_PERIOD_SECONDS
            ),
            queue=queue,
        )
        # One that is deleted while it waits for its turn must not keep others waiting.
        controller.watch(informer, predicate=reconciler.concerns, on_delete=True)
        return controller

    def _storage_locations(self) -> Controller:
        reconciler = storage_location.StorageLocationReconciler(
            self._scope,
            self._locations,
            default_location=self._options.defaults.storage_location,
            validation_frequency=self._options.store_validation_frequency,
        )
        controller = Controller(
            storage_location.NAME,
            reconciler.reconcile,
            workers=storage_location.WORKERS,
            clock=self._timers,
            queue=self._queue(self._lanes().of_locations(storage_location.WORKERS)),
        )
        controller.watch(self._informer(storage_location.LOCATIONS), on_delete=True)
        return controller

    def _downloads(self) -> Controller:
        reconciler = download_request.DownloadRequestReconciler(self._scope, self._locations)
        requests, workers = self._informer(download_request.REQUESTS), download_request.WORKERS
        lane_of = self._lanes().of_downloads(
            requests, self._informer(BACKUPS), self._informer(RESTORES), workers
        )
        controller = Controller(
            download_request.NAME,
            reconciler.reconcile,
            workers=workers,
            clock=self._timers,
            queue=RateLimitedQueue[Key](
                clock=self._timers, lane_of=lane_of, backoff=download_request.backoff()
            ),
        )
        # Its own patches must not undo the back-off of a request that cannot be answered.
        controller.watch(requests, on_update=False)
        return controller

    def _status_requests(self) -> Controller:
        reconciler = server_status.ServerStatusReconciler(
            self._scope, version=f"v{__version__}", plugins=self._known_plugins()
        )
        controller = Controller(
            server_status.NAME, reconciler.reconcile, workers=server_status.WORKERS, clock=self._timers
        )
        controller.watch(self._informer(server_status.REQUESTS))
        return controller

    def _known_plugins(self) -> list[tuple[str, str]]:
        built_in = _built_in(self._client, self._discovery, self._options.namespace)
        # The built-in actions for CSI give way to a plugin that brings them.
        csi = csi_plugins(self._client, self._discovery, self._scope.features)
        return server_status.shown_plugins(built_in.ids, csi, self._plugins.ids)


def _identity() -> str:
    """Unique among candidates, a restarted process in the same pod included."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
