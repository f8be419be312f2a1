"""Has a server look at a location now, so that nothing old is told. (docs/adr/103)

Pinnace's looks when an annotation asks for it. Velero's looks once a minute, which is waited for.
"""

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import known_time, later
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden, KubeError
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS

LOOK_SECONDS: Final = 35.0
"""How long a server that was asked to look may take; its own limit is 30 s."""
LATE_SECONDS: Final = 10.0
"""How late a server may be with a look that it makes unasked."""
_USUAL_FREQUENCY: Final = timedelta(minutes=1)
"""How often a server looks that says nothing else."""
_LONGEST_WAIT: Final = timedelta(minutes=1)
POLL_SECONDS: Final = 0.25
_pause = asyncio.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLocation:
    """A location as the server sees it.

    Attributes:
        location: as it is now.
        stale: why the server has not looked at it during this check; empty if it has.
    """

    location: JSONObject
    stale: str = ""


async def look_by_server(
    client: KubeClient, location: JSONObject, *, answers: bool, obeys: bool, now: datetime | None = None
) -> SeenLocation:
    """Have the server look at a location now, or wait for the look that is due next. (docs/adr/103)

    Args:
        answers: whether a server answers at all.
        obeys: whether it looks when it is asked, as Pinnace's does.
    """
    if not answers:
        return SeenLocation(location=location, stale="no server answers")
    if obeys:
        try:
            return await _asked(client, location)
        except Forbidden:
            pass  # this user may not ask, and waits as for any other server
        except KubeError as error:
            return SeenLocation(location=location, stale=f"the server could not be asked to look: {error}")
    last, frequency = last_look(location), _frequency(location)
    if last is None or not frequency:
        return SeenLocation(location=location, stale="the server does not look at it regularly")
    wait = later(last, frequency) - (now or SYSTEM_CLOCK.now())
    seconds = wait.total_seconds() + LATE_SECONDS
    if wait > _LONGEST_WAIT or seconds <= 0:
        return SeenLocation(location=location, stale=f"the server looks at it every {frequency} only")
    return await _looked(client, location, seconds, "the server did not look at it when that was due")


def last_look(location: JSONObject) -> datetime | None:
    """When a server looked last, as far as it is known."""
    return known_time(mapping(location, "status").get("lastValidationTime"))


def _frequency(location: JSONObject) -> timedelta:
    """How often the server looks; zero for once."""
    try:
        own = Duration.parse(text(location, "spec", "validationFrequency") or "-1s")
    except ValueError:
        return _USUAL_FREQUENCY
    return _USUAL_FREQUENCY if own < Duration() else own.to_timedelta()


async def _asked(client: KubeClient, location: JSONObject) -> SeenLocation:
    name, namespace = location["metadata"]["name"], location["metadata"]["namespace"]

    async def note(value: str | None) -> JSONObject:
        patch: JSONObject = {"metadata": {"annotations": {labels.VALIDATION_REQUESTED: value}}}
        return await client.patch(BACKUP_STORAGE_LOCATIONS, name, patch, namespace)

    asked = await note(secrets.token_hex(8))
    late = f"the server was asked to look and did not within {LOOK_SECONDS:g} seconds"
    look = SeenLocation(location=asked, stale=late)
    try:
        look = await _looked(client, asked, LOOK_SECONDS, late)
    finally:
        if look.stale:
            with suppress(KubeError):
                await note(None)
    return look


async def _looked(client: KubeClient, location: JSONObject, seconds: float, late: str) -> SeenLocation:
    """Wait until the server has looked: it removes the request, or writes a new time."""
    name, namespace = location["metadata"]["name"], location["metadata"]["namespace"]
    before = (_request(location), last_look(location))
    current = location
    try:
        async with asyncio.timeout(seconds):
            while True:
                await _pause(POLL_SECONDS)
                current = await client.get(BACKUP_STORAGE_LOCATIONS, name, namespace)
                request = _request(current)
                if before[0] and not request:
                    return SeenLocation(location=current)
                if not before[0] and last_look(current) != before[1]:
                    return SeenLocation(location=current)
    except TimeoutError:
        return SeenLocation(location=current, stale=late)


def _request(location: JSONObject) -> str:
    return text(location, "metadata", "annotations", labels.VALIDATION_REQUESTED)
