"""Describes the fields that later versions write into Backups and Restores. (docs/spec: BEY 2.1, 8.4)

Each line is shown only if the field is present, so that the description of older objects does not change. The
fields were not checked by a schema: any JSON is printed.
"""

import json
from collections.abc import Mapping
from typing import Final

from pinnace.api.objects import JSONObject, listed
from pinnace.api.selection.resource_filters import EXCLUDED_BY_SERVERS
from pinnace.cli.output import parts
from pinnace.cli.output.description import Filters
from pinnace.cli.output.layout import Sheet

Titles = Mapping[str, str]

QUEUE: Final[Titles] = {"queuePosition": "Queue position"}

BACKUP_SPEC: Final[Titles] = {
    "resourcePolicy": "Resource policies",
    "globalVolumePolicies": "Global volume policies",
    "uploaderConfig": "Uploader config",
    "defaultVolumesToFsBackup": "File System Backup (Default)",
    "snapshotMoveData": "Snapshot Move Data",
    "datamover": "Data Mover",
    "backupType": "Backup Type",
    "csiSnapshotTimeout": "CSISnapshotTimeout",
    "itemOperationTimeout": "ItemOperationTimeout",
    "volumeGroupSnapshotLabelKey": "Volume Group Snapshot Label Key",
}
RESTORE_SPEC: Final[Titles] = {
    "existingResourcePolicy": "Existing Resource Policy",
    "existingVolumeDataPolicy": "Existing Volume Data Policy",
    "restoreStatus": "Restore Status",
    "resourceModifier": "Resource modifier",
    "resourcePolicy": "Resource policies",
    "skipDefaultResourceModifier": "Skip Default Resource Modifier",
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
    "deleteExtraFiles": "Delete Extra Files",
}
_SCOPES: Final = {
    "includedClusterScopedResources": ("Included cluster-scoped", "<none>"),
    "excludedClusterScopedResources": ("Excluded cluster-scoped", "<none>"),
    "includedNamespaceScopedResources": ("Included namespace-scoped", "*"),
    "excludedNamespaceScopedResources": ("Excluded namespace-scoped", "<none>"),
}
"""The title of each list, and the meaning of an empty one."""
_NEEDED_ONLY: Final = " (Velero 1.17 and later save only those that other objects need)"
_HOOKS: Final[Titles] = {"hooksAttempted": "HooksAttempted", "hooksFailed": "HooksFailed"}


def fields(sheet: Sheet, owner: JSONObject, titles: Titles) -> None:
    """Write each field that is present, after an empty line; an object as a block of its members."""
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


def resources(sheet: Sheet, filters: Filters, spec: JSONObject) -> None:
    """Write the block of resources: the filters by scope if one is set, else those for all kinds. (BEY 4.4)

    Names that servers of Velero 1.17 and later write into the lists by scope do not count as filters, but
    make a backup without filters lose its cluster-scoped objects.
    """
    written = {key: listed(spec, key) for key in _SCOPES}
    by_users = [name for names in written.values() for name in names if name not in EXCLUDED_BY_SERVERS]
    if by_users:
        sheet.line("Resources:")
        for key, (title, empty) in _SCOPES.items():
            sheet.field(title, _text(written[key]) if written[key] else empty, indent=1)
        return
    parts.included_excluded(sheet, "Resources", filters.resources)
    everywhere = filters.namespaces.included in ([], ["*"])
    loses = written["excludedClusterScopedResources"] and everywhere
    parts.cluster_scoped(sheet, filters, note=_NEEDED_ONLY if loses else "")
    for key, (title, _) in _SCOPES.items():
        if written[key]:
            sheet.field(title, _text(written[key]), indent=1)


def backup_status(sheet: Sheet, status: JSONObject) -> None:
    """Write the outcome of CSI snapshots, of item operations and of hooks."""
    _outcome(sheet, status, "CSI Snapshots", "csiVolumeSnapshots")
    _outcome(sheet, status, "Backup Item Operations", "backupItemOperations")
    _hooks(sheet, status)


def restore_status(sheet: Sheet, status: JSONObject) -> None:
    """Write the outcome of item operations and of hooks."""
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
