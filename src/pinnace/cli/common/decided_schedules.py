"""What the rules of retention of Schedules say now, for `schedule prune` and descriptions. (docs/adr/128)"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.retention.breaker import read_announced
from pinnace.api.retention.candidates import Surroundings
from pinnace.api.retention.passes import (
    RetentionPass,
    last_result,
    names_being_deleted,
    names_being_restored,
    names_zone,
    one_pass,
)
from pinnace.api.retention.rules import RetentionError, RetentionRules
from pinnace.cli.common.retained import DecidedGroup, lines_of
from pinnace.client.errors import ClientError
from pinnace.client.interface import Backend
from pinnace.client.server import ServerBackend
from pinnace.client.server_zone import ServerZone, read_server_zone
from pinnace.kube.errors import KubeError
from pinnace.kube.identity import read_identity


class DecidedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules of one Schedule say.

    Attributes:
        groups: one for each location.
        announced: when the newest deletion that waits was announced; None if the server has announced none.
        doubt: why days and weeks may be those of another time zone; empty if they are not.
    """

    schedule: JSONObject
    rules: RetentionRules
    groups: Sequence[DecidedGroup]
    announced: datetime | None
    doubt: str = ""

    @property
    def waiting(self) -> int:
        """How many deletions wait."""
        return sum(len(group.waiting) for group in self.groups)


async def decided_schedule(backend: ServerBackend, schedule: JSONObject) -> DecidedSchedule | None:
    """What the rules of a Schedule say of its backups now; None if it has none. Raises RetentionError."""
    rules = RetentionRules.of_schedule(schedule)
    if rules is None:
        return None
    name = schedule["metadata"]["name"]
    server = (
        ServerZone(UTC) if names_zone(schedule) else await read_server_zone(backend.client, backend.namespace)
    )
    backups = await backend.objects("backups", f"{labels.SCHEDULE_NAME}={labels.label_value(name)}")
    found = one_pass(schedule, rules, backups, await surroundings(backend), zone=server.zone)
    stored = read_announced(text(schedule, "metadata", "annotations", labels.RETENTION_ANNOUNCED))
    return DecidedSchedule(
        schedule=schedule,
        rules=rules,
        groups=_groups(name, found),
        announced=max(stored.values(), default=None),
        doubt=server.doubt
        and f"days are counted in UTC, as the time zone of the server is not known: {server.doubt}",
    )


def _groups(schedule: str, found: RetentionPass) -> list[DecidedGroup]:
    waiting = frozenset(found.waiting)
    return [
        DecidedGroup(
            title=f"Schedule {schedule} in {location or 'no location'}", decisions=decisions, waiting=waiting
        )
        for location, decisions in found.groups.items()
    ]


async def surroundings(backend: ServerBackend) -> Surroundings:
    """What decides beside the Backups of a server."""
    return Surroundings(
        now=SYSTEM_CLOCK.now().replace(microsecond=0),
        cluster=(await read_identity(backend.client)).uid,
        deleting=names_being_deleted(await backend.objects("deletebackuprequests")),
        restoring=names_being_restored(await backend.objects("restores")),
    )


def status_of(schedule: JSONObject) -> str:
    """What the server said of the rules last; empty if they are carried out."""
    result, said = last_result(schedule)
    notes = mapping(schedule, "metadata", "annotations")
    return f"{result}: {said}" if said and labels.RETENTION in notes else ""


async def lines_of_rules(backend: Backend, schedule: JSONObject) -> list[str]:
    """The rules of a Schedule, and what they say of each of its backups."""
    if not isinstance(backend, ServerBackend):
        return []  # a location has no schedules
    try:
        found = await decided_schedule(backend, schedule)
    except (RetentionError, KubeError) as error:
        return [f"Retention:\t<{error}; nothing is deleted>"]
    if found is None:
        return []
    lines = [f"Retention:\t{found.rules}"]
    if status := status_of(schedule):
        lines.append(f"Retention Status:\t{status}")
    if found.doubt:
        lines.append(f"Retention Days:\t<{found.doubt}>")
    for group in found.groups:
        lines += [f"{group.title}:", *(f"\t{line}" for line in lines_of(group))]
    return lines


async def retention_of_backup(backend: Backend, backup: JSONObject) -> str:
    """What the rules of its Schedule say of a Backup; empty if there are none, or they cannot be read."""
    name = text(backup, "metadata", "labels", labels.SCHEDULE_NAME)
    if not name or not isinstance(backend, ServerBackend):
        return ""
    try:
        found = await decided_schedule(backend, await backend.object("schedules", name))
    except (RetentionError, KubeError, ClientError):
        return ""  # the description of the schedule says why
    decisions = [each for group in found.groups for each in group.decisions] if found else []
    own = [each for each in decisions if each.name == backup["metadata"]["name"]]
    return f"{'goes' if own[0].goes else 'kept'}: {own[0].words}" if own else ""
