"""The parts that the controllers of self-service share, and how they watch. (docs/spec: NAC 11)"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, APIResource
from pinnace.nonadmin.caches import BY_WAITING, CACHED
from pinnace.nonadmin.collector import Leftovers
from pinnace.nonadmin.events import KeysOf, is_edited
from pinnace.nonadmin.flows.driver import Flow, FlowDriver
from pinnace.nonadmin.flows.limits import Slots, first, is_waiting
from pinnace.nonadmin.loading import FlowContext
from pinnace.nonadmin.lookups import Lookups
from pinnace.nonadmin.queue_position import WaitingQueue
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.settings.source import SettingsFlags, SettingsSource
from pinnace.runtime.backoff import FailureBackoff
from pinnace.runtime.controller import Controller
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.queue import Lane, RateLimitedQueue, Share

WORKERS: Final = 4
"""Requests reconciled at once; each one costs little more than two calls of the API server."""

RETRY_SECONDS: Final = 0.5
"""The first delay after an error; it doubles. Tenants can write any number of requests that end in one."""

Changed = Callable[[JSONObject, JSONObject], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class NonAdminOptions:
    """The options of self-service.

    Attributes:
        namespace: the server's.
        default_location: the one that the server's flag names.
        passes: called with the controller and the request of each pass; for measuring.
    """

    namespace: str
    settings: SettingsFlags = field(default_factory=SettingsFlags)
    default_location: str = ""
    clock: Clock = SYSTEM_CLOCK
    new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())
    passes: Callable[[str, Key], None] = lambda _controller, _key: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The parts that the controllers of self-service share.

    Attributes:
        informers: one for each kind of `CACHED`.
        context: what the flows share.
    """

    client: KubeClient
    options: NonAdminOptions
    informers: Mapping[APIResource, Informer]
    settings: SettingsSource
    context: FlowContext

    @classmethod
    def of(cls, client: KubeClient, options: NonAdminOptions) -> "Wiring":
        """The parts for one cluster; nothing runs yet."""
        informers = {
            cached.resource: Informer(
                client,
                cached.resource,
                None if cached.everywhere else options.namespace,
                indexes=cached.indexes,
            )
            for cached in CACHED
        }
        settings = SettingsSource(options.settings, informers[BACKUP_STORAGE_LOCATIONS].objects)
        context = FlowContext(
            lookups=Lookups(client, options.namespace, informers),
            settings=settings,
            backups=WaitingQueue(),
            restores=WaitingQueue(),
            backup_slots=Slots(Origin.BACKUP),
            restore_slots=Slots(Origin.RESTORE),
            clock=options.clock,
            new_uuid=options.new_uuid,
        )
        return cls(client=client, options=options, informers=informers, settings=settings, context=context)

    def controller(self, name: str, flow: Flow, *, makes: APIResource | None = None) -> Controller:
        """A controller of the requests of one flow.

        Args:
            makes: the kind that the flow creates; unserved objects of it are deleted with their request.
        """
        leftovers = Leftovers(self.client, self.informers[makes], makes) if makes is not None else None
        reconciler = FlowDriver(
            self.client,
            flow,
            gone=leftovers.remove if leftovers is not None else None,
            passes=lambda key: self.options.passes(name, key),
            cached=self.informers[flow.resource].get,
        )
        controller = Controller(
            name,
            reconciler.reconcile,
            workers=WORKERS,
            # Tenants are served round robin, and each has a rate of retries: a flood of one delays no other.
            queue=RateLimitedQueue[Key](
                lane_of=lane_of_tenant,
                backoff=FailureBackoff(base_seconds=RETRY_SECONDS),
            ),
        )
        controller.wait_for(*self.informers.values())
        return controller

    def watch_requests(self, controller: Controller, resource: APIResource) -> None:
        """Queue requests that are new, edited or deleted, and all of them when the settings change."""
        self.watch(controller, resource, lambda obj: (Key.of(obj),), changed=is_edited)
        self.settings.on_change(enqueue_all(controller, self.informers[resource].keys))

    def watch(
        self,
        controller: Controller,
        resource: APIResource,
        keys: KeysOf,
        *,
        changed: Changed = lambda _old, _new: True,
    ) -> None:
        """Queue the keys that an object stands for when it is added, deleted, or `changed` says so."""
        enqueue = enqueue_keys(controller, keys)

        def enqueue_changed(old: JSONObject, new: JSONObject) -> None:
            if changed(old, new):
                enqueue(new)

        self.informers[resource].add_handlers(on_add=enqueue, on_update=enqueue_changed, on_delete=enqueue)

    def watch_queue(self, resource: APIResource, waiting: WaitingQueue) -> None:
        """Keep the queue of objects of this kind that wait for the server up to date."""
        self.informers[resource].add_handlers(
            on_add=waiting.put, on_update=lambda _, new: waiting.put(new), on_delete=waiting.remove
        )

    def watch_slots(
        self,
        controller: Controller,
        requests: APIResource,
        made: APIResource,
        slots: Slots,
        unique_id: Callable[[JSONObject], str],
        limit_of: Callable[[AdminSettings], int],
    ) -> None:
        """Count the slots that each namespace takes, and queue waiting requests when one becomes free."""
        informer = self.informers[requests]

        def queue_waiting(namespace: str) -> None:
            limit = limit_of(self.settings())
            if free := max(limit - slots.taken(namespace), 0):
                for key in first(informer.by_index(BY_WAITING, namespace), free):
                    controller.enqueue(key)

        def changed(old: JSONObject, new: JSONObject) -> None:
            # A request that begins to wait may have missed a free slot, one that stops may not use it.
            if is_waiting(old) != is_waiting(new):
                queue_waiting(Key.of(new).namespace)

        def gone(request: JSONObject) -> None:
            name = unique_id(request)
            if self.informers[made].get(Key(self.options.namespace, name)) is None:
                slots.free(Key.of(request).namespace, name)
            if is_waiting(request):
                queue_waiting(Key.of(request).namespace)

        slots.on_free(queue_waiting)
        informer.add_handlers(on_update=changed, on_delete=gone)
        self.informers[made].add_handlers(
            on_add=slots.put, on_update=lambda _, new: slots.put(new), on_delete=slots.remove
        )


def lane_of_tenant(key: Key) -> Lane:
    """The lane of a request: its tenant's, which never has all workers: one stays free for other tenants."""
    return Lane(party=key.namespace, shares=(Share(key.namespace, WORKERS - 1),))


def enqueue_keys(controller: Controller, keys: KeysOf) -> Callable[[JSONObject], None]:
    """Return a handler that queues the keys that an object stands for."""

    def enqueue(obj: JSONObject) -> None:
        for key in keys(obj):
            controller.enqueue(key)

    return enqueue


def enqueue_all(controller: Controller, keys: Callable[[], Iterable[Key]]) -> Callable[[], None]:
    """Return a listener that queues all these keys."""

    def enqueue() -> None:
        for key in keys():
            controller.enqueue(key)

    return enqueue
