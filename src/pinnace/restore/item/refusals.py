"""Kinds that must not be restored as they are in the backup, and the reasons.

The engine of v1.6.3 had no such list beyond the six names of validation. Newer backups hold kinds whose
creation alone does harm, and so do our own requests: a restored DeleteBackupRequest has no status, so a
server would treat it as new and delete the backup. Each refusal is a warning.
(docs/spec: BEY 11.1, RST 25)
"""

from typing import Final

from pinnace.api import kinds

_OWN_RECORD = "it is a record of the backup tool about the other cluster, which a server here would act upon"
_OWN_REQUEST = "it is a request to the backup tool, which a server here would carry out again"
_SNAPSHOT = (
    "created as it is, it would take a new snapshot of a volume that is still empty, or claim one that "
    "belongs to another cluster; volumes are restored from CSI snapshots with the feature EnableCSI only"
)
_GROUP_SNAPSHOT = (
    "created as it is, it would take new snapshots of volumes that are still empty, or claim those that "
    "belong to another cluster; volumes are restored one by one"
)

_ALWAYS: Final = {
    kinds.BACKUP_REPOSITORIES.group_resource: _OWN_RECORD,
    kinds.POD_VOLUME_BACKUPS.group_resource: _OWN_RECORD,
    kinds.POD_VOLUME_RESTORES.group_resource: _OWN_RECORD,
    kinds.DATA_DOWNLOADS.group_resource: _OWN_REQUEST,
    kinds.DATA_UPLOADS.group_resource: _OWN_REQUEST,
    kinds.DELETE_BACKUP_REQUESTS.group_resource: _OWN_REQUEST,
    kinds.DOWNLOAD_REQUESTS.group_resource: _OWN_REQUEST,
    kinds.SERVER_STATUS_REQUESTS.group_resource: _OWN_REQUEST,
}

_UNLESS_HANDLED: Final = {
    kinds.VOLUME_SNAPSHOTS.group_resource: _SNAPSHOT,
    kinds.VOLUME_SNAPSHOT_CONTENTS.group_resource: _SNAPSHOT,
    kinds.VOLUME_GROUP_SNAPSHOTS.group_resource: _GROUP_SNAPSHOT,
    kinds.VOLUME_GROUP_SNAPSHOT_CONTENTS.group_resource: _GROUP_SNAPSHOT,
}


def refusal(group_resource: str, *, is_handled: bool) -> str | None:
    """Why a kind is not restored, or None if it is.

    Args:
        group_resource: `volumesnapshots.snapshot.storage.k8s.io`.
        is_handled: whether a restore action names the kind, as those of a CSI plugin do. An action that takes
            all kinds knows nothing of this one.
    """
    reason = _ALWAYS.get(group_resource)
    if reason is None and not is_handled:
        reason = _UNLESS_HANDLED.get(group_resource)
    return reason
