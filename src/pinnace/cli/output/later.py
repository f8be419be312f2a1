"""What later versions write into Backups and Restores, in their descriptions. (docs/spec: BEY 2.1, 8.4)

Of all that we act on the timeout of CSI snapshots only; but what is in such a backup, and why, must be
readable here too. Each line is shown only if the field is there, so that the description of what we wrote
ourselves does not change. The fields have passed no schema: any JSON is printed.
"""

import json
from collections.abc import Mapping
from typing import Final

from pinnace.api.objects import JSONObject
from pinnace.cli.output import cells
from pinnace.cli.output.layout import Sheet

Titles = Mapping[str, str]

QUEUE: Final[Titles] = {"queuePosition": "Queue position"}

BACKUP_SPEC: Final[Titles] = {
    "resourcePolicy": "Resource policies",
    "uploaderConfig": "Uploader config",
    "defaultVolumesToFsBackup": "File System Backup (Default)",
    "snapshotMoveData": "Snapshot Move Data",
    "datamover": "Data Mover",
    "csiSnapshotTimeout": "CSISnapshotTimeout",
    "itemOperationTimeout": "ItemOperationTimeout",
    "volumeGroupSnapshotLabelKey": "Volume Group Snapshot Label Key",
}
RESTORE_SPEC: Final[Titles] = {
    "existingResourcePolicy": "Existing Resource Policy",
    "restoreStatus": "Restore Status",
    "resourceModifier": "Resource modifier",
    "uploaderConfig": "Uploader config",
    "itemOperationTimeout": "ItemOperationTimeout",
}

_PARTS: Final[Titles] = {
    "kind": "Type",
    "name": "Name",
    "includedResources": "Included",
    "excludedResources": "Excluded",
    "parallelFilesUpload": "Parallel files upload",
    "parallelFilesDownload": "Parallel Restore",
    "writeSparseFiles": "Write Sparse Files",
}
_SCOPES: Final[Titles] = {
    "includedClusterScopedResources": "Included cluster-scoped",
    "excludedClusterScopedResources": "Excluded cluster-scoped",
    "includedNamespaceScopedResources": "Included namespace-scoped",
    "excludedNamespaceScopedResources": "Excluded namespace-scoped",
}
_HOOKS: Final[Titles] = {"hooksAttempted": "HooksAttempted", "hooksFailed": "HooksFailed"}


def fields(sheet: Sheet, owner: JSONObject, titles: Titles) -> None:
    """Each field that is there, after an empty line; an object as a block of its members."""
    for key, title in titles.items():
        value = owner.get(key)
        if value in (None, "", 0, {}, []) and value is not False:
            continue
        sheet.line()
        if isinstance(value, dict):
            sheet.line(f"{title}:")
            for part, member in sorted(value.items()):
                sheet.field(_PARTS.get(part, part), _text(member), indent=1)
        else:
            sheet.field(title, _text(value))


def _text(value: object) -> str:
    if value is None:
        return "<none>"
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(member, str) for member in value):
        return ", ".join(value)
    return json.dumps(value)


def scopes(sheet: Sheet, spec: JSONObject) -> None:
    """The filters by scope, as further lines of the resources block."""
    for key, title in _SCOPES.items():
        if spec.get(key):
            sheet.field(title, _text(spec[key]), indent=1)


def selectors(sheet: Sheet, spec: JSONObject) -> None:
    """The label selectors of which one has to match."""
    found = spec.get("orLabelSelectors")
    if isinstance(found, list) and found:
        sheet.line()
        texts = (cells.selector(one) if isinstance(one, dict) else "<error>" for one in found)
        sheet.field("Or label selector", " or ".join(texts))


def backup_status(sheet: Sheet, status: JSONObject) -> None:
    """The outcome of CSI snapshots, of item operations and of hooks."""
    _outcome(sheet, status, "CSI Snapshots", "csiVolumeSnapshots")
    _outcome(sheet, status, "Backup Item Operations", "backupItemOperations")
    _hooks(sheet, status)


def restore_status(sheet: Sheet, status: JSONObject) -> None:
    """The outcome of item operations and of hooks."""
    _outcome(sheet, status, "Restore Item Operations", "restoreItemOperations")
    _hooks(sheet, status)


def _outcome(sheet: Sheet, status: JSONObject, title: str, prefix: str) -> None:
    attempted = status.get(f"{prefix}Attempted")
    if attempted:
        done, failed = (_text(status.get(f"{prefix}{how}") or 0) for how in ("Completed", "Failed"))
        sheet.line()
        sheet.field(title, f"{done} of {_text(attempted)} completed successfully, {failed} failed")


def _hooks(sheet: Sheet, status: JSONObject) -> None:
    hooks = status.get("hookStatus")
    if isinstance(hooks, dict):
        fields(sheet, hooks, _HOOKS)
