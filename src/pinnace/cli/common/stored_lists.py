"""Lists of objects in files of backups and restores, for descriptions."""

from collections.abc import Sequence

from pinnace.api.objects import JSONObject
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.common.unshown import Unshown
from pinnace.client.errors import ClientError, FileMissing
from pinnace.client.interface import Backend, DownloadOptions, fetch_json
from pinnace.kube.errors import KubeError
from pinnace.storage.errors import StorageError

_TITLES = {
    DownloadTargetKind.BACKUP_VOLUME_INFOS: "volumes",
    DownloadTargetKind.BACKUP_ITEM_OPERATIONS: "item operations",
    DownloadTargetKind.RESTORE_VOLUME_INFO: "volumes",
    DownloadTargetKind.RESTORE_ITEM_OPERATIONS: "item operations",
}


async def stored_objects(
    backend: Backend, kind: DownloadTargetKind, name: str, options: DownloadOptions, unshown: Unshown
) -> Sequence[JSONObject] | None:
    """The objects in a file; None without the file. One that cannot be read is noted as not shown."""
    try:
        found: Sequence[JSONObject] = await fetch_json(backend, kind, name, options)
    except FileMissing:
        return None  # of a version that does not write it
    except (ClientError, KubeError, StorageError, ValueError) as error:
        unshown.add(_TITLES[kind], error)
        return []
    return found


async def stored_operations(
    backend: Backend,
    owner: JSONObject,
    kind: DownloadTargetKind,
    options: DownloadOptions,
    unshown: Unshown,
) -> Sequence[JSONObject]:
    """The operations that a backup or restore has started; none where its status says so. (BEY 3.8)"""
    status = owner.get("status") or {}
    if not any(value for key, value in status.items() if key.endswith("ItemOperationsAttempted")):
        return []
    return await stored_objects(backend, kind, owner["metadata"]["name"], options, unshown) or ()
