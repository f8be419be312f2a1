"""Puts the parts of self-service together and adds them to a manager. (docs/spec: NAC 2, 11)"""

import functools
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Final

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, text
from pinnace.api.values.times import utcnow
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    CONFIGMAPS,
    DELETE_BACKUP_REQUESTS,
    DOWNLOAD_REQUESTS,
    POD_VOLUME_BACKUPS,
    POD_VOLUME_RESTORES,
    RESTORES,
    APIResource,
)
from pinnace.nonadmin import collector, synchronizer
from pinnace.nonadmin.caches import BY_TARGET, BY_WAITING, CACHED, in_namespace
from pinnace.nonadmin.collector import Collector, Leftovers
from pinnace.nonadmin.events import KeysOf, is_edited, origin_keys, owner_keys, waiting_for
from pinnace.nonadmin.flows.backup import stored_id
from pinnace.nonadmin.flows.driver import Flow, RequestReconciler
from pinnace.nonadmin.flows.restore import restore_id
from pinnace.nonadmin.loading import BackupFlow, DownloadFlow, FlowContext, LocationFlow, RestoreFlow
from pinnace.nonadmin.lookups import Lookups
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATION_REQUESTS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.nonadmin.positions import PERIOD_SECONDS, Positions, Queue
from pinnace.nonadmin.queue_position import WaitingLine
from pinnace.nonadmin.settings import AdminSettings
from pinnace.nonadmin.settings_source import SettingsFlags, SettingsSource
from pinnace.nonadmin.specs.limits import Places, first, is_waiting
from pinnace.nonadmin.synchronizer import Synchronizer
from pinnace.runtime.backoff import FailureBackoff
from pinnace.runtime.controller import Controller, Resync
from pinnace.runtime.informer import Informer, Selectors
from pinnace.runtime.keys import Key
from pinnace.runtime.manager import Manager
from pinnace.runtime.queue import Lane, RateLimitedQueue

BACKUP: Final = "nonadmin-backup"
RESTORE: Final = "nonadmin-restore"
LOCATION: Final = "nonadmin-location"
DOWNLOAD: Final = "nonadmin-download"
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


def add_nonadmin(manager: Manager, client: KubeClient, options: NonAdminOptions) -> None:
    """Add caches, settings and controllers. Bad settings end the manager's start with SettingsError."""
    _Assembly(manager, client, options).add()


