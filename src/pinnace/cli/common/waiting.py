"""Why a Backup or Restore has not begun. (docs/adr/046)"""

from collections.abc import Sequence
from typing import Final

from pinnace.api.labels import WAITS_FOR
from pinnace.api.objects import JSONObject, text
from pinnace.cli.backend.interface import Backend
from pinnace.cli.output import cells

NOT_BEGUN: Final = frozenset({"New", "Queued", "ReadyToStart"})
_MOST_NOTES: Final = 5


async def waits_for(backend: Backend, obj: JSONObject) -> str:
    """What an object waits for that has not begun; empty if that is not known, or if it has begun."""
    if cells.phase(obj) not in NOT_BEGUN:
        return ""
    # Of a server that is gone, the reason that it noted is none any more.
    return await backend.absence() or text(obj, "metadata", "annotations", WAITS_FOR)


async def notes(backend: Backend, kind: str, objects: Sequence[JSONObject]) -> list[str]:
    """A line for each of the first objects that wait, and one for all where there is no server."""
    waiting = [obj for obj in objects if cells.phase(obj) in NOT_BEGUN]
    if not waiting:
        return []
    if missing := await backend.absence():
        return [f"Nothing begins: {len(waiting)} of these {kind}s wait for {missing}."]
    known = [(obj["metadata"]["name"], text(obj, "metadata", "annotations", WAITS_FOR)) for obj in waiting]
    return [f"{kind} {name} waits for {reason}." for name, reason in known if reason][:_MOST_NOTES]
