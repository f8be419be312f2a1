"""The controller that tells people what is wrong. A key is a sink. (ADR 129)

Guarantees:
    Only the server that leads sends: as every controller, it runs nowhere else.
    Runs never wait for it: it reads caches and sends in workers of its own.
    Sinks of a namespace wait for each other, and not for those of another namespace.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import tzinfo
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from pinnace.api import labels
from pinnace.api.objects import JSONObject, text
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.telling.marks import MarkSink, marked_ledger
from pinnace.controllers.telling.sources import FoundSink, MessageSources
from pinnace.controllers.telling.troubles import Objects, run_stages, troubles
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.identity import read_identity
from pinnace.kube.own_networks import OwnNetworks
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    CONFIGMAPS,
    DELETE_BACKUP_REQUESTS,
    RESTORES,
    SCHEDULES,
)
from pinnace.messages.delivery import Delivery, SinkFacts
from pinnace.messages.ledger import LEDGERS, Ledger
from pinnace.messages.problem import NOT_KNOWN, Problem
from pinnace.messages.settings import SinkSettings
from pinnace.messages.sinks.opening import open_sink
from pinnace.runtime.controller import DONE, Controller, Result, Resync
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.queue import Lane
from pinnace.store_access.addresses import parse_allowed

log = get_logger(__name__)

NAME: Final = "messages"
WORKERS: Final = 8
PERIOD_SECONDS: Final = 60.0
FRESH_SECONDS: Final = 10.0
"""For how long what is wrong is not looked for again: all sinks ask for it."""
SETTLED_SECONDS: Final = 60.0
"""For how long a state that its object does not date must last before it is told."""
_MARKS: Final = Key("", "marks")


class WatchedCaches(msgspec.Struct, frozen=True, kw_only=True):
    """The caches that problems are looked for in."""

    schedules: Informer
    backups: Informer
    restores: Informer
    locations: Informer
    deletions: Informer

    def read(self) -> Objects:
        """The objects in them."""
        return Objects(
            schedules=list(self.schedules.objects()),
            backups=list(self.backups.objects()),
            restores=list(self.restores.objects()),
            locations=list(self.locations.objects()),
            deletions=list(self.deletions.objects()),
        )


class Telling:
    """Tells each sink what is wrong.

    Args:
        enqueue: adds a key to the work queue.
    """

    def __init__(
        self, scope: Scope, caches: WatchedCaches, *, zone: tzinfo, enqueue: Callable[[Key], None]
    ) -> None:
        self._scope = scope
        self._caches = caches
        self._zone = zone
        self._enqueue = enqueue
        self._sources = MessageSources(scope)
        self._own_networks = OwnNetworks(scope.client, clock=scope.clock)
        self._sinks: dict[Key, FoundSink] = {}
        self._deliveries: dict[Key, Delivery] = {}
        self._facts: dict[str, SinkFacts] = {}
        self._facts_until = float("-inf")
        self._looking = asyncio.Lock()
        self._versions: Sequence[str] = ()
        self._looked = float("-inf")
        self._first_seen: dict[tuple[str, str], float] = {}
        self._errors: dict[Key, str] = {}
        self._uid = ""
        # Not the first look: before it, runs of a server that died have been ended.
        self._began = _whole(scope.clock.now().timestamp())

    async def resync(self) -> None:
        """Read the settings, and queue the sinks."""
        found = await self._sources.read()
        for key in self._sinks.keys() - found.keys():
            self._errors.pop(key, None)
            self._scope.metrics.sink_gone(str(key))
        for key, sink in self._sinks.items():
            if found.get(key) != sink:
                self._deliveries.pop(key, None)
        for key in found.keys() - self._sinks.keys():
            self._scope.metrics.sink_seen(str(key))
        self._sinks = found
        for key in (_MARKS, *found):
            self._enqueue(key)

    async def reconcile(self, key: Key) -> Result:
        """Tell one sink what it does not know."""
        sink = self._sinks.get(key)
        if sink is None and key != _MARKS:
            return DONE
        delivery = self._deliveries.get(key)
        if delivery is None:
            delivery = await (self._marks() if sink is None else self._open(key, sink))
            self._deliveries[key] = delivery
        outcome = await delivery.look(await self._facts_of(sink))
        if sink is not None:
            self._scope.metrics.messages_sent(str(key), outcome.sent, lost=outcome.lost)
        if outcome.error:
            if self._errors.get(key) != outcome.error:
                log.warning("A message was not taken, trying again", sink=str(key), error=outcome.error)
            self._errors[key] = outcome.error
        elif outcome.sent:
            self._errors.pop(key, None)
        if outcome.lost:
            log.error("Messages are given up after an hour of tries", sink=str(key), count=outcome.lost)
        return Result.after(outcome.again_seconds)

    async def _marks(self) -> Delivery:
        objects = self._caches.read()
        kinds: tuple[tuple[str, list[JSONObject]], ...] = (
            (SCHEDULES.kind, list(objects.schedules)),
            (BACKUPS.kind, list(objects.backups)),
            (RESTORES.kind, list(objects.restores)),
            (BACKUP_STORAGE_LOCATIONS.kind, list(objects.locations)),
        )
        pairs = [(kind, obj) for kind, found in kinds for obj in found]
        ledger = marked_ledger(pairs, self._began)
        return Delivery(MarkSink(scope=self._scope), ledger, _no_save, cluster="", clock=self._scope.clock)

    async def _open(self, key: Key, found: FoundSink) -> Delivery:
        addresses = None
        if found.tenant:
            addresses = parse_allowed(found.allowed, await self._own_networks.get())
        if not found.cluster and not self._uid:
            self._uid = (await read_identity(self._scope.client)).uid
        ledger = await self._ledger(key)
        return Delivery(
            open_sink(found.settings.target, addresses),
            ledger,
            partial(self._save, key),
            cluster=found.cluster or self._uid or "unnamed cluster",
            clock=self._scope.clock,
        )

    async def _facts_of(self, sink: FoundSink | None) -> SinkFacts:
        async with self._looking:
            if self._scope.clock.monotonic() >= self._facts_until:
                await self._look()
                self._facts_until = self._scope.clock.monotonic() + FRESH_SECONDS
        if sink is None:
            return self._facts.get("", SinkFacts(problems={}))
        facts = self._facts.get(sink.tenant, SinkFacts(problems={}))
        routes = {
            text(each, "metadata", "name"): text(each, "metadata", "annotations", labels.MESSAGES)
            for each in self._caches.schedules.objects()
        }
        settings = sink.settings
        return SinkFacts(
            problems={
                key: problem
                for key, problem in facts.problems.items()
                if (not settings.causes or problem.cause in settings.causes)
                and is_routed(settings, routes.get(problem.topic.schedule, ""))
            },
            stages=[
                each for each in facts.stages if is_routed(settings, routes.get(each.topic.schedule, ""))
            ],
        )

    async def _look(self) -> None:
        """Find what is wrong: when an object has changed, and once a minute, as runs are missed by the clock.

        With thousands of Backups that takes a while, so that other work runs in between.
        """
        now, moment, objects = self._scope.clock.now(), self._scope.clock.monotonic(), self._caches.read()
        seen_versions = objects.versions()
        if seen_versions == self._versions and moment - self._looked < PERIOD_SECONDS:
            return
        self._versions, self._looked = seen_versions, moment
        found: dict[str, SinkFacts] = {}
        seen: dict[tuple[str, str], float] = {}
        await asyncio.sleep(0)
        for tenant, own in objects.of_tenants().items():
            await asyncio.sleep(0)
            problems = {}
            for key, problem in troubles(own, now, self._zone, tenant=tenant).items():
                since = seen[tenant, key] = self._first_seen.get((tenant, key), now.timestamp())
                if (settled := _settled(problem, since, now.timestamp())) is not None:
                    problems[key] = settled
            found[tenant] = SinkFacts(problems=problems, stages=run_stages(own))
        self._facts, self._first_seen = found, seen

    async def _ledger(self, key: Key) -> Ledger:
        """What the sink was told; a new ledger, stored at once, if nothing is known of it."""
        try:
            stored = await self._scope.client.get(CONFIGMAPS, _ledgers(key), self._scope.namespace)
        except NotFound:
            stored = {}
        try:
            return msgspec.json.decode(text(stored, "data", key.name), type=Ledger)
        except msgspec.DecodeError:
            made = Ledger(since=_whole(self._scope.clock.now().timestamp()))
        await self._save(key, made)
        return made

    async def _save(self, key: Key, ledger: Ledger) -> None:
        client, name = self._scope.client, _ledgers(key)
        data = {"data": {key.name: msgspec.json.encode(ledger).decode()}}
        try:
            await client.patch(CONFIGMAPS, name, data, self._scope.namespace)
        except NotFound:
            metadata = {"name": name, "namespace": self._scope.namespace}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **data}
            try:
                await client.create(CONFIGMAPS, body, self._scope.namespace)
            except AlreadyExists:  # by another sink of the namespace, a moment ago
                await client.patch(CONFIGMAPS, name, data, self._scope.namespace)


async def _no_save(_ledger: Ledger) -> None:
    """The annotations are the ledger."""


def _whole(seconds: float) -> float:
    """The second, as objects have it: what fails within it is told."""
    return float(int(seconds))


def _ledgers(key: Key) -> str:
    return f"{LEDGERS}-{key.namespace}"


def _settled(problem: Problem, first_seen: float, now: float) -> Problem | None:
    """The problem with its time; None if its object does not date it and it has not lasted yet."""
    if problem.since != NOT_KNOWN:
        return problem
    return replace(problem, since=first_seen) if now - first_seen >= SETTLED_SECONDS else None


def is_routed(sink: SinkSettings, names: str) -> bool:
    """Whether a sink is told of an object. Pure.

    Args:
        names: the annotation of its Schedule; empty for none.
    """
    if not names.strip():
        return not sink.only_named
    return sink.name in (name.strip() for name in names.split(","))


def controller(parts: Parts) -> Controller:
    """The controller of messages of a server."""
    queue = parts.queue(lambda key: Lane(party=key.namespace))
    informers = parts.informers
    caches = WatchedCaches(
        schedules=informers.of(SCHEDULES),
        backups=informers.of(BACKUPS),
        restores=informers.of(RESTORES),
        locations=informers.of(BACKUP_STORAGE_LOCATIONS),
        deletions=informers.of(DELETE_BACKUP_REQUESTS),
    )
    telling = Telling(parts.scope, caches, zone=parts.options.zone, enqueue=queue.add)
    made = Controller(
        NAME,
        telling.reconcile,
        workers=WORKERS,
        resync=Resync(telling.resync, PERIOD_SECONDS),
        clock=parts.scope.clock,
        queue=queue,
    )
    made.wait_for(*(getattr(caches, name) for name in caches.__struct_fields__))
    return made
