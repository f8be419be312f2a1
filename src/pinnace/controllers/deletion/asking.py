"""Asks for the deletion of a Backup, and what keeps it: its location, a hold, a request that is worked on.

Shared by what deletes by age and what deletes by rules; both look at the Backup itself before.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from pinnace.api import API_VERSION, labels
from pinnace.api.codec import decode
from pinnace.api.objects import JSONObject, text
from pinnace.api.retention.holds import held, hold_of
from pinnace.api.retention.removal import RemovalReason
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.delete_request import DeleteBackupRequestPhase
from pinnace.api.velero.storage_location import BackupStorageLocationAccessMode, BackupStorageLocationPhase
from pinnace.controllers.deletion.scope import request_labels, standing_hold
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import MAIN_WORKERS, Scope
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import PASSING_ERRORS, KubeError, NotFound
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, DELETE_BACKUP_REQUESTS
from pinnace.runtime.controller import Controller, Result, Resync
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.queue import RateLimitedQueue
from pinnace.storage.backup_store import BackupStore

log = get_logger(__name__)


class LocationObstacle(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing can be deleted in a location now.

    Attributes:
        label: the value of Velero's label on Backups that have expired.
        reason: for people, as the end of a sentence.
        is_wanted: whether it is a setting, and no fault.
    """

    label: str
    reason: str
    is_wanted: bool = False


_BECAUSE: Final = {
    RemovalReason.EXPIRY: "Backup has expired",
    RemovalReason.RULE: "No rule keeps the backup",
}
_NOT_FOUND: Final = LocationObstacle(label="BSLNotFound", reason="its storage location does not exist")
_READ_ONLY: Final = LocationObstacle(
    label="BSLReadOnly", reason="its storage location is read-only", is_wanted=True
)
_UNAVAILABLE: Final = LocationObstacle(label="BSLUnavailable", reason="its storage location is unavailable")


async def location_obstacle(client: KubeClient, namespace: str, location: str) -> LocationObstacle | None:
    """What keeps the backups of a location; None if they can be deleted. Raises the errors that pass."""
    try:
        found = await client.get(BACKUP_STORAGE_LOCATIONS, location, namespace)
    except NotFound:
        return _NOT_FOUND
    except PASSING_ERRORS:
        raise
    except KubeError as error:
        return LocationObstacle(label="BSLCannotGet", reason=f"its storage location cannot be read: {error}")
    if text(found, "spec", "accessMode") == BackupStorageLocationAccessMode.READ_ONLY:
        return _READ_ONLY
    if text(found, "status", "phase") == BackupStorageLocationPhase.UNAVAILABLE:
        return _UNAVAILABLE
    return None


async def _held_reason(scope: Scope, obj: JSONObject, backup: Backup, store: BackupStore | None) -> str:
    """That a backup is held, by its object or a file beside it; empty if it is not. Raises StorageError."""
    if (reason := hold_of(obj)) is not None:
        return held(reason)
    if store is None:
        return ""
    hold = await standing_hold(scope, backup, store)
    return held(hold.reason) if hold is not None else ""


async def _is_requested(client: KubeClient, namespace: str, backup: Backup) -> bool:
    """Whether a deletion of the Backup is asked for and has not ended."""
    selector = ",".join(f"{name}={value}" for name, value in request_labels(backup).items())
    requests = await client.list_all(DELETE_BACKUP_REQUESTS, namespace, label_selector=selector)
    phases = [(request.get("status") or {}).get("phase") for request in requests]
    return any(phase != DeleteBackupRequestPhase.PROCESSED for phase in phases)


async def ask_for_deletion(
    scope: Scope, obj: JSONObject, store: BackupStore | None, reason: RemovalReason
) -> bool:
    """Create a DeleteBackupRequest for a Backup, unless it is held or one is being worked on.

    Args:
        store: where a hold may be beside the backup; None if that is left to the deletion, which asks again.

    Returns:
        Whether a request was made.

    Raises:
        StorageError: the location cannot be asked for holds.
    """
    why, name = _BECAUSE[reason], obj["metadata"]["name"]
    backup = decode(Backup, obj)
    if reason_held := await _held_reason(scope, obj, backup, store):
        log.info(f"{why}, and it stays", backup=name, reason=reason_held)
        return False
    if await _is_requested(scope.client, scope.namespace, backup):
        return False
    metadata = {
        "generateName": f"{name}-",
        "namespace": scope.namespace,
        "labels": request_labels(backup),
        "annotations": {labels.REMOVAL_REASON: str(reason)},
    }
    request = {
        "apiVersion": API_VERSION,
        "kind": DELETE_BACKUP_REQUESTS.kind,
        "metadata": metadata,
        "spec": {"backupName": name},
    }
    await scope.client.create(DELETE_BACKUP_REQUESTS, request, scope.namespace)
    log.info(f"{why}, requested its deletion", backup=name)
    return True


def asking_controller(
    parts: Parts,
    name: str,
    reconcile: Callable[[Key], Awaitable[Result]],
    look_at_all: Callable[[], Awaitable[None]],
    queue: RateLimitedQueue[Key],
) -> Controller:
    """A controller that asks for deletions; all that it may concern is looked at again and again."""
    return Controller(
        name,
        reconcile,
        workers=MAIN_WORKERS,
        resync=Resync(look_at_all, parts.options.gc_frequency.total_seconds()),
        clock=parts.scope.clock,
        queue=queue,
    )
