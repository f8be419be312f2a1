"""The tables of `get` for backups and restores. (docs/spec: CLI 2.3)"""

import re
from datetime import datetime
from typing import Final

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.objects import JSONObject
from pinnace.cli.output import cells
from pinnace.cli.output.printing import Columns, Table

_SCHEDULED_NAME: Final = r"^(.*)-([0-9]{14})$"


def backup_table(clock: Clock = SYSTEM_CLOCK) -> Table:
    """The table of backups; it has QUEUE POSITION if a server has queued one (docs/spec: BEY 8.1)."""
    now = clock.now()
    return Table(
        columns=(
            ("NAME", cells.name),
            (
                "STATUS",
                lambda obj: "Deleting" if obj["metadata"].get("deletionTimestamp") else cells.phase(obj),
            ),
            ("ERRORS", cells.count("status", "errors")),
            ("WARNINGS", cells.count("status", "warnings")),
            ("CREATED", cells.moment("status", "startTimestamp")),
            ("EXPIRES", lambda obj: cells.expires(obj, now)),
            ("STORAGE LOCATION", cells.field("spec", "storageLocation")),
            ("QUEUE POSITION", cells.field("status", "queuePosition")),
            ("SELECTOR", lambda obj: cells.selector(cells.spec(obj).get("labelSelector"))),
        ),
        sort=sort_backups,
        optional=frozenset({"QUEUE POSITION"}),
        expendable=(
            "SELECTOR",
            "STORAGE LOCATION",
            "EXPIRES",
            "WARNINGS",
            "QUEUE POSITION",
            "ERRORS",
            "CREATED",
        ),
        wide=(("SIZE", cells.tarball_size), *_of_runs("itemsBackedUp", now)),
    )


def _of_runs(done_field: str, now: datetime) -> Columns:
    def items(obj: JSONObject) -> str:
        progress = cells.status(obj).get("progress") or {}
        done, total = progress.get(done_field), progress.get("totalItems")
        return "" if done is None else str(done) if done == total else f"{done}/{total}"

    return (
        ("ITEMS", items),
        ("DURATION", lambda obj: cells.run_time(obj, now)),
        ("AGE", lambda obj: cells.age(obj, now)),
    )


def sort_backups(backups: list[JSONObject]) -> list[JSONObject]:
    """By name, but the runs of one schedule newest first. (docs/spec: CLI 2.3, CLI-013)"""

    def key(backup: JSONObject) -> tuple[str, int, str]:
        name = backup["metadata"]["name"]
        match = re.match(_SCHEDULED_NAME, name)
        return (match[1], -int(match[2]), name) if match else (name, 0, name)

    return sorted(backups, key=key)


def restore_table(clock: Clock = SYSTEM_CLOCK) -> Table:
    """The table of restores."""
    return Table(
        columns=(
            ("NAME", cells.name),
            ("BACKUP", cells.field("spec", "backupName")),
            ("STATUS", cells.phase),
            ("STARTED", cells.moment("status", "startTimestamp")),
            ("COMPLETED", cells.moment("status", "completionTimestamp")),
            ("ERRORS", cells.field("status", "errors", absent="0")),
            ("WARNINGS", cells.field("status", "warnings", absent="0")),
            ("CREATED", cells.moment("metadata", "creationTimestamp")),
            ("SELECTOR", lambda obj: cells.selector(cells.spec(obj).get("labelSelector"))),
        ),
        expendable=("SELECTOR", "CREATED", "STARTED", "COMPLETED", "WARNINGS", "ERRORS", "BACKUP"),
        wide=_of_runs("itemsRestored", clock.now()),
    )
