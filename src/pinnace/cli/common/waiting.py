"""Why a Backup or Restore has not begun. (docs/adr/046)"""

from collections.abc import Sequence
from typing import Final

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import phases
from pinnace.api.labels import WAITS_FOR
from pinnace.api.objects import JSONObject, text
from pinnace.api.values.relative_times import relative
from pinnace.cli.guard import complain
from pinnace.cli.kinds import PrintedKind
from pinnace.cli.output import cells
from pinnace.client.interface import Backend

_MOST_NOTES: Final = 5
_KEPT: Final = frozenset({"backupstoragelocations", "schedules"})
"""The resources whose status is only what a server found last, and stays as it is without one."""


async def waits_for(backend: Backend, obj: JSONObject) -> str:
    """The reason why an object has not begun; empty if it is unknown, or if the object has begun."""
    if cells.phase(obj) not in phases.NOT_BEGUN:
        return ""
    # A reason that a server noted is out of date once that server is gone.
    return await backend.absence() or text(obj, "metadata", "annotations", WAITS_FOR)


async def warn_of_absence(backend: Backend, what: str) -> None:
    """Warn that no server will do what was just asked for: that the object was created looks like success."""
    if missing := await backend.absence():
        complain(f"WARNING: the {what} waits for {missing}.")


async def notes_of_idle(backend: Backend, kind: PrintedKind, objects: Sequence[JSONObject]) -> list[str]:
    """A line that says how old the state of locations or schedules is, if there is no server to renew it."""
    missing = await backend.absence() if kind.plural in _KEPT else ""
    if not missing:
        return []
    missing = missing.removeprefix("a server: ")
    if kind.plural != "backupstoragelocations":
        return [f"No {kind.noun} runs while no server does: {missing}."]
    looks = [text(each, "status", "lastValidationTime") for each in objects]
    known = sorted(each for each in looks if each)
    when = f"{relative(known[-1], SYSTEM_CLOCK.now())} the last time" if known else "never"
    return [f"No server looks at these locations: {missing}. They were looked at {when}."]


async def notes(backend: Backend, kind: str, objects: Sequence[JSONObject]) -> list[str]:
    """A line for each of the first objects that wait, or one line for all if there is no server."""
    waiting = [obj for obj in objects if cells.phase(obj) in phases.NOT_BEGUN]
    if not waiting:
        return []
    if missing := await backend.absence():
        wait = "waits" if len(waiting) == 1 else "wait"
        return [f"{len(waiting)} of these {kind}s cannot begin and {wait} for {missing}."]
    known = [(obj["metadata"]["name"], text(obj, "metadata", "annotations", WAITS_FOR)) for obj in waiting]
    return [f"{kind} {name} waits for {reason}." for name, reason in known if reason][:_MOST_NOTES]
