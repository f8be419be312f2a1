"""Reads the data that a backup has of its volumes from its location, for deletion and verification.

(docs/adr/021, 112, docs/spec: CTL 6.2, BEY 3.2, 6.6, 7.6)
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from pinnace.aio.blocking import in_thread
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
from pinnace.catalogue.plain_volumes import (
    MOST_PLAIN_LIST_BYTES,
    PlainListError,
    decode_plain_list,
    encode_plain_list,
)
from pinnace.catalogue.pod_volumes import SavedPodVolumes, pod_volumes, recorded_pod_volumes
from pinnace.catalogue.records import BackupRecords
from pinnace.catalogue.snapshots import csi_snapshots, native_snapshots, snapshots_made_by
from pinnace.catalogue.tarball import opened_file, opened_tarball, read_item, stored_objects
from pinnace.catalogue.volumes import UNKNOWN, SavedVolume, Way
from pinnace.csi.snapshots import GROUP
from pinnace.kms.errors import KMSUnavailable
from pinnace.storage.backup_files import BackupFiles, FinalFiles
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound, StorageError, UnreadableObject
from pinnace.storage.key_errors import NOT_OPENED, AgePluginFailed, IdentityMissing

_DATA_UPLOAD: Final = "/DataUpload"
_PASSING: Final = (KMSUnavailable, AgePluginFailed)
_NOT_READ: Final = (*NOT_OPENED, *_PASSING)
"""Why the lists of an encrypted backup are not read, though they are as they should be."""
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


class _Files(msgspec.Struct, frozen=True, kw_only=True):
    """The lists of a backup that tell of its volumes.

    Attributes:
        listed: the list of resources.
        contents: the VolumeSnapshotContents.
        stored: the PodVolumeBackups.
    """

    records: BackupRecords
    listed: Mapping[str, Sequence[str]]
    contents: Sequence[JSONObject]
    stored: Sequence[JSONObject]


async def _read_files(store: BackupStore, backup: str) -> _Files:
    return _Files(
        records=await read_records(store, backup),
        listed=await store.read_resource_list(backup),
        contents=await store.read_csi_volume_snapshot_contents(backup),
        stored=await store.read_pod_volume_backups(backup),
    )


async def read_volumes(store: BackupStore, backup: str, workdir: Path | None) -> list[SavedVolume]:
    """All volumes of a backup that have, or may have, data outside of its files.

    The tarball is read only where no other file tells.

    Args:
        workdir: for the tarball; None for the system's temporary folder.

    Raises:
        StorageError: a file cannot be read.
        ArchiveError: the tarball, which alone names the CSI snapshots, is damaged.
    """
    return await _volumes(await _read_files(store, backup), backup, opened_tarball(store, backup, workdir))


async def read_deletable(store: BackupStore, backup: str, workdir: Path | None) -> list[SavedVolume]:
    """As `read_volumes`, for a deletion: of an encrypted backup that is not opened here by its plain list.

    Raises:
        IdentityMissing: it has no plain list.
    """
    try:
        return await read_volumes(store, backup, workdir)
    except _NOT_READ as error:
        return await _read_plain_list(store, backup, error)


async def _read_plain_list(store: BackupStore, backup: str, error: StorageError) -> list[SavedVolume]:
    """The data that the plain list of an encrypted backup names.

    Args:
        error: why its other files cannot be read.

    Raises:
        IdentityMissing: there is no plain list.
        KMSUnavailable, AgePluginFailed: there is none, and the other files can be read later.
        StorageError: it cannot be read, or is not as it was written.
    """
    key = store.plain_list_key(backup)
    try:
        data = await store.read_plain_list(backup, limit_bytes=MOST_PLAIN_LIST_BYTES)
        return await in_thread(decode_plain_list, data)
    except PlainListError as problem:
        raise UnreadableObject(key, str(problem)) from error
    except ObjectNotFound:
        if isinstance(error, _PASSING):
            raise error from None
        raise IdentityMissing(
            key,
            f"backup {backup!r} is encrypted and has no plain list of its volumes' data: an earlier version"
            " made it, or somebody removed the list. Delete it by a command with --location and"
            " --identity-file, which reads the encrypted lists",
        ) from error


async def plain_list_of(files: BackupFiles, workdir: Path) -> bytes:
    """The plain list of a backup that is about to be stored encrypted.

    Args:
        workdir: for its tarball.

    Raises:
        ArchiveError: the tarball is damaged.
        OSError: there is no room for it.
    """
    found = _Files(
        records=BackupRecords(
            native=files.snapshots,
            infos=files.volume_infos,
            operations=[dict(each) for each in files.item_operations],
        ),
        listed=files.resource_list,
        contents=[dict(each) for each in files.csi_volume_snapshot_contents or ()],
        stored=[dict(each) for each in files.pod_volume_backups],
    )
    volumes = await _volumes(found, files.name, opened_file(files.contents, workdir))
    return encode_plain_list(volumes)


async def plain_list_of_parked(store: BackupStore, backup: str, changed: FinalFiles, workdir: Path) -> bytes:
    """The plain list of an encrypted backup that waited for operations and is about to be finished.

    Args:
        store: with its parked files.
        changed: what has changed meanwhile.
        workdir: for its tarball.

    Raises:
        StorageError: a parked file cannot be read.
        ArchiveError, OSError: as for `plain_list_of`.
    """
    found = await _read_files(store, backup)
    if changed.volume_infos is not None:
        records = msgspec.structs.replace(found.records, infos=changed.volume_infos)
        found = msgspec.structs.replace(found, records=records)
    if changed.resource_list is not None:
        found = msgspec.structs.replace(found, listed=changed.resource_list)
    if changed.contents is not None:
        opening = opened_file(changed.contents, workdir)
    else:
        opening = opened_tarball(store, backup, workdir)
    return encode_plain_list(await _volumes(found, backup, opening))


async def _volumes(
    files: _Files, backup: str, opening: AbstractAsyncContextManager[ArchiveIndex | None]
) -> list[SavedVolume]:
    records, listed, contents, stored = files.records, files.listed, files.contents, files.stored
    in_tarball = not contents and any(key.startswith(GROUP) and key.endswith(_CSI_KINDS) for key in listed)
    uploads = dict.fromkeys(name for key in listed if key.endswith(_DATA_UPLOAD) for name in listed[key])
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


async def read_deletable_in_repositories(
    store: BackupStore,
    backup: str,
    workdir: Path | None,
    *,
    pod_volume_backups: Sequence[JSONObject] = (),
    data_uploads: Sequence[JSONObject] = (),
) -> list[SavedVolume]:
    """The volumes of pods and the moved volumes alone: by the backup's files, and by objects in a cluster.

    The files are those of `read_deletable`.

    Args:
        workdir: for the tarball; None for the system's temporary folder.
        pod_volume_backups, data_uploads: those of the cluster.

    Raises:
        IdentityMissing: the backup is encrypted, is not opened here, and has no plain list.
        StorageError: a file cannot be read.
    """
    try:
        records = BackupRecords(
            infos=await store.read_volume_infos(backup), operations=await store.read_item_operations(backup)
        )
        objects = [*pod_volume_backups, *await store.read_pod_volume_backups(backup)]
        async with _archive_for(records, opened_tarball(store, backup, workdir)) as archive:
            return _in_repositories(records, objects, archive, data_uploads)
    except _NOT_READ as error:
        named = await _read_plain_list(store, backup, error)
    listed = [each for each in named if each.way in (Way.MOVED, Way.POD_VOLUME)]
    known = {each.snapshot for each in listed}  # by its program, which objects of the cluster may lack
    live = [*pod_volumes(pod_volume_backups), *live_moved_volumes(data_uploads)]
    return [*listed, *(each for each in live if each.snapshot not in known)]


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
