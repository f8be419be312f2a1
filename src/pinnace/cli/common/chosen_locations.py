"""Checks the locations of a Backup, or of a Schedule's template, before it is sent to a server."""

from collections.abc import Sequence

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.objects import mapping, text
from pinnace.api.values.relative_times import past
from pinnace.api.velero.storage_location import DEFAULT_LOCATION, BackupStorageLocationPhase
from pinnace.cli.connect import program_name
from pinnace.cli.guard import complain
from pinnace.client.server import ServerBackend
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, NAMESPACES, VOLUME_SNAPSHOT_LOCATIONS


async def check_locations(backend: ServerBackend, storage: str, snapshots: Sequence[str]) -> None:
    """Check that the named locations exist: a misspelt name would become failed backups. Raises NotFound."""
    if storage:
        await backend.object(BACKUP_STORAGE_LOCATIONS.name, storage)
    for each in snapshots:
        await backend.object(VOLUME_SNAPSHOT_LOCATIONS.name, each)


async def warn_of_unavailable(backend: ServerBackend, storage: str, *, writes: bool = True) -> None:
    """Warn of a storage location that is missing, read-only, or was not usable when the server looked last.

    It is not an error: the location may be available when a backup begins.

    Args:
        storage: the name; empty for the default location.
        writes: whether a read-only location is of no use.
    """
    try:
        found = await backend.objects(BACKUP_STORAGE_LOCATIONS.name)
    except KubeError:
        return  # only a warning depends on it
    by_name = {text(each, "metadata", "name"): each for each in found}
    marked = (name for name, each in by_name.items() if mapping(each, "spec").get("default"))
    name = storage or next(marked, DEFAULT_LOCATION)
    state = mapping(by_name.get(name), "status")
    called = f"storage location {name}" if storage else f"storage location {name}, the default,"
    if name not in by_name and (storage or (not found and await _is_there(backend))):
        missing = f"storage location {storage} does not exist" if storage else "there is no storage location"
        complain(f"WARNING: {missing}, and the server refuses what needs one")
    if writes and mapping(by_name.get(name), "spec").get("accessMode") == "ReadOnly":
        complain(f"WARNING: {called} is read-only, and the server refuses backups into it")
    if state.get("phase") == BackupStorageLocationPhase.UNAVAILABLE:
        why = f": {state['message']}" if state.get("message") else ""
        looked = past(text(by_name[name], "status", "lastValidationTime"), SYSTEM_CLOCK.now())
        again = f" (a server looked {looked}; `{program_name()} doctor` has it look again)"
        complain(f"WARNING: {called} is Unavailable{why}{again if looked != 'n/a' else ''}")


async def _is_there(backend: ServerBackend) -> bool:
    """Whether the namespace exists; without it nothing can be created, which says enough."""
    try:
        await backend.client.get(NAMESPACES, backend.namespace)
    except KubeError:
        return False
    return True
