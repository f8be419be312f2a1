"""A sink that writes Events and annotations of the objects themselves. (ADR 129)

Its ledger is the annotations: what an object has a mark of was told.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from pinnace.api import API_VERSION, labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.times import known_time
from pinnace.controllers.shared.events import write_event
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, RESTORES, SCHEDULES
from pinnace.messages.errors import SinkError
from pinnace.messages.ledger import Entry, Ledger
from pinnace.messages.problem import Cause, Notification, Problem, Signal, Topic, rfc3339

NO_OCCASION: Final = "-"
_OF_RUNS: Final = frozenset({Cause.FAILURE, Cause.PARTIAL_FAILURE})
_RESOURCES: Final = {
    resource.kind: resource for resource in (BACKUPS, RESTORES, SCHEDULES, BACKUP_STORAGE_LOCATIONS)
}


class MarkSink(Struct, frozen=True, kw_only=True):
    """Writes one Event and one annotation for each message."""

    scope: Scope
    batch: int = 20
    takes_runs: bool = False
    refresh_seconds: float | None = None

    async def send(self, messages: Sequence[Notification]) -> None:
        """See Sink."""
        for message in messages:
            try:
                await self._mark(message)
            except NotFound:
                continue  # nobody looks at an object that is gone
            except KubeError as error:
                raise SinkError(str(error)) from error

    async def _mark(self, message: Notification) -> None:
        topic, client = message.topic, self.scope.client
        resource = _RESOURCES[topic.kind]
        found = await client.get(resource, topic.name, self.scope.namespace)
        uid = text(found, "metadata", "uid")
        is_bad = message.signal is Signal.PROBLEM
        said = f"{rfc3339(message.since)} {message.occasion or NO_OCCASION} {message.text}".strip()
        note = {f"{labels.PROBLEM_PREFIX}{message.cause}": said if is_bad else None}
        await client.patch(
            resource, topic.name, {"metadata": {"uid": uid, "annotations": note}}, self.scope.namespace
        )
        about = {
            "apiVersion": API_VERSION,
            "kind": topic.kind,
            "namespace": self.scope.namespace,
            "name": topic.name,
            "uid": uid,
        }
        cause = "".join(part.capitalize() for part in str(message.cause).split("-"))
        await write_event(
            self.scope,
            about,
            reason=cause if is_bad else "Recovered",
            message=" ".join(
                filter(None, (message.occasion, message.text)) if is_bad else (f"{cause} is over",)
            ),
            is_bad=is_bad,
        )


def marked_ledger(objects: Iterable[tuple[str, JSONObject]], since: float) -> Ledger:
    """The ledger that follows from the annotations of objects, which come with their kinds. Pure."""
    ledger = Ledger(since=since)
    for kind, obj in objects:
        metadata = mapping(obj, "metadata")
        topic = Topic(kind=kind, namespace=text(metadata, "namespace"), name=text(metadata, "name"))
        for cause in Cause:
            note = text(metadata, "annotations", f"{labels.PROBLEM_PREFIX}{cause}")
            if not note:
                continue
            when, _, rest = note.partition(" ")
            occasion, moment = rest.partition(" ")[0], known_time(when)
            problem = Problem(
                topic=topic,
                cause=cause,
                occasion="" if occasion == NO_OCCASION else occasion,
                since=0.0 if moment is None else moment.timestamp(),
                passes=kind not in (BACKUPS.kind, RESTORES.kind) or cause not in _OF_RUNS,
            )
            ledger.told[problem.key] = Entry(problem=problem, at=problem.since)
    return ledger
