"""The node agent: saves and fills the volumes of the pods of its node. (docs/spec: PVL 3, SRV 16)"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pinnace import __version__
from pinnace.aio.clock import Clock
from pinnace.aio.racing import unless_stopped
from pinnace.api.objects import JSONObject
from pinnace.api.pod_volume import PodVolumeBackup, PodVolumeRestore
from pinnace.api.values.times import utcnow
from pinnace.controllers.node import pod_volume_backup, pod_volume_restore
from pinnace.controllers.node.orders import OrderReconciler
from pinnace.controllers.node.pod_volume_backup import PodVolumeBackupWork
from pinnace.controllers.node.pod_volume_restore import PodVolumeRestoreWork
from pinnace.controllers.node.scope import NodeScope
from pinnace.controllers.node.volumes import NodeVolumes
from pinnace.kube.client import KubeClient
from pinnace.kube.config import ClusterConfig
from pinnace.kube.resources import PODS
from pinnace.operations.workdir import work_directory
from pinnace.runtime.controller import Controller
from pinnace.runtime.informer import Informer, Selectors
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.manager import Manager
from pinnace.server.host_pods import DEFAULT_DIRECTORY, check_host_pods
from pinnace.server.monitoring.node_metrics import NodeAgentMetrics
from pinnace.server.monitoring.pages import StatusServer
from pinnace.server.signals import stop_on_signals
from pinnace.volumes.pod_volume_backups import POD_VOLUME_BACKUPS
from pinnace.volumes.pod_volume_restores import POD_VOLUME_RESTORES
from pinnace.volumes.restic.access import AccessProvider
from pinnace.volumes.restic.client import Restic

log = get_logger(__name__)

GRACE_SECONDS: Final = 5.0
"""For volumes in hand at a stop. After it restic gets 10 seconds to remove its lock, and the orders are
failed: together less than the 30 seconds after which the kubelet kills a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAgentOptions:
    """What flags and environment of the agent say.

    Attributes:
        namespace: the server's.
        node: the name of the agent's node.
        pods_directory: where the kubelet's directory of pods is mounted.
        metrics_address: `host:port`.
        backup_workers, restore_workers: how many volumes are saved, and restored, at once.
        scratch: where temporary files go; None: the system's temporary directory.
    """

    namespace: str
    node: str
    pods_directory: Path = DEFAULT_DIRECTORY
    metrics_address: str = ":8085"
    backup_workers: int = 1
    restore_workers: int = 1
    scratch: Path | None = None


async def run_node_agent(config: ClusterConfig, options: NodeAgentOptions, *, user_agent: str) -> None:
    """Run until SIGINT or SIGTERM.

    Raises:
        StartupError, KubeError, OSError: it cannot start.
        RuntimeFailure kinds of `pinnace.runtime`: caches that do not fill, work that had to be cancelled.
    """
    log.info(f"Starting Pinnace node agent v{__version__}", node=options.node, namespace=options.namespace)
    stop = asyncio.Event()
    with stop_on_signals(stop):
        async with (
            KubeClient(config, user_agent=user_agent) as client,
            work_directory(options.scratch) as work,
        ):
            checked = await unless_stopped(stop, _checked(client, options))
            if checked:
                await NodeAgent(client, options, work).manager().run(stop)
    log.info("Node agent stopped")


async def _checked(client: KubeClient, options: NodeAgentOptions) -> bool:
    await check_host_pods(client, options.node, options.pods_directory)
    return True


