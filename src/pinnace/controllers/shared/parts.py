"""The parts that the controllers of one server share, made once and handed to each controller whole."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pinnace.controllers.shared.availability import Availability
from pinnace.controllers.shared.lanes import LaneOf, Lanes
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.namespace_queue import NamespaceQueue
from pinnace.controllers.shared.options import ControllerOptions
from pinnace.controllers.shared.pod_volumes import PodVolumes, SnapshotForgetter
from pinnace.controllers.shared.repository_presence import RepositoryPresence
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.settling import Settler
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, APIResource
from pinnace.runtime.backoff import FailureBackoff
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.queue import RateLimitedQueue, one_lane
from pinnace.runtime.worker_slots import QueueWorkerSlot, WorkerSlot
from pinnace.volumes.repositories import Repositories
from pinnace.volumes.uploader.access import AccessProvider
from pinnace.volumes.uploader.locks import RepositoryLocks
from pinnace.volumes.uploader.memory import container_limit, with_memory_limit
from pinnace.volumes.uploaders import Uploaders

MAINTENANCE_AT_ONCE: Final = 2
"""How many repositories are maintained at once, each by a child process."""


class Informers:
    """The informers of one server, one for each kind: its controllers share one cache and one watch.

    Args:
        namespace: the server's.
        add: called with each new informer; makes sure that it runs.
    """

    def __init__(self, client: KubeClient, namespace: str, add: Callable[[Informer], Informer]) -> None:
        self._client = client
        self._namespace = namespace
        self._add = add
        self._informers: dict[APIResource, Informer] = {}

    def of(self, resource: APIResource) -> Informer:
        """The informer of that kind, made when it is first asked for."""
        if resource not in self._informers:
            self._informers[resource] = self._add(Informer(self._client, resource, self._namespace))
        return self._informers[resource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts that the controllers of one server share.

    Attributes:
        locations: opens the stores of BackupStorageLocations.
        uploaders, locks: restic and kopia, and one set of repository locks for all controllers.
        repositories: finds and makes BackupRepositories.
        presence: looks for repositories in their locations.
        pod_volumes: saves, restores and forgets the content of pod volumes.
        backups_in_flight, restores_in_flight: keys of the Backups and Restores that this server works on.
        namespace_queues: the queue that decides which Backups or Restores may start, for each kind that this
            server works on; None where there is one worker, or no such rule.
        limits: says which limit keeps a Backup or Restore from a worker, for each such kind.
    """

    scope: Scope
    options: ControllerOptions
    informers: Informers
    locations: LocationStores
    availability: Availability
    settler: Settler
    uploaders: Uploaders
    repositories: Repositories
    presence: RepositoryPresence
    locks: RepositoryLocks
    pod_volumes: PodVolumes
    backups_in_flight: set[Key] = field(default_factory=set)
    restores_in_flight: set[Key] = field(default_factory=set)
    namespace_queues: dict[APIResource, NamespaceQueue | None] = field(default_factory=dict)
    limits: dict[APIResource, Callable[[Key], str]] = field(default_factory=dict)

    @classmethod
    def of(cls, scope: Scope, options: ControllerOptions, informers: Informers) -> "Parts":
        """The parts of a server with that scope; nothing runs yet."""
        client, namespace = scope.client, scope.namespace
        locations = LocationStores(client, namespace, scope.workdir / "credentials", plugins=scope.plugins)
        inherited = with_memory_limit(
            os.environ, at_once=MAINTENANCE_AT_ONCE, container_bytes=container_limit()
        )
        uploaders = Uploaders.of(AccessProvider(client, namespace, scope.workdir, inherited=inherited))
        locks = RepositoryLocks()
        presence = RepositoryPresence(locations)
        repositories = Repositories(
            client,
            namespace,
            frequency=options.maintenance_frequency,
            config_map=options.repository_config_map,
            look=presence.look,
        )
        return cls(
            scope=scope,
            options=options,
            informers=informers,
            locations=locations,
            availability=Availability(locations, clock=scope.clock),
            settler=Settler(scope, locations, resumes=options.resume_restores),
            uploaders=uploaders,
            repositories=repositories,
            presence=presence,
            locks=locks,
            pod_volumes=PodVolumes(
                scope,
                SnapshotForgetter(uploaders, presence),
                repositories,
                locks,
                timeout=options.pod_volume_timeout,
                settle_seconds=options.restore.resource_timeout_seconds,
                uploader=options.uploader,
            ),
        )

    @property
    def lanes(self) -> Lanes:
        """Chooses the lane of a key in a queue."""
        return Lanes(
            self.scope.namespace,
            self.informers.of(BACKUP_STORAGE_LOCATIONS),
            default_location=self.options.defaults.storage_location,
        )

    def queue(
        self, lane_of: LaneOf = one_lane, *, backoff: FailureBackoff[Key] | None = None
    ) -> RateLimitedQueue[Key]:
        """A new work queue by the server's clock."""
        return RateLimitedQueue[Key](clock=self.scope.clock, lane_of=lane_of, backoff=backoff)

    def worker_slots(self, queue: RateLimitedQueue[Key]) -> Callable[[Key], WorkerSlot]:
        """The workers of the keys of that queue."""
        return lambda key: QueueWorkerSlot(queue, key, clock=self.scope.clock)
