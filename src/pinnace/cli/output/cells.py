"""Values as text for people: times, relative times, selectors, phases. (docs/spec: CLI 2.3)"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from pinnace.api import phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.labels import HIDDEN_DETAILS, SIZE_BYTES
from pinnace.api.meta import LabelSelector
from pinnace.api.objects import JSONObject, member, text
from pinnace.api.selection.selectors import Selector
from pinnace.api.values.digits import is_digits
from pinnace.api.values.durations import Duration
from pinnace.api.values.relative_times import largest_unit, relative, relative_time
from pinnace.api.values.times import in_zone, known_time, later

_MOST_DIGITS = 20


Cell = Callable[[JSONObject], str]
"""Makes the cell of a table of an object."""


def name(obj: JSONObject) -> str:
    """The name of an object."""
    return str(obj["metadata"]["name"])


def field(*path: str, absent: str = "") -> Cell:
    """The cell with the value at a path, or `absent` where there is none."""
    return lambda obj: str(member(obj, *path) or absent)


def count(*path: str) -> Cell:
    """The cell with a number of a backup at a path; `-` where its location hides it."""
    return lambda obj: str(member(obj, *path) or ("-" if hides_details(obj) else 0))


def hides_details(backup: JSONObject) -> bool:
    """Whether a backup lacks what its location hides from those without an identity. (ADR 124)"""
    return bool(text(backup, "metadata", "annotations", HIDDEN_DETAILS))


def moment(*path: str, absent: str = "<nil>") -> Cell:
    """The cell with the local time at a path, or `absent` where there is none."""
    return lambda obj: local_time(text(obj, *path), absent)


def local_time(text: str | None, absent: str) -> str:
    """`2021-08-11 21:43:26 +0000 UTC` in the local zone, or `absent`."""
    if not text:
        return absent
    moment = known_time(text)
    return text if moment is None else in_zone(moment, None).strftime("%Y-%m-%d %H:%M:%S %z %Z")


def run_time(obj: JSONObject, now: datetime) -> str:
    """How long the run took, or has taken so far; empty before it began."""
    found = status(obj)
    completed = found.get("completionTimestamp")
    started, end = known_time(found.get("startTimestamp")), known_time(completed) if completed else now
    if started is None or end is None:
        return ""
    seconds = max(0, int((end - started).total_seconds()))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    text = f"{hours}h{minutes}m" if hours else f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"
    return text if completed else f"{text}..."


def age(obj: JSONObject, now: datetime) -> str:
    """The time since the object was created, or since its run began; empty if neither is known."""
    moment = obj["metadata"].get("creationTimestamp") or status(obj).get("startTimestamp")
    if (known := known_time(moment)) is None:
        return ""
    return largest_unit(max(timedelta(0), now - known))


def expires(backup: JSONObject, now: datetime) -> str:
    """The EXPIRES cell: the stored expiration, else creation + ttl, else `n/a`."""
    expiration = status(backup).get("expiration")
    if expiration:
        return relative(expiration, now)
    try:
        ttl = Duration.parse(spec(backup).get("ttl") or "0s")
    except ValueError:
        return "n/a"
    created = known_time(backup["metadata"].get("creationTimestamp"))
    if ttl <= Duration() or created is None:
        return "n/a"
    return relative_time(later(created, ttl.to_timedelta()), now)


def duration(text: str | None) -> str:
    """The canonical text of a stored duration; the text itself if it is not a duration."""
    try:
        return str(Duration.parse(text or "0s"))
    except ValueError:
        return text or ""


def selector(value: JSONObject | None) -> str:
    """The canonical text of a label selector, `<none>` or `<error>`."""
    if not value:
        return "<none>"
    try:
        return str(Selector.from_label_selector(decode(LabelSelector, value))) or "<none>"
    except (DecodeError, ValueError):
        return "<error>"


def spec(obj: JSONObject) -> JSONObject:
    """The spec of an object, never None."""
    found: JSONObject = obj.get("spec") or {}
    return found


def status(obj: JSONObject) -> JSONObject:
    """The status of an object, never None."""
    found: JSONObject = obj.get("status") or {}
    return found


def phase(obj: JSONObject) -> str:
    """The phase, `New` when empty."""
    return status(obj).get("phase") or "New"


def foreign_phase(obj: JSONObject) -> str:
    """A note about a phase that Pinnace does not set; "" for other phases."""
    if not phases.is_foreign(obj):
        return ""
    return "a phase of a later version of Velero; only a server of that version can continue"


def empty_warning(what: str, ended: str, items: int) -> str:
    """A warning about a backup or restore without objects that ended in this phase; "" for others.

    Filters that select nothing leave it Completed; in a PartiallyFailed one, errors may be the reason too.
    """
    if items or ended not in phases.FINISHED:
        return ""
    where = "cluster" if what == "backup" else "backup"
    if ended == "Completed":
        return (
            f"WARNING: the {what} is empty: its filters select no object. Compare included namespaces,"
            f" included resources and label selector with what the {where} has."
        )
    done = "saved" if what == "backup" else "restored"
    return f"WARNING: the {what} is empty: no object was {done}; its errors and filters say why."


def size(count: float) -> str:
    """`1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def tarball_bytes(backup: JSONObject) -> int | None:
    """The size of the tarball that a backup has noted; None for those of other programs and old versions."""
    noted = text(backup, "metadata", "annotations", SIZE_BYTES)
    return int(noted) if is_digits(noted) and len(noted) < _MOST_DIGITS else None


def tarball_size(backup: JSONObject) -> str:
    """The size of the tarball as text; empty if it is not known."""
    return "" if (found := tarball_bytes(backup)) is None else size(found)


def listed(items: Sequence[str] | None, empty: str) -> str:
    """The items with commas between them, or the word for an empty list."""
    return ", ".join(items) if items else empty


def tristate(value: bool | None, *, yes: str = "true", no: str = "false") -> str:
    """The word for a flag with three states; `auto` if it is unset."""
    return "auto" if value is None else yes if value else no


GREEN, RED, YELLOW = "32", "31", "33"

COLOURS = {
    "Completed": GREEN,
    "Enabled": GREEN,
    "Available": GREEN,
    "Ready": GREEN,
    "Processed": GREEN,
    "FailedValidation": RED,
    "PartiallyFailed": RED,
    "Failed": RED,
    "Unavailable": RED,
    "NotReady": RED,
    "InProgress": YELLOW,
    "Deleting": YELLOW,
    "WaitingForPluginOperations": YELLOW,
    "WaitingForPluginOperationsPartiallyFailed": YELLOW,
    "Finalizing": YELLOW,
    "FinalizingPartiallyFailed": YELLOW,
}


def painted(phase: str) -> str:
    """The phase in its colour, if it has one."""
    colour = COLOURS.get(phase)
    return f"\x1b[{colour}m{phase}\x1b[0m" if colour else phase
