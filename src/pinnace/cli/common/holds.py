"""The hold on a backup in a location, for commands without a server. (docs/adr/128)"""

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.objects import JSONObject
from pinnace.api.retention.holds import hold_of
from pinnace.client.errors import ClientError
from pinnace.client.interface import Backend
from pinnace.client.location import LocationBackend
from pinnace.storage.errors import StorageError
from pinnace.storage.holds import Hold


async def hold_in_location(backend: LocationBackend, name: str) -> str | None:
    """The reason of the hold on a backup; None if it is not held.

    A file beside the backup says so, or that it is released; without one, the backup's own record counts,
    which is never rewritten.

    Raises:
        StorageError: the file cannot be read now.
    """
    hold = await backend.store.read_hold(name)
    if hold is not None:
        return hold.reason if hold.held else None
    try:
        return hold_of(await backend.object("backups", name))
    except (ClientError, StorageError):
        return None  # without a record that can be read, nothing but the file could hold it


async def hold_beside(backend: Backend, name: str, reason: str) -> None:
    """Hold a backup by a file beside it. Raises StorageError."""
    assert isinstance(backend, LocationBackend)
    await backend.store.put_hold(name, Hold.at(SYSTEM_CLOCK.now(), held=True, reason=reason))


async def release_beside(backend: Backend, backup: JSONObject) -> bool:
    """Release a backup in a location. Returns whether it was held. Raises StorageError."""
    assert isinstance(backend, LocationBackend)
    name = backup["metadata"]["name"]
    if await hold_in_location(backend, name) is None:
        return False
    if hold_of(backup) is None:
        await backend.store.delete_hold(name)
    else:  # its record, which is never rewritten, holds it too
        await backend.store.put_hold(name, Hold.at(SYSTEM_CLOCK.now(), held=False))
    return True
