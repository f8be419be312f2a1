"""The tables of `get` for kinds that only a server has. (docs/spec: CLI 2.3)"""

from datetime import datetime

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.relative_times import past, relative
from pinnace.cli.output import cells
from pinnace.cli.output.printing import Columns, Table


def schedule_table(clock: Clock = SYSTEM_CLOCK) -> Table:
    """The table of schedules."""
    now = clock.now()

    def template(schedule: JSONObject) -> JSONObject:
        return cells.spec(schedule).get("template") or {}

    return Table(
        columns=(
            ("NAME", cells.name),
            ("STATUS", cells.phase),
            ("CREATED", cells.moment("metadata", "creationTimestamp")),
            ("SCHEDULE", cells.field("spec", "schedule")),
            ("BACKUP TTL", lambda obj: cells.duration(template(obj).get("ttl"))),
            ("LAST BACKUP", lambda obj: past(cells.status(obj).get("lastBackup"), now)),
            ("SELECTOR", lambda obj: cells.selector(template(obj).get("labelSelector"))),
            ("PAUSED", lambda obj: "true" if _is_paused(obj) else "false"),
            ("LAST SUCCESS", lambda obj: _run_cell(obj, labels.LAST_SUCCESS, now, absent="never")),
            ("NEXT", lambda obj: _next_cell(obj, now)),
            ("MISSED", lambda obj: missed_state(obj, now)),
        ),
        optional=frozenset({"LAST SUCCESS", "NEXT", "MISSED"}),
        expendable=("SELECTOR", "CREATED", "BACKUP TTL", "SCHEDULE", "LAST BACKUP", "LAST SUCCESS"),
        wide=_age(now),
    )


def _run_cell(schedule: JSONObject, annotation: str, now: datetime, *, absent: str) -> str:
    """A time that a server noted at a Schedule; empty where none notes them."""
    notes = mapping(schedule, "metadata", "annotations")
    if labels.MISSED_RUN not in notes:
        return ""
    return relative(text(notes, annotation), now) if notes.get(annotation) else absent


def _is_paused(schedule: JSONObject) -> bool:
    return cells.spec(schedule).get("paused") is True


def _next_cell(schedule: JSONObject, now: datetime) -> str:
    """The time of the next run. A paused Schedule has none, though a server may have noted one before."""
    noted = _run_cell(schedule, labels.NEXT_RUN, now, absent="n/a")
    return "n/a" if noted and _is_paused(schedule) else noted


def missed_state(schedule: JSONObject, now: datetime) -> str:
    """Whether a Schedule missed a run, as its server noted, or should have; empty where none does."""
    from pinnace.api.schedules.missed import Timeliness, shown_as_missed  # only tables of schedules need it
    from pinnace.api.schedules.rules import read_rules

    rules, _ = read_rules(schedule)
    state = shown_as_missed(schedule, rules, now)
    return "yes" if state == Timeliness.MISSED else state


def _age(now: datetime) -> Columns:
    return (("AGE", lambda obj: cells.age(obj, now)),)


def backup_location_table(clock: Clock = SYSTEM_CLOCK) -> Table:
    """The table of backup locations; it has MESSAGE if one is not available for a known reason."""

    def place(location: JSONObject) -> str:
        storage = cells.spec(location).get("objectStorage") or {}
        return "/".join(filter(None, (storage.get("bucket"), storage.get("prefix"))))

    def message(location: JSONObject) -> str:
        status = cells.status(location)
        is_available = status.get("phase") == "Available"
        return "" if is_available else " ".join(str(status.get("message") or "").split())

    return Table(
        columns=(
            ("NAME", cells.name),
            ("PROVIDER", cells.field("spec", "provider")),
            ("BUCKET/PREFIX", place),
            ("PHASE", cells.field("status", "phase", absent="Unknown")),
            ("LAST VALIDATED", cells.moment("status", "lastValidationTime", absent="Unknown")),
            ("ACCESS MODE", cells.field("spec", "accessMode", absent="ReadWrite")),
            ("DEFAULT", lambda obj: "true" if cells.spec(obj).get("default") else ""),
            ("MESSAGE", message),
        ),
        optional=frozenset({"MESSAGE"}),
        expendable=("ACCESS MODE", "LAST VALIDATED", "DEFAULT", "PROVIDER"),
        wide=_age(clock.now()),
    )


def snapshot_location_table(clock: Clock = SYSTEM_CLOCK) -> Table:
    """The table of snapshot locations."""
    provider = cells.field("spec", "provider")
    return Table(columns=(("NAME", cells.name), ("PROVIDER", provider)), wide=_age(clock.now()))


def repository_table(clock: Clock = SYSTEM_CLOCK) -> Table:
    """The table of backup repositories."""
    return Table(
        columns=(
            ("NAME", cells.name),
            ("STATUS", cells.phase),
            ("LAST MAINTENANCE", cells.moment("status", "lastMaintenanceTime", absent="<never>")),
        ),
        wide=(
            ("VOLUME NAMESPACE", cells.field("spec", "volumeNamespace")),
            ("LOCATION", cells.field("spec", "backupStorageLocation")),
            ("TYPE", cells.field("spec", "repositoryType", absent="restic")),
            *_age(clock.now()),
        ),
    )


def plugin_table() -> Table:
    """The table of plugins, by kind, then name. A row is a plugin with its name in `metadata`."""
    return Table(
        columns=(("NAME", cells.name), ("KIND", cells.field("kind"))),
        sort=lambda plugins: sorted(plugins, key=lambda p: (p["kind"], p["metadata"]["name"])),
    )
