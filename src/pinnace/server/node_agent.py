"""The node agent: saves and fills the volumes of the pods of its node. (docs/spec: PVL 3, SRV 16)"""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pinnace._version import __version__
from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.racing import unless_stopped
from pinnace.api.objects import mapping
from pinnace.controllers.node import data_download, data_upload, pod_volume_backup, pod_volume_restore
from pinnace.controllers.node.parts import Limits, NodeController, NodeParts
from pinnace.controllers.node.scope import NodeScope
from pinnace.controllers.node.volumes import NodeVolumes
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import (
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    NODES,
    POD_VOLUME_BACKUPS,
    POD_VOLUME_RESTORES,
    PODS,
)
from pinnace.kube.transport.config import ClusterConfig
from pinnace.operations.workdir import work_directory
from pinnace.runtime.informer import Informer, Selectors
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.manager import Manager
from pinnace.server.checks import StartupError
from pinnace.server.host_pods import DEFAULT_DIRECTORY, check_host_pods
from pinnace.server.monitoring.node_metrics import NodeAgentMetrics
from pinnace.server.monitoring.pages import StatusServer
from pinnace.server.signals import stop_on_signals
from pinnace.server.watchdog import Watchdog
from pinnace.volumes.agent_settings import AgentConfigError, node_agent_settings
from pinnace.volumes.uploader.access import AccessProvider
from pinnace.volumes.uploader.memory import VARIABLE, container_limit, with_memory_limit
from pinnace.volumes.uploaders import Uploaders

log = get_logger(__name__)

GRACE_SECONDS: Final = 5.0
"""How long volumes in flight may take at a stop. After it restic gets 10 seconds to remove its lock, and
their objects are failed: together less than the 30 seconds until the kubelet kills a pod."""

STOP_SECONDS: Final = 28.0
"""How long a stop may take as a whole, for the same reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAgentOptions:
    """The settings of a node agent, from flags and environment.

    Attributes:
        namespace: the namespace of the server.
        node: the name of the agent's node.
        pods_directory: where the kubelet's directory of pods is mounted.
        metrics_address: `host:port`.
        backup_workers, restore_workers: how many volumes are saved, and restored, at once.
        config_map: name of the ConfigMap with the settings of node agents; empty for none.
        concurrency: how many volumes are worked on at once, saved and restored together; 0 leaves it to
            the workers.
        scratch: where temporary files go; None: the system's temporary directory.
    """

    namespace: str
    node: str
    pods_directory: Path = DEFAULT_DIRECTORY
    metrics_address: str = ":8085"
    backup_workers: int = 1
    restore_workers: int = 1
    config_map: str = ""
    concurrency: int = 0
    scratch: Path | None = None


CONTROLLERS: Final[Mapping[str, Callable[[NodeParts], NodeController]]] = {
    pod_volume_backup.NAME: pod_volume_backup.controller,
    pod_volume_restore.NAME: pod_volume_restore.controller,
    data_upload.NAME: data_upload.controller,
    data_download.NAME: data_download.controller,
}
"""The controllers of a node agent by name, in the order of their start."""


async def run_node_agent(config: ClusterConfig, options: NodeAgentOptions, *, user_agent: str) -> None:
    """Run the node agent until SIGINT or SIGTERM.

    Raises:
        StartupError, KubeError, OSError: it cannot start.
        RuntimeFailure kinds of `pinnace.runtime`: caches that do not fill, work that had to be cancelled.
    """
    log.info(f"Starting Pinnace node agent v{__version__}", node=options.node, namespace=options.namespace)
    stop = asyncio.Event()
    with Watchdog(STOP_SECONDS) as watchdog, stop_on_signals(stop, on_stop=watchdog.ending):
        async with (
            KubeClient(config, user_agent=user_agent) as client,
            work_directory(options.scratch) as work,
        ):
            settled = await unless_stopped(stop, _settled(client, options))
            if settled is not None:
                await NodeAgent(client, settled, work).manager().run(stop, on_ending=watchdog.ending)
    log.info("Node agent stopped")


async def _settled(client: KubeClient, options: NodeAgentOptions) -> NodeAgentOptions:
    await check_host_pods(client, options.node, options.pods_directory)
    return await with_config_map(client, options)


async def with_config_map(client: KubeClient, options: NodeAgentOptions) -> NodeAgentOptions:
    """The options, with the settings that the ConfigMap has for this node. Raises StartupError, KubeError."""
    try:
        config, warnings = await node_agent_settings(client, options.namespace, options.config_map)
    except AgentConfigError as error:
        raise StartupError(str(error)) from error
    for warning in warnings:
        log.warning(f"ConfigMap {options.config_map}: {warning}")
    if config.load_concurrency is None:
        return options
    node = await client.get(NODES, options.node)
    number = config.concurrency(mapping(node, "metadata", "labels"))
    log.info("The ConfigMap sets how many volumes are saved and restored at once", number=number)
    return replace(options, concurrency=number)


def _uploaders(client: KubeClient, options: NodeAgentOptions, workdir: Path) -> Uploaders:
    at_once = options.concurrency or options.backup_workers + options.restore_workers
    inherited = with_memory_limit(os.environ, at_once=at_once, container_bytes=container_limit())
    log.info("Each child process gets a memory limit", limit=inherited[VARIABLE])
    return Uploaders.of(AccessProvider(client, options.namespace, workdir, inherited=inherited))


class NodeAgent:
    """The parts of one agent, put together; nothing runs yet.

    Args:
        workdir: private to this agent.
        uploaders: used instead of restic and kopia.
    """

    def __init__(
        self,
        client: KubeClient,
        options: NodeAgentOptions,
        workdir: Path,
        *,
        uploaders: Uploaders | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.metrics = NodeAgentMetrics(options.node)
        self._options = options
        namespace = options.namespace
        scope = NodeScope(
            client=client,
            namespace=namespace,
            node=options.node,
            pods_directory=options.pods_directory,
            metrics=self.metrics,
            clock=clock,
        )
        self._parts = NodeParts(
            scope=scope,
            volumes=NodeVolumes(scope),
            uploaders=uploaders or _uploaders(client, options, workdir),
            backups=Informer(client, POD_VOLUME_BACKUPS, namespace, indexes=pod_volume_backup.indexes()),
            restores=Informer(client, POD_VOLUME_RESTORES, namespace, indexes=pod_volume_restore.indexes()),
            uploads=Informer(client, DATA_UPLOADS, namespace),
            downloads=Informer(client, DATA_DOWNLOADS, namespace),
            pods=Informer(client, PODS, selectors=Selectors(fields=f"spec.nodeName={options.node}")),
            limits=Limits.together(options.concurrency)
            if options.concurrency
            else Limits.of(options.backup_workers, options.restore_workers),
        )

    def manager(self) -> Manager:
        """The manager with all parts added. Call it once."""
        manager, parts = Manager(grace_period_seconds=GRACE_SECONDS), self._parts
        page = StatusServer(self._options.metrics_address, self.metrics.exposition, lambda: manager.health)
        manager.add_service("status", page)
        # Pods first: they decide which PodVolumeRestores can begin.
        for informer in (parts.pods, parts.backups, parts.restores, parts.uploads, parts.downloads):
            manager.add_informer(informer)
        for name, make in CONTROLLERS.items():
            made = make(parts)
            manager.add_preparation(f"orphans of {name}", made.fail_orphans)
            manager.add_controller(made.controller)
        return manager
