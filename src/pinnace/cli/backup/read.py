"""Gathers the objects and files that `backup describe` shows. (docs/spec: CLI 4.3)"""

from collections.abc import Awaitable, Sequence

from pinnace.api import labels
from pinnace.api.objects import JSONObject, names_by_kind, text
from pinnace.api.retention.holds import hold_of
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.backup.describe import describe_backup
from pinnace.cli.backup.describe_json import backup_as_json
from pinnace.cli.backup.description import DescribedBackup
from pinnace.cli.common.describing import Description, View
from pinnace.cli.common.stored_lists import stored_objects, stored_operations
from pinnace.cli.common.unshown import Unshown
from pinnace.cli.common.waiting import waits_for
from pinnace.cli.guard import complain
from pinnace.cli.output import cells
from pinnace.client.errors import ClientError, FileMissing
from pinnace.client.interface import Backend, DownloadOptions, fetch_json
from pinnace.kube.errors import KubeError
from pinnace.storage.errors import StorageError


async def describe_stored_backup(backend: Backend, backup: JSONObject, view: View) -> Description:
    """The description of a backup; an error stands in place of its part, or on stderr."""
    facts = await gather(backend, backup, view)
    return backup_as_json(backup, facts, view) if view.json else describe_backup(backup, facts, view)


async def gather(backend: Backend, backup: JSONObject, view: View) -> DescribedBackup:
    """The objects and files that belong to a backup."""
    name, options = backup["metadata"]["name"], view.downloads
    unshown = Unshown(f"backup {name}")
    by_uid = (
        f"{labels.BACKUP_NAME}={labels.label_value(name)},"
        f"{labels.BACKUP_UID}={backup['metadata'].get('uid') or ''}"
    )

    async def related(what: str, found: Awaitable[Sequence[JSONObject]]) -> Sequence[JSONObject]:
        try:
            return await found
        except (KubeError, StorageError) as error:
            if not unshown.is_sealed(what, error):
                complain(f"error getting {what} for backup {name}: {error}")
            return []

    volume_infos = None
    if view.json or view.details:
        volume_infos = await stored_objects(
            backend, DownloadTargetKind.BACKUP_VOLUME_INFOS, name, options, unshown
        )
    described = DescribedBackup(
        delete_requests=await related(
            "DeleteBackupRequests", backend.objects("deletebackuprequests", by_uid)
        ),
        pod_volume_backups=await related("PodVolumeBackups", backend.volumes_of(name)),
        csi_contents=await related("VolumeSnapshotContent objects", _csi_contents(backend, name, options))
        if view.csi
        else (),
        resource_list=await _resource_list(backend, name, options, unshown) if view.details else None,
        snapshots=await _snapshots(backend, backup, options, unshown) if view.details else None,
        results=await _results(backend, backup, options, unshown),
        tarball_bytes=await _tarball_bytes(backend, backup),
        volume_infos=volume_infos or (),
        # Pinnace leaves the file out where there are no volumes.
        records_volumes=volume_infos is not None or cells.tarball_bytes(backup) is not None,
        operations=await stored_operations(
            backend, backup, DownloadTargetKind.BACKUP_ITEM_OPERATIONS, options, unshown
        )
        if view.details
        else (),
        waits_for=await waits_for(backend, backup),
        retention=await _retention(backend, backup),
        hold=await _hold(backend, backup),
    )
    unshown.say()
    return described


async def _retention(backend: Backend, backup: JSONObject) -> str:
    """What the rules of the backup's schedule say of it; empty without a schedule or rules."""
    if not text(backup, "metadata", "labels", labels.SCHEDULE_NAME):
        return ""
    from pinnace.cli.common.decided_schedules import retention_of_backup  # few need it

    return await retention_of_backup(backend, backup)


async def _hold(backend: Backend, backup: JSONObject) -> str | None:
    """The reason of the hold on the backup; None if it is not held, or only a server could say so."""
    from pinnace.client.location import LocationBackend

    if not isinstance(backend, LocationBackend):
        return hold_of(backup)
    from pinnace.cli.common.holds import hold_in_location

    try:
        return await hold_in_location(backend, backup["metadata"]["name"])
    except StorageError as error:
        complain(f"it cannot be found out whether backup {backup['metadata']['name']} is held: {error}")
        return hold_of(backup)


async def _tarball_bytes(backend: Backend, backup: JSONObject) -> int | None:
    """The size that the Backup records, else that of the file in the location; None if unknown."""
    noted = cells.tarball_bytes(backup)
    if noted is not None:
        return noted
    try:
        return await backend.tarball_bytes(backup["metadata"]["name"])
    except StorageError:  # a backup without a tarball, which its phase says
        return None


async def _results(
    backend: Backend, backup: JSONObject, options: DownloadOptions, unshown: Unshown
) -> JSONObject | None:
    """The stored warnings and errors of the backup; None without such a file. (BEY 3.4)"""
    status, name = backup.get("status") or {}, backup["metadata"]["name"]
    if not (status.get("errors") or status.get("warnings")):
        return None
    try:
        found = await fetch_json(backend, DownloadTargetKind.BACKUP_RESULTS, name, options)
    except FileMissing:
        return None
    except (ClientError, KubeError, StorageError, ValueError) as error:
        unshown.add("errors and warnings", error)
        return None
    return found if isinstance(found, dict) else None


async def _csi_contents(backend: Backend, name: str, options: DownloadOptions) -> Sequence[JSONObject]:
    """The contents in the cluster, else the stored ones: a finished backup leaves none. (docs/adr/022)

    Raises:
        KubeError, StorageError: they cannot be read.
    """
    if live := await backend.csi_contents_of(name):
        return live
    try:
        found: Sequence[JSONObject] = await fetch_json(
            backend, DownloadTargetKind.CSI_CONTENTS, name, options
        )
    except FileMissing:
        return []
    except (ClientError, ValueError) as error:
        raise StorageError(str(error)) from error
    if not all(map(_is_content, found)):
        raise StorageError("not an array of VolumeSnapshotContents")
    return found


def _is_content(found: JSONObject) -> bool:
    return all(isinstance(found.get(part), dict | None) for part in ("metadata", "spec", "status"))


async def _resource_list(
    backend: Backend, name: str, options: DownloadOptions, unshown: Unshown
) -> JSONObject | str:
    try:
        found = await fetch_json(backend, DownloadTargetKind.BACKUP_RESOURCE_LIST, name, options)
        return dict(names_by_kind(found))
    except FileMissing:
        return "<backup resource list not found>"
    except (ClientError, KubeError, StorageError) as error:
        return unshown.text("resource list", error, "getting backup resource list")
    except ValueError as error:
        return f"<error reading backup resource list: {error}>"


async def _snapshots(
    backend: Backend, backup: JSONObject, options: DownloadOptions, unshown: Unshown
) -> Sequence[JSONObject] | str:
    if not (backup.get("status") or {}).get("volumeSnapshotsAttempted"):
        return []
    name = backup["metadata"]["name"]
    try:
        found: Sequence[JSONObject] = await fetch_json(
            backend, DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS, name, options
        )
    except (ClientError, KubeError, StorageError) as error:
        return unshown.text("native snapshots", error, "getting snapshot info")
    except ValueError as error:
        return f"<error reading snapshot info: {error}>"
    if not all(map(_is_snapshot, found)):
        return "<error reading snapshot info: not an array of snapshots>"
    return found


def _is_snapshot(found: JSONObject) -> bool:
    return all(isinstance(found.get(part), dict | None) for part in ("spec", "status"))
