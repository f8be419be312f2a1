"""The parts that the controllers of self-service share, and how they watch. (docs/spec: NAC 11)"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import utcnow
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    APIResource,
)
from pinnace.nonadmin.caches import BY_WAITING, CACHED
from pinnace.nonadmin.collector import Leftovers
from pinnace.nonadmin.events import KeysOf, is_edited
from pinnace.nonadmin.flows.driver import Flow, RequestReconciler
from pinnace.nonadmin.flows.limits import Places, first, is_waiting
from pinnace.nonadmin.loading import FlowContext
from pinnace.nonadmin.lookups import Lookups
from pinnace.nonadmin.queue_position import WaitingLine
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.settings.source import SettingsFlags, SettingsSource
from pinnace.runtime.backoff import FailureBackoff
from pinnace.runtime.controller import Controller
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.queue import Lane, RateLimitedQueue, Share

WORKERS: Final = 4
"""Requests looked at at once; each one costs little more than two calls of the API server."""

RETRY_SECONDS: Final = 0.5
"""The first delay after an error; it doubles. Tenants can write any number of requests that end in one."""

Changed = Callable[[JSONObject, JSONObject], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class NonAdminOptions:
    """How self-service is run.

    Attributes:
        namespace: the server's.
        default_location: the server's by its flag.
        passes: told of each pass over a request, by controller; for measuring.
    """

    namespace: str
    settings: SettingsFlags = field(default_factory=SettingsFlags)
    default_location: str = ""
    clock: Callable[[], datetime] = utcnow
    new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())
    passes: Callable[[str, Key], None] = lambda _controller, _key: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the controllers of self-service share.

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
    def of(cls, client: KubeClient, options: NonAdminOptions) -> "Parts":
        """The parts over one cluster; nothing runs yet."""
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
            backups=WaitingLine(),
            restores=WaitingLine(),
            backup_places=Places(Origin.BACKUP),
            restore_places=Places(Origin.RESTORE),
            clock=options.clock,
            new_uuid=options.new_uuid,
        )
        return cls(client=client, options=options, informers=informers, settings=settings, context=context)

    def controller(self, name: str, flow: Flow, *, makes: APIResource | None = None) -> Controller:
        """A controller of the requests of one flow.

        Args:
            makes: the kind that the flow makes; what is left of it after its request is removed.
        """
        leftovers = Leftovers(self.client, self.informers[makes], makes) if makes is not None else None
        reconciler = RequestReconciler(
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
        """Queue the keys that an object stands for when it is added, deleted, or changed in this sense."""

        def enqueue(obj: JSONObject) -> None:
            for key in keys(obj):
                controller.enqueue(key)

        def enqueue_changed(old: JSONObject, new: JSONObject) -> None:
            if changed(old, new):
                enqueue(new)

        self.informers[resource].add_handlers(on_add=enqueue, on_update=enqueue_changed, on_delete=enqueue)

    def watch_line(self, resource: APIResource, line: WaitingLine) -> None:
        """Keep the queue of objects of this kind that wait for the server."""
        self.informers[resource].add_handlers(
            on_add=line.put, on_update=lambda _, new: line.put(new), on_delete=line.remove
        )

    def watch_places(
        self,
        controller: Controller,
        requests: APIResource,
        made: APIResource,
        places: Places,
        unique_id: Callable[[JSONObject], str],
        limit_of: Callable[[AdminSettings], int],
    ) -> None:
        """Count what each namespace has unfinished, and queue waiting requests when one ends."""
        informer = self.informers[requests]

        def go_on(namespace: str) -> None:
            limit = limit_of(self.settings())
            if free := max(limit - places.taken(namespace), 0):
                for key in first(informer.by_index(BY_WAITING, namespace), free):
                    controller.enqueue(key)

        def changed(old: JSONObject, new: JSONObject) -> None:
            # One that begins to wait may have missed that a place became free, one that ends may leave it.
            if is_waiting(old) != is_waiting(new):
                go_on(Key.of(new).namespace)

        def gone(request: JSONObject) -> None:
            name = unique_id(request)
            if self.informers[made].get(Key(self.options.namespace, name)) is None:
                places.free(Key.of(request).namespace, name)
            if is_waiting(request):
                go_on(Key.of(request).namespace)

        places.on_free(go_on)
        informer.add_handlers(on_update=changed, on_delete=gone)
        self.informers[made].add_handlers(
            on_add=places.put, on_update=lambda _, new: places.put(new), on_delete=places.remove
        )


def lane_of_tenant(key: Key) -> Lane:
    """The lane of a request: its tenant's, which leaves a worker for the request of another that comes."""
    return Lane(party=key.namespace, shares=(Share(key.namespace, WORKERS - 1),))


def enqueue_keys(controller: Controller, keys: KeysOf) -> Callable[[JSONObject], None]:
    """A handler that queues the keys that an object stands for."""

    def enqueue(obj: JSONObject) -> None:
        for key in keys(obj):
            controller.enqueue(key)

    return enqueue


def enqueue_all(controller: Controller, keys: Callable[[], Iterable[Key]]) -> Callable[[], None]:
    """A listener that queues all these keys."""

    def enqueue() -> None:
        for key in keys():
            controller.enqueue(key)

    return enqueue
