"""The snapshots of a backup, in clouds and in storage systems. Pure. (docs/spec: CTL 6.5, BEY 3.2, 7.6)"""

from collections.abc import Iterable, Iterator
from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.api.volume_info import BackupMethod, BackupVolumeInfo
from pinnace.archive.reader import ArchiveIndex
from pinnace.catalogue.tarball import read_item, stored_objects
from pinnace.catalogue.volumes import UNKNOWN, Claim, Place, SavedVolume, Way
from pinnace.csi import snapshots as csi
from pinnace.csi.deletion import StoredSnapshot

_UNKNOWN: Final = "unknown"
"""Written by later Velero in place of a handle that no longer exists. (docs/spec: BEY 3.6)"""


def native_snapshots(records: Iterable[VolumeSnapshot]) -> Iterator[SavedVolume]:
    """The native snapshots; a record without an id is of one that was never made."""
    for record in records:
        if snapshot := record.status.provider_snapshot_id:
            yield SavedVolume(
                way=Way.NATIVE_SNAPSHOT,
                place=Place.CLOUD,
                title=f"volume snapshot {snapshot}",
                snapshot=snapshot,
                record=record,
            )


def csi_snapshots(
    contents: Iterable[JSONObject], infos: Iterable[BackupVolumeInfo], made: Iterable[StoredSnapshot] = ()
) -> list[SavedVolume]:
    """The CSI snapshots, each once, by the record that tells most of it.

    Args:
        contents: the VolumeSnapshotContents in the location, not checked.
        made: those that the tarball names.
    """
    found: dict[tuple[str, str], SavedVolume] = {}
    snapshots = [(stored, UNKNOWN) for each in contents if (stored := _of_content(each)) is not None]
    snapshots += [(stored, UNKNOWN) for stored in made]
    for stored, claim in (*snapshots, *_of_infos(infos)):
        found.setdefault((stored.driver, stored.handle), csi_volume(stored, claim))
    return list(found.values())


def csi_volume(stored: StoredSnapshot, claim: Claim = UNKNOWN) -> SavedVolume:
    """The volume in a CSI snapshot."""
    return SavedVolume(
        way=Way.CSI_SNAPSHOT,
        place=Place.STORAGE_SYSTEM,
        title=str(stored),
        claim=claim,
        snapshot=stored.handle,
        record=stored,
    )


def claims_in_snapshots(
    archive: ArchiveIndex, infos: Iterable[BackupVolumeInfo], backup: str
) -> list[SavedVolume]:
    """The claims with CSI snapshots, for a restore, which needs the VolumeSnapshot of each."""
    restorable = _claims_with_snapshots(archive, backup)
    handles = dict.fromkeys(restorable, "")
    for info in infos:
        if info.backup_method == BackupMethod.CSI_SNAPSHOT and not info.snapshot_data_moved:
            handles[info.claim] = info.csi_snapshot_info.snapshot_handle if info.csi_snapshot_info else ""
    return [
        SavedVolume(
            way=Way.CSI_SNAPSHOT,
            place=Place.STORAGE_SYSTEM,
            title=f"the CSI snapshot {handle}" if handle else "a CSI snapshot",
            claim=claim,
            snapshot=handle,
            lacks=""
            if claim in restorable
            else f"it is in the CSI snapshot {handle}, and the backup has no VolumeSnapshot",
        )
        for claim, handle in handles.items()
    ]


def _claims_with_snapshots(archive: ArchiveIndex, backup: str) -> frozenset[Claim]:
    """The claims whose usable VolumeSnapshots are in the tarball."""
    found = set()
    for namespace in archive.namespaces(csi.SNAPSHOTS):
        for name in archive.names(csi.SNAPSHOTS, namespace):
            snapshot = read_item(archive, csi.SNAPSHOTS, namespace, name)
            maker = mapping(snapshot, "metadata", "labels").get(labels.BACKUP_NAME)
            handle = mapping(snapshot, "metadata", "annotations").get(labels.CSI_SNAPSHOT_HANDLE)
            if handle and maker == labels.label_value(backup):
                found.add((namespace, text(snapshot, "spec", "source", "persistentVolumeClaimName")))
    return frozenset(found)


def snapshots_made_by(archive: ArchiveIndex, backup: str) -> Iterator[StoredSnapshot]:
    """The CSI snapshots that a backup took, by its tarball; some tarballs hold those of users too."""
    contents = {obj["metadata"]["name"]: obj for obj in _objects(archive, csi.CONTENTS)}
    wanted = {name for name, obj in contents.items() if csi.is_of_backup(obj, backup)}
    for snapshot in _objects(archive, csi.SNAPSHOTS):
        if not csi.is_of_backup(snapshot, backup):
            continue
        notes = csi.annotations_of(snapshot)
        handle = text(notes, labels.CSI_SNAPSHOT_HANDLE)
        driver = text(notes, labels.CSI_DRIVER_NAME)
        if handle and driver:
            yield StoredSnapshot(
                driver=driver,
                handle=handle,
                deletion_secret=csi.secret_named_by(snapshot, labels.CSI_NOTED_DELETION_SECRET),
                manager_label=csi.manager_label(contents.get(csi.bound_content(snapshot), {})),
            )
        wanted.add(csi.bound_content(snapshot))
    for name in sorted(wanted & contents.keys()):
        if (stored := _of_content(contents[name])) is not None:
            yield stored


def _of_content(content: JSONObject) -> StoredSnapshot | None:
    try:
        handle, driver = csi.handle_of(content), str((content.get("spec") or {}).get("driver") or "")
        secret, manager = csi.secret_named_by(content, labels.CSI_DELETION_SECRET), csi.manager_label(content)
    except (TypeError, AttributeError):
        return None  # no API server would have stored it
    if not handle or not driver:
        return None
    return StoredSnapshot(driver=driver, handle=handle, deletion_secret=secret, manager_label=manager)


def _of_infos(infos: Iterable[BackupVolumeInfo]) -> Iterator[tuple[StoredSnapshot, Claim]]:
    for info in infos:
        of_snapshot = info.csi_snapshot_info
        if info.backup_method != BackupMethod.CSI_SNAPSHOT or info.snapshot_data_moved or of_snapshot is None:
            continue
        handle, driver = of_snapshot.snapshot_handle, of_snapshot.driver
        if handle and driver and _UNKNOWN not in (handle, driver):
            yield StoredSnapshot(driver=driver, handle=handle), info.claim


def _objects(archive: ArchiveIndex, group_resource: str) -> Iterator[JSONObject]:
    """The objects of a kind that have the structure of stored objects."""
    return filter(_is_object, stored_objects(archive, group_resource))


def _is_object(obj: JSONObject) -> bool:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not text(metadata, "name"):
        return False
    dicts = (obj.get("status"), metadata.get("labels"), metadata.get("annotations"))
    return all(isinstance(each, dict | None) for each in dicts)
