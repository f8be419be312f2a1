"""`backup describe -o json`, in the shape of Velero 1.18. Pure. (docs/spec: BEY 8.3)

Misspelt keys of Velero are kept, with the right ones beside them; fields that Velero lacks are added.
"""

from collections.abc import Sequence
from typing import Any, Final

from pinnace.api.objects import JSONObject, listed, mapping, objects, text
from pinnace.api.velero.data_movement import BUILT_IN_MOVER
from pinnace.cli.backup.describe import DescribedBackup
from pinnace.cli.common.describing import View
from pinnace.cli.output import cells, described, volume_infos

_HINT: Final = "included, specify --details for more information"
_SCOPES: Final = (
    "includedClusterScopedResources",
    "excludedClusterScopedResources",
    "includedNamespaceScopedResources",
    "excludedNamespaceScopedResources",
)


def backup_as_json(backup: JSONObject, facts: DescribedBackup, view: View) -> JSONObject:
    """The description of a backup."""
    spec, status = cells.spec(backup), cells.status(backup)
    made: JSONObject = {
        "metadata": described.metadata(backup),
        "phase": cells.phase(backup) or "New",
        "spec": _spec(spec),
        "status": _status(backup, status, facts, view),
        **described.results(status, facts.results),
    }
    if errors := listed(status, "validationErrors"):
        made["validationErrors"] = errors
    if reason := text(status, "failureReason"):
        made["failureReason"] = reason
    if policy := mapping(spec, "resourcePolicy"):
        made["resourcePolicies"] = {"type": policy.get("kind", ""), "name": policy.get("name", "")}
    if position := status.get("queuePosition"):
        made["queuePosition"] = position
    if facts.waits_for:
        made["waitsFor"] = facts.waits_for
    if facts.delete_requests:
        made["deletionAttempts"] = _deletions(facts.delete_requests)
    return made


def _spec(spec: JSONObject) -> JSONObject:
    resources: JSONObject = described.included_excluded(spec, "Resources")
    resources["clusterScoped"] = described.cluster_scoped(spec)
    for name in _SCOPES:
        if found := listed(spec, name):
            resources[name] = described.joined(found, "<none>")
    made: JSONObject = {
        "namespaces": described.included_excluded(spec, "Namespaces"),
        "resources": resources,
        "labelSelector": cells.selector(spec.get("labelSelector")),
        "storageLocation": text(spec, "storageLocation"),
        "veleroNativeSnapshotPVs": cells.tristate(spec.get("snapshotVolumes")),
        "veleroSnapshotMoveData": cells.tristate(spec.get("snapshotMoveData")),
        "dataMover": text(spec, "datamover") or BUILT_IN_MOVER,
        "TTL": cells.duration(spec.get("ttl")),
        "CSISnapshotTimeout": cells.duration(spec.get("csiSnapshotTimeout")),
        "hooks": {
            "resources": {text(hook, "name"): _hook(hook) for hook in objects(spec, "hooks", "resources")}
        },
    }
    if selectors := objects(spec, "orLabelSelectors"):
        made["orLabelSelectors"] = [cells.selector(one) for one in selectors]
    for name in ("orderedResources", "uploaderConfig"):
        if settings := mapping(spec, name):
            made[name] = settings
    if timeout := text(spec, "itemOperationTimeout"):
        made["itemOperationTimeout"] = timeout
    return made


def _hook(hook: JSONObject) -> JSONObject:
    made: JSONObject = {
        "namespaces": described.included_excluded(hook, "Namespaces"),
        "resources": described.included_excluded(hook, "Resources"),
        "labelSelector": cells.selector(hook.get("labelSelector")),
    }
    for key, title in (("pre", "preExecHook"), ("post", "postExecHook")):
        entries = [_exec_hook(mapping(entry, "exec")) for entry in objects(hook, key)]
        if entries:
            made[title] = entries
    return made


def _exec_hook(hook: JSONObject) -> JSONObject:
    on_error = text(hook, "onError")
    return {
        "container": text(hook, "container"),
        "command": " ".join(map(str, listed(hook, "command"))),
        # With the colon, as Velero has it, and without.
        "onError:": on_error,
        "onError": on_error,
        "timeout": text(hook, "timeout") or "0s",
    }


