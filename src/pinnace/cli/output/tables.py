"""The tables of `get` for backups and restores. (docs/spec: CLI 2.3)"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

from pinnace.api.objects import JSONObject
from pinnace.api.values.times import utcnow
from pinnace.cli.output import cells
from pinnace.cli.output.printing import Table

_SCHEDULED_NAME: Final = r"^(.*)-([0-9]{14})$"


def backup_table(clock: Callable[[], datetime] = utcnow) -> Table:
    """NAME, STATUS, ERRORS, WARNINGS, CREATED, EXPIRES, STORAGE LOCATION, SELECTOR.

    Before the last, QUEUE POSITION if a server has queued one, as Velero has it (docs/spec: BEY 8.1).
    """
    now = clock()

    def row(backup: JSONObject) -> list[str]:
        status, spec = cells.status(backup), cells.spec(backup)
        deleting = backup["metadata"].get("deletionTimestamp")
        return [
            backup["metadata"]["name"],
            "Deleting" if deleting else cells.phase(backup),
            str(status.get("errors") or 0),
            str(status.get("warnings") or 0),
            cells.local_time(status.get("startTimestamp"), "<nil>"),
            cells.expires(backup, now),
            spec.get("storageLocation") or "",
            str(status.get("queuePosition") or ""),
            cells.selector(spec.get("labelSelector")),
        ]

    return Table(
        columns=(
            "NAME",
            "STATUS",
            "ERRORS",
            "WARNINGS",
            "CREATED",
            "EXPIRES",
            "STORAGE LOCATION",
            "QUEUE POSITION",
            "SELECTOR",
        ),
        row=row,
        sort=sort_backups,
        optional=frozenset({"QUEUE POSITION"}),
        expendable=("SELECTOR", "STORAGE LOCATION", "EXPIRES", "WARNINGS"),
        wide_columns=("SIZE", "ITEMS", "DURATION", "AGE"),
        wide=lambda backup: [cells.tarball_size(backup), *_wide(backup, "itemsBackedUp", now)],
    )


def _wide(obj: JSONObject, done_field: str, now: datetime) -> list[str]:
    """ITEMS, DURATION and AGE."""
    status = cells.status(obj)
    progress = status.get("progress") or {}
    done, total = progress.get(done_field), progress.get("totalItems")
    items = "" if done is None else str(done) if done == total else f"{done}/{total}"
    return [items, cells.run_time(obj, now), cells.age(obj, now)]


def sort_backups(backups: list[JSONObject]) -> list[JSONObject]:
    """By name, but the runs of one schedule newest first. (docs/spec: CLI 2.3, CLI-013)"""

    def key(backup: JSONObject) -> tuple[str, int, str]:
        name = backup["metadata"]["name"]
        match = re.match(_SCHEDULED_NAME, name)
        return (match[1], -int(match[2]), name) if match else (name, 0, name)

    return sorted(backups, key=key)


def restore_table(clock: Callable[[], datetime] = utcnow) -> Table:
    """NAME, BACKUP, STATUS, STARTED, COMPLETED, ERRORS, WARNINGS, CREATED, SELECTOR."""
    now = clock()

    def row(restore: JSONObject) -> list[str]:
        status, spec = cells.status(restore), cells.spec(restore)
        return [
            restore["metadata"]["name"],
            spec.get("backupName") or "",
            cells.phase(restore),
            cells.local_time(status.get("startTimestamp"), "<nil>"),
            cells.local_time(status.get("completionTimestamp"), "<nil>"),
            str(status.get("errors") or 0),
            str(status.get("warnings") or 0),
            cells.local_time(restore["metadata"].get("creationTimestamp"), "<nil>"),
            cells.selector(spec.get("labelSelector")),
        ]

    columns = (
        "NAME",
        "BACKUP",
        "STATUS",
        "STARTED",
        "COMPLETED",
        "ERRORS",
        "WARNINGS",
        "CREATED",
        "SELECTOR",
    )
    return Table(
        columns=columns,
        row=row,
        expendable=("SELECTOR", "CREATED", "STARTED", "COMPLETED", "WARNINGS"),
        wide_columns=("ITEMS", "DURATION", "AGE"),
        wide=lambda restore: _wide(restore, "itemsRestored", now),
    )
