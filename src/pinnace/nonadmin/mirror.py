"""The part of the server's objects that a request's status repeats. Pure. (docs/spec: NAC 9.6)"""

from collections.abc import Iterable
from typing import Final

from pinnace.api.nonadmin.hiding import hidden_in, hiding_for
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import BackupPhase
from pinnace.api.values.queue_positions import is_worth_showing

_COUNTED: Final = {
    "New": "new",
    "Accepted": "accepted",
    "Prepared": "prepared",
    "InProgress": "inProgress",
    "Canceling": "canceling",
    "Canceled": "canceled",
    "Failed": "failed",
    "Completed": "completed",
}


def with_location(status: JSONObject, location: JSONObject | None) -> JSONObject:
    """The request's status with a copy of the BackupStorageLocation's."""
    member = "veleroBackupStorageLocation"
    return {**status, member: {**mapping(status, member), "status": _status(location)}}


def with_reference(status: JSONObject, member: str, unique_id: str, namespace: str) -> JSONObject:
    """The status with the name of the server's object: known before its creation, which happens once."""
    reference = {"nacuuid": unique_id, "name": unique_id, "namespace": namespace}
    return {**status, member: {**mapping(status, member), **reference}}


def with_queue_position(status: JSONObject, position: int, former: JSONObject) -> JSONObject:
    """The status with the queue position, which never goes up again.

    Args:
        former: the status before this pass. If nothing else has changed, the position changes only if it is
            worth a write of its own.
    """
    shown = shown_position(status)
    if 0 < shown < position or (shown and status == former and not is_worth_showing(shown, position)):
        return status
    return {**status, "queueInfo": {"estimatedQueuePosition": position}}


def shown_position(status: JSONObject) -> int:
    """The queue position that a status shows; 0 if it shows none."""
    shown = mapping(status, "queueInfo").get("estimatedQueuePosition")
    return shown if isinstance(shown, int) else 0


def with_backup(
    status: JSONObject, backup: JSONObject, pod_volumes: Iterable[JSONObject], uploads: Iterable[JSONObject]
) -> JSONObject:
    """The request's status with a copy of the Backup's spec and status."""
    mirrored = {"spec": _copy(backup, "spec"), "status": _status(backup)}
    return {
        **status,
        "veleroBackup": {**mapping(status, "veleroBackup"), **mirrored},
        "fileSystemPodVolumeBackups": _counts(pod_volumes),
        "dataMoverDataUploads": _counts(uploads),
    }


def with_restore(
    status: JSONObject,
    restore: JSONObject,
    pod_volumes: Iterable[JSONObject],
    downloads: Iterable[JSONObject],
) -> JSONObject:
    """The request's status with a copy of the Restore's status."""
    return {
        **status,
        "veleroRestore": {**mapping(status, "veleroRestore"), "status": _status(restore)},
        "fileSystemPodVolumeRestores": _counts(pod_volumes),
        "dataMoverDataDownloads": _counts(downloads),
    }


def with_delete_request(status: JSONObject, request: JSONObject, unique_id: str) -> JSONObject:
    """The request's status with a copy of the DeleteBackupRequest's."""
    mirrored = {
        "nacuuid": unique_id,
        "name": text(request, "metadata", "name"),
        "namespace": text(request, "metadata", "namespace"),
        "status": _status(request),
    }
    return {**status, "veleroDeleteBackupRequest": mirrored}


def _copy(obj: JSONObject | None, member: str) -> JSONObject:
    """A part of an object without its nulls, which no merge patch could write."""
    copied = _without_nulls(mapping(obj, member))
    return copied if isinstance(copied, dict) else {}


def _status(obj: JSONObject | None) -> JSONObject:
    """An object's status for a tenant, with the names of other namespaces hidden. (docs/spec: NAC 17 A31)

    The phase and the position of a queued Backup are left out: tenants have a queue position of their own,
    and the server's changes whenever a Backup ends.
    """
    notes = mapping(obj, "metadata", "annotations")
    tenant = next(filter(None, (text(notes, origin.namespace_annotation) for origin in Origin)), "")
    hide = hiding_for(tenant, text(obj, "metadata", "namespace"))
    shown = _copy(obj, "status")
    shown.pop("queuePosition", None)
    if shown.get("phase") == BackupPhase.QUEUED:
        del shown["phase"]
    return {name: hidden_in(value, hide) for name, value in shown.items()}


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _counts(transfers: Iterable[JSONObject]) -> JSONObject:
    """Zeros are left out; unknown phases count in the total only."""
    counts: dict[str, int] = {}
    for transfer in transfers:
        counts["total"] = counts.get("total", 0) + 1
        name = _COUNTED.get(text(transfer, "status", "phase"))
        if name is not None:
            counts[name] = counts.get(name, 0) + 1
    return counts