class _Assembly:
    def __init__(self, manager: Manager, client: KubeClient, options: NonAdminOptions) -> None:
        self._manager = manager
        self._client = client
        self._options = options
        self._informers = {
            cached.resource: Informer(
                client,
                cached.resource,
                None if cached.everywhere else options.namespace,
                indexes=cached.indexes,
            )
            for cached in CACHED
        }
        self._settings = SettingsSource(options.settings, self._informers[BACKUP_STORAGE_LOCATIONS].objects)
        self._context = FlowContext(
            lookups=Lookups(client, options.namespace, self._informers),
            settings=self._settings,
            backups=WaitingLine(),
            restores=WaitingLine(),
            backup_places=Places(Origin.BACKUP),
            restore_places=Places(Origin.RESTORE),
            clock=options.clock,
            new_uuid=options.new_uuid,
        )

    def add(self) -> None:
        for informer in self._informers.values():
            self._manager.add_informer(informer)
        self._watch_settings()
        controllers = [
            self._backups(),
            self._restores(),
            self._locations(),
            self._downloads(),
            *self._positions(),
            *self._timers(),
        ]
        for controller in controllers:
            self._manager.add_controller(controller)

    def _watch_settings(self) -> None:
        name = self._options.settings.config_map
        informer = self._manager.add_informer(
            Informer(
                self._client,
                CONFIGMAPS,
                self._options.namespace,
                selectors=Selectors(fields=f"metadata.name={name}"),
            )
        )

        async def start() -> None:
            self._settings.start(informer.get(Key(self._options.namespace, name)))
            informer.add_handlers(
                on_add=self._settings.take,
                on_update=lambda _, new: self._settings.take(new),
                on_delete=lambda _: self._settings.take(None),
            )

        self._manager.add_preparation("nonadmin-settings", start)

    # --- One controller a kind --------------------------------------------------------------------------

    def _backups(self) -> Controller:
        controller = self._controller(BACKUP, BackupFlow(self._context), makes=BACKUPS)
        own = origin_keys(Origin.BACKUP)
        self._watch_requests(controller, NON_ADMIN_BACKUPS)
        self._watch(controller, BACKUPS, own)
        self._watch(controller, DELETE_BACKUP_REQUESTS, own)
        owners = owner_keys("Backup", self._informers[BACKUPS].get, Origin.BACKUP)
        self._watch(controller, POD_VOLUME_BACKUPS, owners)
        self._watch(controller, NON_ADMIN_LOCATIONS, waiting_for(self._context.lookups.backups_on))
        self._watch_line(BACKUPS, self._context.backups)
        limit = attrgetter("max_unfinished_backups")
        self._watch_places(
            controller, NON_ADMIN_BACKUPS, BACKUPS, self._context.backup_places, stored_id, limit
        )
        return controller

    def _restores(self) -> Controller:
        controller = self._controller(RESTORE, RestoreFlow(self._context), makes=RESTORES)
        own = origin_keys(Origin.RESTORE)
        self._watch_requests(controller, NON_ADMIN_RESTORES)
        self._watch(controller, RESTORES, own)
        owners = owner_keys("Restore", self._informers[RESTORES].get, Origin.RESTORE)
        self._watch(controller, POD_VOLUME_RESTORES, owners)
        self._watch(controller, NON_ADMIN_BACKUPS, waiting_for(self._context.lookups.restores_of))
        self._watch_line(RESTORES, self._context.restores)
        limit = attrgetter("max_unfinished_restores")
        self._watch_places(
            controller, NON_ADMIN_RESTORES, RESTORES, self._context.restore_places, restore_id, limit
        )
        return controller

    def _locations(self) -> Controller:
        controller = self._controller(LOCATION, LocationFlow(self._context))
        own = origin_keys(Origin.LOCATION)
        self._watch_requests(controller, NON_ADMIN_LOCATIONS)
        self._watch(controller, BACKUP_STORAGE_LOCATIONS, own)
        self._watch(controller, NON_ADMIN_LOCATION_REQUESTS, own, changed=is_edited)
        return controller

    def _downloads(self) -> Controller:
        controller = self._controller(DOWNLOAD, DownloadFlow(self._context))
        own = origin_keys(Origin.DOWNLOAD)

        def answered(download: JSONObject) -> Iterable[Key]:
            return own(download) if text(download, "status", "phase") == "Processed" else ()

        self._watch_requests(controller, NON_ADMIN_DOWNLOADS)
        self._watch(controller, DOWNLOAD_REQUESTS, answered)
        # What such a request names may be made after it.
        requests = self._informers[NON_ADMIN_DOWNLOADS]

        def named(obj: JSONObject) -> Iterable[Key]:
            return [
                Key.of(non_admin_download)
                for non_admin_download in requests.by_index(BY_TARGET, in_namespace(*Key.of(obj)))
            ]

        for made, origin, resource in (
            (BACKUPS, Origin.BACKUP, NON_ADMIN_BACKUPS),
            (RESTORES, Origin.RESTORE, NON_ADMIN_RESTORES),
        ):
            self._informers[resource].add_handlers(on_add=_enqueue_keys(controller, named))
            of = origin_keys(origin)

            def named_by_origin(obj: JSONObject, of: KeysOf = of) -> Iterable[Key]:
                keys = [in_namespace(*key) for key in of(obj)]
                return [
                    Key.of(non_admin_download)
                    for key in keys
                    for non_admin_download in requests.by_index(BY_TARGET, key)
                ]

            self._informers[made].add_handlers(on_add=_enqueue_keys(controller, named_by_origin))
        return controller

    def _timers(self) -> Iterable[Controller]:
        """The controllers that look at everything from time to time."""
        collect = Collector(self._client, self._options.namespace, self._informers, self._settings)
        synchronize = Synchronizer(
            self._client,
            self._informers,
            self._context.lookups,
            self._settings,
            default_location=self._options.default_location,
            clock=self._options.clock,
        )
        for name, key, reconcile in (
            (synchronizer.NAME, synchronizer.KEY, synchronize.reconcile),
            (collector.NAME, collector.KEY, collect.reconcile),
        ):
            controller = Controller(name, reconcile)
            controller.wait_for(*self._informers.values())
            controller.enqueue(key)
            self._settings.on_change(functools.partial(controller.enqueue, key))
            yield controller

    # --- Parts ------------------------------------------------------------------------------------------

    def _controller(self, name: str, flow: Flow, *, makes: APIResource | None = None) -> Controller:
        leftovers = Leftovers(self._client, self._informers[makes], makes) if makes is not None else None
        reconciler = RequestReconciler(
            self._client,
            flow,
            gone=leftovers.remove if leftovers is not None else None,
            passes=lambda key: self._options.passes(name, key),
            cached=self._informers[flow.resource].get,
        )
        controller = Controller(
            name,
            reconciler.reconcile,
            workers=WORKERS,
            # Tenants take turns, and their retries have a rate each: a flood of one delays no other.
            queue=RateLimitedQueue[Key](
                lane_of=lambda key: Lane(party=key.namespace),
                backoff=FailureBackoff(base_seconds=RETRY_SECONDS),
            ),
        )
        controller.wait_for(*self._informers.values())
        return controller

    def _watch_requests(self, controller: Controller, resource: APIResource) -> None:
        """Look at requests that are new, edited or deleted, and at all of them when other settings hold."""
        self._watch(controller, resource, lambda obj: (Key.of(obj),), changed=is_edited)
        self._settings.on_change(_enqueue_all(controller, self._informers[resource].keys))

    def _watch(
        self,
        controller: Controller,
        resource: APIResource,
        keys: KeysOf,
        *,
        changed: Changed = lambda _old, _new: True,
    ) -> None:
        def enqueue(obj: JSONObject) -> None:
            for key in keys(obj):
                controller.enqueue(key)

        def enqueue_changed(old: JSONObject, new: JSONObject) -> None:
            if changed(old, new):
                enqueue(new)

        self._informers[resource].add_handlers(on_add=enqueue, on_update=enqueue_changed, on_delete=enqueue)

    def _watch_line(self, resource: APIResource, line: WaitingLine) -> None:
        """Keep the line of what waits for the server."""
        self._informers[resource].add_handlers(
            on_add=line.put, on_update=lambda _, new: line.put(new), on_delete=line.remove
        )

    def _positions(self) -> Iterable[Controller]:
        """The controllers that show tenants how far their requests have moved up."""
        for name, resource, made, line, origin in (
            (BACKUP, NON_ADMIN_BACKUPS, BACKUPS, self._context.backups, Origin.BACKUP),
            (RESTORE, NON_ADMIN_RESTORES, RESTORES, self._context.restores, Origin.RESTORE),
        ):
            queue = Queue(
                resource=resource,
                requests=self._informers[resource],
                made=self._informers[made],
                line=line,
                request_of=origin_keys(origin),
            )
            controller = Controller(
                f"{name}-positions",
                resync=Resync(Positions(self._client, queue).refresh, PERIOD_SECONDS),
            )
            controller.wait_for(*self._informers.values())
            yield controller

    def _watch_places(
        self,
        controller: Controller,
        requests: APIResource,
        made: APIResource,
        places: Places,
        unique_id: Callable[[JSONObject], str],
        limit_of: Callable[[AdminSettings], int],
    ) -> None:
        """Keep count of what each namespace has unfinished, and let those go on who get a place."""
        informer = self._informers[requests]

        def go_on(namespace: str) -> None:
            limit = limit_of(self._settings())
            if free := max(limit - places.taken(namespace), 0):
                for key in first(informer.by_index(BY_WAITING, namespace), free):
                    controller.enqueue(key)

        def changed(old: JSONObject, new: JSONObject) -> None:
            # One that begins to wait may have missed that a place became free, one that ends may leave it.
            if is_waiting(old) != is_waiting(new):
                go_on(Key.of(new).namespace)

        def gone(request: JSONObject) -> None:
            name = unique_id(request)
            if self._informers[made].get(Key(self._options.namespace, name)) is None:
                places.free(Key.of(request).namespace, name)
            if is_waiting(request):
                go_on(Key.of(request).namespace)

        places.on_free(go_on)
        informer.add_handlers(on_update=changed, on_delete=gone)
        self._informers[made].add_handlers(
            on_add=places.put, on_update=lambda _, new: places.put(new), on_delete=places.remove
        )


def _enqueue_keys(controller: Controller, keys: KeysOf) -> Callable[[JSONObject], None]:
    def enqueue(obj: JSONObject) -> None:
        for key in keys(obj):
            controller.enqueue(key)

    return enqueue


def _enqueue_all(controller: Controller, keys: Callable[[], Iterable[Key]]) -> Callable[[], None]:
    def enqueue() -> None:
        for key in keys():
            controller.enqueue(key)

    return enqueue
