"""Reads the data that a backup has of its volumes from its location, for deletion and verification.

(docs/adr/021, 112, docs/spec: CTL 6.2, BEY 3.2, 6.6, 7.6)
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from pinnace.api.objects import JSONObject
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.archive.errors import ArchiveError
from pinnace.catalogue.moved import live_moved_volumes, moved_claims, moved_volumes, without_record
from pinnace.catalogue.pod_volumes import pod_volumes
from pinnace.catalogue.records import BackupRecords
from pinnace.catalogue.snapshots import csi_snapshots, native_snapshots, snapshots_made_by
from pinnace.catalogue.tarball import Tarball, read_item
from pinnace.catalogue.volumes import UNKNOWN, SavedVolume, Way
from pinnace.csi.deletion import StoredSnapshot
from pinnace.csi.snapshots import GROUP
from pinnace.storage.backup_store import BackupStore

_DATA_UPLOAD: Final = "/DataUpload"
_CSI_KINDS: Final = ("/VolumeSnapshot", "/VolumeSnapshotContent")


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a backup in a cluster; none without one."""

    pod_volume_backups: Sequence[JSONObject] = ()
    data_uploads: Sequence[JSONObject] = ()


async def read_records(store: BackupStore, backup: str) -> BackupRecords:
    """The records beside the tarball, without those of the volumes of pods. Raises StorageError."""
    return BackupRecords(
        native=await store.read_snapshots(backup),
        infos=await store.read_volume_infos(backup),
        operations=await store.read_item_operations(backup),
    )


async def read_volumes(store: BackupStore, backup: str, workdir: Path | None) -> list[SavedVolume]:
    """All volumes of a backup that have data outside of its files, or of which that is not certain.

    The tarball is read only where no other file tells.

    Args:
        workdir: for the tarball; None for the system's temporary folder.

    Raises:
        StorageError: a file cannot be read.
        ArchiveError: the tarball, which alone names the CSI snapshots, is damaged.
    """
    infos = await store.read_volume_infos(backup)
    listed = await store.read_resource_list(backup)
    contents = await store.read_csi_volume_snapshot_contents(backup)
    made: list[StoredSnapshot] = []
    async with Tarball(store, backup, workdir) as tarball:
        if not contents and any(key.startswith(GROUP) and key.endswith(_CSI_KINDS) for key in listed):
            archive = await tarball.archive()
            made = list(snapshots_made_by(archive, backup)) if archive is not None else []
        in_repositories = await _in_repositories(store, backup, infos, tarball, Live())
    found = [
        *native_snapshots(await store.read_snapshots(backup)),
        *csi_snapshots(contents, infos, made),
        *in_repositories,
    ]
    if not any(each.way == Way.MOVED for each in found):
        uploads = [name for key in listed if key.endswith(_DATA_UPLOAD) for name in listed[key]]
        found += [without_record(UNKNOWN, f"DataUpload {name}") for name in dict.fromkeys(uploads)]
    return found


async def read_volumes_in_repositories(
    store: BackupStore, backup: str, workdir: Path | None, live: Live
) -> list[SavedVolume]:
    """The volumes of pods and the moved volumes alone: by the backup's files, and by objects in a cluster.

    Args:
        workdir: for the tarball; None for the system's temporary folder.

    Raises:
        StorageError: a file cannot be read.
    """
    infos = await store.read_volume_infos(backup)
    async with Tarball(store, backup, workdir) as tarball:
        return await _in_repositories(store, backup, infos, tarball, live)


async def _in_repositories(
    store: BackupStore, backup: str, infos: Sequence[BackupVolumeInfo], tarball: Tarball, live: Live
) -> list[SavedVolume]:
    objects = [*live.pod_volume_backups, *await store.read_pod_volume_backups(backup)]
    operations = await store.read_item_operations(backup)
    archive = None
    if moved_claims(infos, operations):
        with suppress(ArchiveError):  # each claim is then one whose data cannot be deleted
            archive = await tarball.archive()
    moved = moved_volumes(infos, operations, partial(read_item, archive) if archive is not None else _no_item)
    found = [*pod_volumes(objects, infos, objects), *live_moved_volumes(live.data_uploads), *moved.values()]
    # Of several records of one snapshot the first counts.
    once = {(each.uploader, each.namespace, each.snapshot or each.title): each for each in reversed(found)}
    return list(reversed(once.values()))


def _no_item(_group_resource: str, _namespace: str, _name: str) -> None:
    return None