class NodeAgent:
    """The parts of one agent, put together; nothing runs yet.

    Args:
        workdir: private to this agent.
        restic: in place of the usual one.
        clock: the time of day.
        timers: what controllers wait by; the event loop's if left out.
    """

    def __init__(
        self,
        client: KubeClient,
        options: NodeAgentOptions,
        workdir: Path,
        *,
        restic: Restic | None = None,
        clock: Callable[[], datetime] = utcnow,
        timers: Clock | None = None,
    ) -> None:
        self.metrics = NodeAgentMetrics(options.node)
        self._options = options
        self._timers = timers
        self._restic = restic or Restic(AccessProvider(client, options.namespace, workdir))
        self._scope = NodeScope(
            client=client,
            namespace=options.namespace,
            node=options.node,
            pods_directory=options.pods_directory,
            metrics=self.metrics,
            clock=clock,
        )
        self._volumes = NodeVolumes(self._scope)
        self._backups = Informer(
            client,
            POD_VOLUME_BACKUPS,
            options.namespace,
            indexes={
                pod_volume_backup.CLAIM_INDEX: pod_volume_backup.by_claim,
                pod_volume_backup.SNAPSHOT_INDEX: pod_volume_backup.by_snapshot,
            },
        )
        self._restores = Informer(
            client,
            POD_VOLUME_RESTORES,
            options.namespace,
            indexes={pod_volume_restore.POD_INDEX: pod_volume_restore.by_pod},
        )
        self._pods = Informer(client, PODS, selectors=Selectors(fields=f"spec.nodeName={options.node}"))

    def manager(self) -> Manager:
        """The manager with everything in it. Once."""
        manager = Manager(grace_period_seconds=GRACE_SECONDS)
        page = StatusServer(self._options.metrics_address, self.metrics.exposition, lambda: manager.health)
        manager.add_service("status", page)
        # Pods first: which orders can begin depends on them.
        for informer in (self._pods, self._backups, self._restores):
            manager.add_informer(informer)
        self._add_backups(manager)
        self._add_restores(manager)
        return manager

    def _add_backups(self, manager: Manager) -> None:
        work = PodVolumeBackupWork(self._scope, self._volumes, self._restic, self._backups)
        reconciler: OrderReconciler[PodVolumeBackup] = pod_volume_backup.new_reconciler(self._scope, work)
        controller = Controller(
            pod_volume_backup.NAME,
            reconciler.reconcile,
            workers=self._options.backup_workers,
            clock=self._timers,
        )
        controller.watch(self._backups, keys=work.enqueued, predicate=work.is_wanted)
        self._backups.add_handlers(on_delete=reconciler.deleted)

        async def orphans() -> None:
            await work.fail_orphans(reconciler)

        manager.add_preparation("orphaned backups", orphans)
        manager.add_controller(controller)

    def _add_restores(self, manager: Manager) -> None:
        work = PodVolumeRestoreWork(
            self._scope,
            self._volumes,
            self._restic,
            orders=self._restores,
            pods=self._pods,
            backups=self._backups,
        )
        reconciler: OrderReconciler[PodVolumeRestore] = pod_volume_restore.new_reconciler(self._scope, work)
        controller = Controller(
            pod_volume_restore.NAME,
            reconciler.reconcile,
            workers=self._options.restore_workers,
            clock=self._timers,
        )
        controller.watch(self._restores, predicate=work.is_wanted)
        controller.watch(self._pods, keys=work.keys_of_waiting, predicate=pod_volume_restore.is_waiting)
        self._restores.add_handlers(on_delete=reconciler.deleted)

        def pod_changed(pod: JSONObject) -> None:
            # Its kubelet cannot take the volumes away while something of ours is in there.
            if pod_volume_restore.is_ending(pod):
                pod_gone(pod)

        def pod_gone(pod: JSONObject) -> None:
            key = Key.of(pod)
            for order in work.orders_of(pod):
                reason = pod_volume_restore.pod_gone(key.namespace, key.name)
                reconciler.give_up(order["metadata"]["uid"], reason)

        def pod_deleted(pod: JSONObject) -> None:
            pod_gone(pod)
            for key in work.keys_of_waiting(pod):
                controller.enqueue(key)

        self._pods.add_handlers(on_update=lambda _old, new: pod_changed(new), on_delete=pod_deleted)

        async def orphans() -> None:
            await work.fail_orphans(reconciler)

        manager.add_preparation("orphaned restores", orphans)
        manager.add_controller(controller)