def _status(backup: JSONObject, status: JSONObject, facts: DescribedBackup, view: View) -> JSONObject:
    made: JSONObject = {
        "backupFormatVersion": text(status, "formatVersion"),
        **described.times(status),
        "expiration": cells.local_time(text(status, "expiration") or None, "<nil>"),
        "backupVolumes": _volumes(status, facts, view),
    }
    if progress := mapping(status, "progress"):
        running = cells.phase(backup) == "InProgress"
        total, done = progress.get("totalItems") or 0, progress.get("itemsBackedUp") or 0
        made["estimatedTotalItemsToBeBackedUp" if running else "totalItemsToBeBackedUp"] = total
        made["itemsBackedUpSoFar" if running else "itemsBackedUp"] = done
        if running and (activity := mapping(status, "activity")):
            made["activity"] = activity
    if facts.tarball_bytes is not None:
        made["tarballBytes"] = facts.tarball_bytes
    if isinstance(facts.resource_list, str):
        made["errorGettingResourceList"] = facts.resource_list
    elif facts.resource_list is not None:
        made["resourceList"] = facts.resource_list
    if facts.operations:
        made["backupItemOperations"] = list(facts.operations)
    hooks = mapping(status, "hookStatus")
    made["hooksAttempted"] = hooks.get("hooksAttempted") or 0
    made["hooksFailed"] = hooks.get("hooksFailed") or 0
    return made


def _volumes(status: JSONObject, facts: DescribedBackup, view: View) -> JSONObject:
    skipped = volume_infos.skipped(facts.volume_infos)
    return {
        **({"skippedVolumes": skipped} if skipped else {}),
        "nativeSnapshots": _native(status, facts, view),
        "csiSnapshots": _csi(facts, view),
        "podVolumeBackups": described.pod_volumes(facts.pod_volume_backups, details=view.details),
    }


def _native(status: JSONObject, facts: DescribedBackup, view: View) -> Any:
    if not status.get("volumeSnapshotsAttempted"):
        return "<none included>"
    if not view.details:
        return _HINT
    if isinstance(facts.snapshots, str):
        return facts.snapshots
    made = {}
    for snapshot in facts.snapshots or ():
        given = {key.lower(): value for key, value in cells.spec(snapshot).items()}
        iops = given.get("volumeiops")
        made[str(given.get("persistentvolumename", ""))] = {
            "snapshotID": text(cells.status(snapshot), "providerSnapshotID"),
            "type": str(given.get("volumetype") or ""),
            "availabilityZone": str(given.get("volumeaz") or ""),
            "IOPS": "<N/A>" if iops is None else str(iops),
            "result": "succeeded" if cells.phase(snapshot) == "Completed" else "failed",
        }
    return made


def _csi(facts: DescribedBackup, view: View) -> Any:
    of_csi = volume_infos.of_csi(facts.volume_infos)
    if not of_csi:
        return "<none included>" if facts.records_volumes else "<none included or not detectable>"
    made: JSONObject = {}
    for info in of_csi:
        claim = f"{text(info, 'pvcNamespace')}/{text(info, 'pvcName')}"
        moved = info.get("snapshotDataMoved") is True
        kind = "dataMovement" if moved else "snapshot"
        if not view.details:
            made[claim] = {kind: _HINT}
        elif moved:
            made[claim] = {kind: _movement(info, facts.operations)}
        else:
            made[claim] = {kind: _snapshot(info)}
    return made


def _snapshot(info: JSONObject) -> JSONObject:
    snapshot = mapping(info, "csiSnapshotInfo")
    return {
        "operationID": text(snapshot, "operationID"),
        "snapshotContentName": text(snapshot, "vscName"),
        "storageSnapshotID": text(snapshot, "snapshotHandle"),
        "snapshotSize(bytes)": snapshot.get("size") or 0,
        "csiDriver": text(snapshot, "driver"),
        "result": text(info, "result"),
    }


def _movement(info: JSONObject, operations: Sequence[JSONObject]) -> JSONObject:
    moved = mapping(info, "snapshotDataMovementInfo")
    found = [each for each in operations if text(each, "spec", "operationID") == text(moved, "operationID")]
    errors = [error for each in found if (error := text(each, "status", "error"))]
    return {
        **({"message": errors[0]} if errors else {}),
        "operationID": text(moved, "operationID"),
        "dataMover": text(moved, "dataMover") or BUILT_IN_MOVER,
        "uploaderType": text(moved, "uploaderType"),
        "result": text(info, "result"),
        "size": moved.get("size") or 0,
        "incrementalSize": moved.get("incrementalSize") or 0,
    }


def _deletions(requests: Sequence[JSONObject]) -> JSONObject:
    failed = sum(
        1 for each in requests if cells.phase(each) == "Processed" and cells.status(each).get("errors")
    )
    return {
        "failed": failed,
        "deleteBackupRequests": [
            {
                "creationTimestamp": cells.local_time(
                    text(each, "metadata", "creationTimestamp") or None, "<n/a>"
                ),
                "phase": cells.phase(each),
                "errors": listed(cells.status(each), "errors"),
            }
            for each in requests
        ],
    }
