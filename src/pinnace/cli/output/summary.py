"""One object in one line, for questions and listings. Pure."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from pinnace.api.objects import JSONObject
from pinnace.api.values.times import utcnow
from pinnace.cli.output import cells


class Named(Protocol):
    """A kind of objects that has a noun."""

    @property
    def noun(self) -> str:
        """The word for an object of the kind."""
        ...


def counted(number: int, what: str) -> str:
    """`1 error`, `2,000 errors`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def summary_of(obj: JSONObject, kind: Named, *more: str, clock: Callable[[], datetime] = utcnow) -> str:
    """`backup shop (Completed, 1,204 items, 1.5 MiB, 3h ago, 2 restores)`."""
    status, spec = cells.status(obj), cells.spec(obj)
    facts = [status.get("phase") or "New"]
    progress = status.get("progress") or {}
    items = progress.get("itemsBackedUp") or progress.get("itemsRestored")
    if isinstance(items, int):
        facts.append(counted(items, "item"))
    if tarball := cells.tarball_size(obj):
        facts.append(tarball)
    if spec.get("schedule"):
        facts.append(str(spec["schedule"]))
    started = status.get("startTimestamp")
    if started:
        facts.append(cells.relative(started, clock()))
    snapshots = status.get("volumeSnapshotsCompleted")
    if isinstance(snapshots, int) and snapshots:
        facts.append(counted(snapshots, "volume snapshot"))
    return f"{kind.noun} {obj['metadata']['name']} ({', '.join([*facts, *more])})"
