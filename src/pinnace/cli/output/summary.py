"""One object in one line, for questions and listings. Pure."""

from typing import Protocol

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.restore_outcomes import counts_text
from pinnace.api.values.counts import counted
from pinnace.api.values.relative_times import relative
from pinnace.cli.output import cells


class HasNoun(Protocol):
    """A kind of objects that has a noun."""

    @property
    def noun(self) -> str:
        """The word for an object of the kind."""
        ...


def became(annotations: object) -> str:
    """` (12 created, 3 unchanged)` of a restore; empty for a backup, and for a restore by Velero."""
    counts = counts_text(text(annotations, labels.OUTCOMES))
    return f" ({counts})" if counts else ""


def numbers_of(run: JSONObject, items: int) -> str:
    """`1,204 items in 1m12s, 0 errors, 2 warnings` of a run that has ended."""
    status = cells.status(run)
    taken = cells.run_time(run, SYSTEM_CLOCK.now()) if status.get("completionTimestamp") else ""
    done = f"{counted(items, 'item')}{became(mapping(run, 'metadata', 'annotations'))}"
    return (
        f"{done}{f' in {taken}' if taken else ''}, "
        f"{counted(status.get('errors') or 0, 'error')}, {counted(status.get('warnings') or 0, 'warning')}"
    )


def summary_of(obj: JSONObject, kind: HasNoun, *more: str, clock: Clock = SYSTEM_CLOCK) -> str:
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
        facts.append(relative(started, clock.now()))
    snapshots = status.get("volumeSnapshotsCompleted")
    if isinstance(snapshots, int) and snapshots:
        facts.append(counted(snapshots, "volume snapshot"))
    return f"{kind.noun} {obj['metadata']['name']} ({', '.join([*facts, *more])})"
