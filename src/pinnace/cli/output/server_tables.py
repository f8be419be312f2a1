"""The tables of `get` for kinds that only a server has. (docs/spec: CLI 2.3)"""

from collections.abc import Callable
from datetime import datetime

from pinnace.api.objects import JSONObject
from pinnace.api.values.relative_times import past
from pinnace.api.values.times import utcnow
from pinnace.cli.output import cells
from pinnace.cli.output.printing import Table


def schedule_table(clock: Callable[[], datetime] = utcnow) -> Table:
    """NAME, STATUS, CREATED, SCHEDULE, BACKUP TTL, LAST BACKUP, SELECTOR, PAUSED."""
    now = clock()

    def row(schedule: JSONObject) -> list[str]:
        spec = cells.spec(schedule)
        template = spec.get("template") or {}
        last_backup = cells.status(schedule).get("lastBackup")
        return [
            schedule["metadata"]["name"],
            cells.phase(schedule),
            cells.local_time(schedule["metadata"].get("creationTimestamp"), "<nil>"),
            spec.get("schedule") or "",
            cells.duration(template.get("ttl")),
            past(last_backup, now),
            cells.selector(template.get("labelSelector")),
            "true" if spec.get("paused") is True else "false",
        ]

    columns = ("NAME", "STATUS", "CREATED", "SCHEDULE", "BACKUP TTL", "LAST BACKUP", "SELECTOR", "PAUSED")
    expendable = ("SELECTOR", "CREATED", "BACKUP TTL")
    return Table(columns=columns, row=row, expendable=expendable, wide_columns=("AGE",), wide=_age(now))


def _age(now: datetime) -> Callable[[JSONObject], list[str]]:
    return lambda obj: [cells.age(obj, now)]


def backup_location_table(clock: Callable[[], datetime] = utcnow) -> Table:
    """NAME, PROVIDER, BUCKET/PREFIX, PHASE, LAST VALIDATED, ACCESS MODE, DEFAULT; MESSAGE if any."""

    def row(location: JSONObject) -> list[str]:
        spec, status = cells.spec(location), cells.status(location)
        storage = spec.get("objectStorage") or {}
        place = (storage.get("bucket") or "", storage.get("prefix") or "")
        return [
            location["metadata"]["name"],
            spec.get("provider") or "",
            "/".join(part for part in place if part),
            status.get("phase") or "Unknown",
            cells.local_time(status.get("lastValidationTime"), "Unknown"),
            spec.get("accessMode") or "ReadWrite",
            "true" if spec.get("default") else "",
            "" if status.get("phase") == "Available" else " ".join(str(status.get("message") or "").split()),
        ]

    columns = (
        "NAME",
        "PROVIDER",
        "BUCKET/PREFIX",
        "PHASE",
        "LAST VALIDATED",
        "ACCESS MODE",
        "DEFAULT",
        "MESSAGE",
    )
    return Table(
        columns=columns,
        row=row,
        optional=frozenset({"MESSAGE"}),
        expendable=("ACCESS MODE", "LAST VALIDATED"),
        wide_columns=("AGE",),
        wide=_age(clock()),
    )


def snapshot_location_table(clock: Callable[[], datetime] = utcnow) -> Table:
    """NAME, PROVIDER."""

    def row(location: JSONObject) -> list[str]:
        return [location["metadata"]["name"], cells.spec(location).get("provider") or ""]

    return Table(columns=("NAME", "PROVIDER"), row=row, wide_columns=("AGE",), wide=_age(clock()))


def repository_table(clock: Callable[[], datetime] = utcnow) -> Table:
    """NAME, STATUS, LAST MAINTENANCE."""

    def row(repository: JSONObject) -> list[str]:
        return [
            repository["metadata"]["name"],
            cells.phase(repository),
            cells.local_time(cells.status(repository).get("lastMaintenanceTime"), "<never>"),
        ]

    now = clock()

    def wide(repository: JSONObject) -> list[str]:
        spec = cells.spec(repository)
        return [
            spec.get("volumeNamespace") or "",
            spec.get("backupStorageLocation") or "",
            spec.get("repositoryType") or "restic",
            cells.age(repository, now),
        ]

    return Table(
        columns=("NAME", "STATUS", "LAST MAINTENANCE"),
        row=row,
        wide_columns=("VOLUME NAMESPACE", "LOCATION", "TYPE", "AGE"),
        wide=wide,
    )


def plugin_table() -> Table:
    """NAME, KIND; sorted by kind, then name. A row is a plugin with its name in `metadata`."""

    def row(plugin: JSONObject) -> list[str]:
        return [plugin["metadata"]["name"], plugin["kind"]]

    return Table(
        columns=("NAME", "KIND"),
        row=row,
        sort=lambda plugins: sorted(plugins, key=lambda p: (p["kind"], p["metadata"]["name"])),
    )
