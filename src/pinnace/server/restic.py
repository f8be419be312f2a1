"""The parts of a server that deal with restic, put together. (docs/spec: SRV 4, PVL 8)"""

from dataclasses import dataclass

from pinnace.aio.clock import Clock
from pinnace.controllers import restic_repository
from pinnace.controllers.lanes import Lanes
from pinnace.controllers.locations import LocationStores
from pinnace.controllers.pod_volumes import PodVolumes
from pinnace.controllers.ports import Scope
from pinnace.runtime.controller import Controller, Resync
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.queue import RateLimitedQueue
from pinnace.server.options import ServerOptions
from pinnace.volumes.repositories import Repositories
from pinnace.volumes.restic.access import AccessProvider
from pinnace.volumes.restic.client import Restic
from pinnace.volumes.restic.locks import RepositoryLocks


@dataclass(frozen=True, slots=True, kw_only=True)
class ResticParts:
    """What all controllers share: one set of locks above all."""

    locations: LocationStores
    restic: Restic
    locks: RepositoryLocks
    pod_volumes: PodVolumes


def restic_parts(scope: Scope, locations: LocationStores, options: ServerOptions) -> ResticParts:
    """Make them; nothing runs yet."""
    restic = Restic(AccessProvider(scope.client, scope.namespace, scope.workdir))
    locks = RepositoryLocks()
    repositories = Repositories(scope.client, scope.namespace, frequency=options.restic_prune_frequency)
    pod_volumes = PodVolumes(scope, restic, repositories, locks, timeout=options.restic_timeout)
    return ResticParts(locations=locations, restic=restic, locks=locks, pod_volumes=pod_volumes)


def repository_controllers(
    scope: Scope,
    parts: ResticParts,
    options: ServerOptions,
    informer: Informer,
    lanes: Lanes,
    *,
    timers: Clock | None = None,
) -> tuple[Controller, Controller]:
    """The controller that makes repositories, and the one that maintains them."""
    making = restic_repository.RepositoryReconciler(
        scope, parts.locations, parts.restic, parts.locks, frequency=options.restic_prune_frequency
    )
    maintaining = restic_repository.MaintenanceReconciler(scope, parts.restic, parts.locks)
    made, maintained = restic_repository.WORKERS, restic_repository.MAINTENANCE_WORKERS
    queue = RateLimitedQueue[Key](clock=timers, lane_of=lanes.of_repositories(informer, made))
    upkeep = RateLimitedQueue[Key](clock=timers, lane_of=lanes.of_repositories(informer, maintained))
    return (
        _controller(restic_repository.NAME, making, made, informer, queue, timers),
        _controller(restic_repository.MAINTENANCE_NAME, maintaining, maintained, informer, upkeep, timers),
    )


def _controller(
    name: str,
    reconciler: restic_repository.RepositoryReconciler | restic_repository.MaintenanceReconciler,
    workers: int,
    informer: Informer,
    queue: RateLimitedQueue[Key],
    timers: Clock | None,
) -> Controller:
    ready = isinstance(reconciler, restic_repository.MaintenanceReconciler)

    async def enqueue_all() -> None:
        for obj in informer.objects():
            if restic_repository.is_ready(obj) is ready:
                queue.add(Key.of(obj))

    controller = Controller(
        name,
        reconciler.reconcile,
        workers=workers,
        resync=Resync(enqueue_all, restic_repository.PERIOD_SECONDS),
        clock=timers,
        queue=queue,
    )
    # New ones at once; what our own patches change waits for the next pass.
    controller.watch(
        informer, predicate=lambda obj: restic_repository.is_ready(obj) is ready, on_update=False
    )
    if not ready:
        controller.watch(informer, predicate=restic_repository.is_requested, on_add=False)
    return controller
