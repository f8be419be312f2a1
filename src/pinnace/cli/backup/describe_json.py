"""`backup describe -o json`, in the shape of Velero 1.18. Pure. (docs/spec: BEY 8.3)

Misspelt keys of Velero are kept, with the right ones beside them; fields that Velero lacks are added.
"""

from collections.abc import Sequence
from typing import Any, Final

from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.api.velero.data_movement import BUILT_IN_MOVER
from pinnace.cli.backup.description import (
    BackupDescription,
    BackupTemplate,
    DescribedBackup,
    DescribedHook,
    described,
)
from pinnace.cli.common.describing import View
from pinnace.cli.output import cells
from pinnace.cli.output import described as parts

_HINT: Final = "included, specify --details for more information"
_SCOPES: Final = (
    "includedClusterScopedResources",
    "excludedClusterScopedResources",
    "includedNamespaceScopedResources",
    "excludedNamespaceScopedResources",
)


def backup_as_json(backup: JSONObject, found: DescribedBackup, view: View) -> JSONObject:
    """The description of a backup."""
    made = described(backup, found)
    shown: JSONObject = {
        "metadata": parts.metadata(made.head.metadata),
        "phase": made.head.phase,
        "spec": _spec(made.template),
        "status": _status(made, view),
        **parts.results(made.head, found.results),
        **parts.reasons(made.head),
    }
    for key, title in (
        ("resourcePolicy", "resourcePolicies"),
        ("globalVolumePolicies", "globalVolumePolicies"),
    ):
        if policy := mapping(made.template.raw, key):
            shown[title] = {"type": policy.get("kind", ""), "name": policy.get("name", "")}
    if made.queue_position:
        shown["queuePosition"] = made.queue_position
    if found.waits_for:
        shown["waitsFor"] = found.waits_for
    if made.deletions:
        shown["deletionAttempts"] = {
            "failed": sum(deletion.failed for deletion in made.deletions),
            "deleteBackupRequests": [
                {"creationTimestamp": each.when, "phase": each.phase or "New", "errors": each.errors}
                for each in made.deletions
            ],
        }
    return shown


def _spec(template: BackupTemplate) -> JSONObject:
    filters, raw = template.filters, template.raw
    resources: JSONObject = parts.included_excluded(filters.resources)
    resources["clusterScoped"] = filters.cluster_scoped
    for name in _SCOPES:
        if found := listed(raw, name):
            resources[name] = parts.joined(found, "<none>")
    made: JSONObject = {
        "namespaces": parts.included_excluded(filters.namespaces),
        "resources": resources,
        "labelSelector": filters.selector,
        "storageLocation": template.storage_location,
        "veleroNativeSnapshotPVs": template.snapshot_volumes,
        "veleroSnapshotMoveData": cells.tristate(raw.get("snapshotMoveData")),
        "dataMover": text(raw, "datamover") or BUILT_IN_MOVER,
        "TTL": template.ttl,
        "CSISnapshotTimeout": cells.duration(raw.get("csiSnapshotTimeout")),
        "hooks": {"resources": {hook.name: _hook(hook) for hook in template.hooks}},
    }
    if filters.selectors:
        made["orLabelSelectors"] = filters.selectors
    for name in ("orderedResources", "uploaderConfig"):
        if settings := mapping(raw, name):
            made[name] = settings
    if timeout := text(raw, "itemOperationTimeout"):
        made["itemOperationTimeout"] = timeout
    return made


def _hook(hook: DescribedHook) -> JSONObject:
    made: JSONObject = {
        "namespaces": parts.included_excluded(hook.namespaces),
        "resources": parts.included_excluded(hook.resources),
        "labelSelector": hook.selector,
    }
    for title, commands in (("preExecHook", hook.before), ("postExecHook", hook.after)):
        if commands:
            made[title] = [
                {
                    "container": command.container,
                    "command": command.command,
                    # With the colon, as Velero has it, and without.
                    "onError:": command.on_error,
                    "onError": command.on_error,
                    "timeout": command.timeout,
                }
                for command in commands
            ]
    return made


def _status(backup: BackupDescription, view: View) -> JSONObject:
    found = backup.found
    made: JSONObject = {
        "backupFormatVersion": backup.format_version,
        "started": backup.head.started,
        "completed": backup.head.completed,
        "expiration": backup.expiration,
        "backupVolumes": {
            **({"skippedVolumes": backup.skipped} if backup.skipped else {}),
            "nativeSnapshots": _native(backup, view),
            "csiSnapshots": _csi(backup, view),
            "podVolumeBackups": parts.pod_volumes(found.pod_volume_backups, details=view.details),
        },
        **parts.progress(backup.head.progress, "BackedUp", "BackedUp"),
    }
    if found.hold is not None:
        made["hold"] = found.hold
    if found.retention:
        made["retention"] = found.retention
    if found.tarball_bytes is not None:
        made["tarballBytes"] = found.tarball_bytes
    if isinstance(found.resource_list, str):
        made["errorGettingResourceList"] = found.resource_list
    elif found.resource_list is not None:
        made["resourceList"] = found.resource_list
    if found.operations:
        made["backupItemOperations"] = list(found.operations)
    return {**made, **parts.hooks(backup.head)}


def _native(backup: BackupDescription, view: View) -> Any:
    if not backup.native_attempted:
        return "<none included>"
    if not view.details:
        return _HINT
    if isinstance(backup.native, str):
        return backup.native
    return {
        snapshot.volume: {
            "snapshotID": snapshot.identifier,
            "type": snapshot.kind,
            "availabilityZone": snapshot.zone,
            "IOPS": snapshot.iops,
            "result": "succeeded" if snapshot.succeeded else "failed",
        }
        for snapshot in backup.native or ()
    }


def _csi(backup: BackupDescription, view: View) -> Any:
    found = backup.found
    if not backup.csi_infos:
        return "<none included>" if found.records_volumes else "<none included or not detectable>"
    made: JSONObject = {}
    for info in backup.csi_infos:
        claim = f"{text(info, 'pvcNamespace')}/{text(info, 'pvcName')}"
        moved = info.get("snapshotDataMoved") is True
        kind = "dataMovement" if moved else "snapshot"
        if not view.details:
            made[claim] = {kind: _HINT}
        elif moved:
            made[claim] = {kind: _movement(info, found.operations)}
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
