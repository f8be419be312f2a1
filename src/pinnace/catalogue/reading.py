"""Reads the data that a backup has of its volumes from its location, for deletion and verification.

(docs/adr/021, 112, docs/spec: CTL 6.2, BEY 3.2, 6.6, 7.6)
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from pinnace.api.codec import decode
from pinnace.api.kinds import DATA_UPLOADS
from pinnace.api.objects import JSONObject, text
from pinnace.api.velero.pod_volume import PodVolumeBackup
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.archive.errors import ArchiveError
from pinnace.archive.reader import ArchiveIndex
from pinnace.catalogue.moved import (
    is_of_another_backup,
    live_moved_volumes,
    moved_claims,
    moved_volumes,
    without_record,
)
from pinnace.catalogue.pod_volumes import SavedPodVolumes, pod_volumes, recorded_pod_volumes
from pinnace.catalogue.records import BackupRecords
from pinnace.catalogue.snapshots import csi_snapshots, native_snapshots, snapshots_made_by
from pinnace.catalogue.tarball import opened_tarball, read_item, stored_objects
from pinnace.catalogue.volumes import UNKNOWN, SavedVolume, Way
from pinnace.csi.snapshots import GROUP
from pinnace.storage.backup_store import BackupStore

_DATA_UPLOAD: Final = "/DataUpload"
_CSI_KINDS: Final = ("/VolumeSnapshot", "/VolumeSnapshotContent")


async def read_records(store: BackupStore, backup: str) -> BackupRecords:
    """The records beside the tarball, without those of the volumes of pods. Raises StorageError."""
    return BackupRecords(
        native=await store.read_snapshots(backup),
        infos=await store.read_volume_infos(backup),
        operations=await store.read_item_operations(backup),
    )


async def read_pod_volumes(
    store: BackupStore,
    backup: str,
    infos: Sequence[BackupVolumeInfo],
    live: Sequence[JSONObject] = (),
) -> SavedPodVolumes:
    """The volumes of pods, for a restore.

    A cluster may lack PodVolumeBackups that the location has: the sync has not made them yet, or somebody
    deleted them. Their volumes would come back empty, so the location fills the gaps.

    Args:
        live: the PodVolumeBackups of a cluster, which count before those of the location.

    Raises:
        StorageError: the location cannot be read.
        DecodeError: one is no PodVolumeBackup. A restore that ignored it would lose its data.
    """
    stored = await store.read_pod_volume_backups(backup)
    known = {_place_in_pod(obj) for obj in live}
    objects = [*live, *(obj for obj in stored if _place_in_pod(obj) not in known)]
    for obj in objects:
        decode(PodVolumeBackup, obj)
    return SavedPodVolumes(pod_volumes(objects, infos, stored))


def _place_in_pod(obj: JSONObject) -> tuple[str, str, str]:
    pod = text(obj, "spec", "pod", "namespace"), text(obj, "spec", "pod", "name")
    return (*pod, text(obj, "spec", "volume"))


async def read_volumes(store: BackupStore, backup: str, workdir: Path | None) -> list[SavedVolume]:
    """All volumes of a backup that have, or may have, data outside of its files.

    The tarball is read only where no other file tells.

    Args:
        workdir: for the tarball; None for the system's temporary folder.

    Raises:
        StorageError: a file cannot be read.
        ArchiveError: the tarball, which alone names the CSI snapshots, is damaged.
    """
    records = await read_records(store, backup)
    listed = await store.read_resource_list(backup)
    contents = await store.read_csi_volume_snapshot_contents(backup)
    stored = await store.read_pod_volume_backups(backup)
    in_tarball = not contents and any(key.startswith(GROUP) and key.endswith(_CSI_KINDS) for key in listed)
    uploads = dict.fromkeys(name for key in listed if key.endswith(_DATA_UPLOAD) for name in listed[key])
    opening = opened_tarball(store, backup, workdir)
    async with _archive_for(records, opening, tells=bool(uploads), needed=in_tarball) as archive:
        of_others = _uploads_of_others(archive, backup) if uploads and archive is not None else frozenset()
        made = snapshots_made_by(archive, backup) if in_tarball and archive is not None else ()
        found = [
            *native_snapshots(records.native),
            *csi_snapshots(contents, records.infos, made),
            *_in_repositories(records, stored, archive),
        ]
    if not any(each.way == Way.MOVED for each in found):
        own = [name for name in uploads if name not in of_others]
        found += [without_record(UNKNOWN, f"DataUpload {name}") for name in own]
    return found


def _uploads_of_others(archive: ArchiveIndex, backup: str) -> frozenset[str]:
    """The DataUploads of other backups in a tarball, as the list of resources names them."""
    return frozenset(
        f"{text(upload, 'metadata', 'namespace')}/{text(upload, 'metadata', 'name')}"
        for upload in stored_objects(archive, DATA_UPLOADS.group_resource)
        if is_of_another_backup(upload, backup)
    )


async def read_volumes_in_repositories(
    store: BackupStore,
    backup: str,
    workdir: Path | None,
    *,
    pod_volume_backups: Sequence[JSONObject] = (),
    data_uploads: Sequence[JSONObject] = (),
) -> list[SavedVolume]:
    """The volumes of pods and the moved volumes alone: by the backup's files, and by objects in a cluster.

    Args:
        workdir: for the tarball; None for the system's temporary folder.
        pod_volume_backups, data_uploads: those of the cluster.

    Raises:
        StorageError: a file cannot be read.
    """
    records = BackupRecords(
        infos=await store.read_volume_infos(backup), operations=await store.read_item_operations(backup)
    )
    objects = [*pod_volume_backups, *await store.read_pod_volume_backups(backup)]
    async with _archive_for(records, opened_tarball(store, backup, workdir)) as archive:
        return _in_repositories(records, objects, archive, data_uploads)


@asynccontextmanager
async def _archive_for(
    records: BackupRecords,
    opening: AbstractAsyncContextManager[ArchiveIndex | None],
    *,
    tells: bool = False,
    needed: bool = False,
) -> AsyncIterator[ArchiveIndex | None]:
    """The tarball if it is needed, if it tells more, or if the records name moved data, of which it does."""
    async with AsyncExitStack() as stack:
        archive = None
        if tells or needed or moved_claims(records.infos, records.operations):
            try:
                archive = await stack.enter_async_context(opening)
            except ArchiveError:
                if needed:
                    raise  # else each claim is one whose data cannot be deleted
        yield archive


def _in_repositories(
    records: BackupRecords,
    objects: Sequence[JSONObject],
    archive: ArchiveIndex | None,
    uploads: Sequence[JSONObject] = (),
) -> list[SavedVolume]:
    read = partial(read_item, archive) if archive is not None else lambda *_: None
    found = [
        *pod_volumes(objects, records.infos, objects),
        *live_moved_volumes(uploads),
        *moved_volumes(records.infos, records.operations, read).values(),
    ]
    known = {each.snapshot for each in found}
    found += (each for each in recorded_pod_volumes(records.infos) if each.snapshot not in known)
    # Of several records of one snapshot the first counts.
    once = {(each.uploader, each.namespace, each.snapshot or each.title): each for each in reversed(found)}
    return list(reversed(once.values()))
