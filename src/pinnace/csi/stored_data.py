"""The volume data of one backup that a deletion has to delete, read from the files in its location.

(docs/adr/021, docs/spec: CTL 6.2, BEY 3.2, 6.6, 7.6)
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import orjson

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.velero.pod_volume import KOPIA, RESTIC
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.api.volume_info import BackupMethod, BackupVolumeInfo, moved_claims
from pinnace.archive.errors import ArchiveError
from pinnace.archive.reader import ArchiveIndex
from pinnace.csi import snapshots as csi
from pinnace.csi.deletion import StoredSnapshot
from pinnace.csi.movement.objects import MovedVolume
from pinnace.csi.movement.stored import Claim, NotMoved, moved_volumes
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound

_DATA_UPLOAD: Final = "/DataUpload"
_CSI_KINDS: Final = ("/VolumeSnapshot", "/VolumeSnapshotContent")
_UNKNOWN: Final = "unknown"
"""Written by later Velero in place of a handle that no longer exists. (docs/spec: BEY 3.6)"""


class SavedPodVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot in a repository of files of a pod's volume."""

    uploader: str
    snapshot: str
    namespace: str
    pod: str = ""
    volume: str = ""

    def __str__(self) -> str:
        of_pod = f" of volume {self.volume} of pod {self.namespace}/{self.pod}" if self.pod else ""
        return f"{self.uploader} snapshot {self.snapshot}{of_pod}"


class StoredVolumeData(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a backup outside its own folder.

    Attributes:
        native: the records of native snapshots that were taken.
        moved: descriptions of the data that a data mover saved in a kopia repository.
    """

    native: Sequence[VolumeSnapshot] = ()
    csi: Sequence[StoredSnapshot] = ()
    pod_volumes: Sequence[SavedPodVolume] = ()
    moved: Sequence[str] = ()


async def read_volume_data(store: BackupStore, backup: str, workdir: Path | None) -> StoredVolumeData:
    """Read the backup's files; the tarball only if no other file names its CSI snapshots.

    Args:
        workdir: for the tarball; None for the system's temporary folder.

    Raises:
        StorageError: a file cannot be read.
        ArchiveError: the tarball is damaged.
    """
    infos = await store.read_volume_infos(backup)
    listed = await store.read_resource_list(backup)
    contents = await store.read_csi_volume_snapshot_contents(backup)
    snapshots = [stored for content in contents if (stored := _of_content(content)) is not None]
    if not contents and any(key.startswith(csi.GROUP) and key.endswith(_CSI_KINDS) for key in listed):
        snapshots += await _in_tarball(store, backup, workdir)
    snapshots += _of_infos(infos)
    unique: dict[str, StoredSnapshot] = {}
    for snapshot in snapshots:  # the first has the most details
        unique.setdefault(f"{snapshot.driver}/{snapshot.handle}", snapshot)
    operations = await store.read_item_operations(backup)
    claims = list(moved_claims(infos, operations))
    volumes = await moved_volumes_of(store, backup, operations, workdir) if claims else {}
    moved = [
        f"claim {namespace}/{name}" for namespace, name in claims if _is_left((namespace, name), volumes)
    ]
    if not claims:
        moved = [f"DataUpload {name}" for key in listed if key.endswith(_DATA_UPLOAD) for name in listed[key]]
    return StoredVolumeData(
        native=[each for each in await store.read_snapshots(backup) if each.status.provider_snapshot_id],
        csi=list(unique.values()),
        pod_volumes=[
            *saved_pod_volumes(await store.read_pod_volume_backups(backup), infos),
            *saved_moved_volumes(volumes),
        ],
        moved=list(dict.fromkeys(moved)),
    )


async def moved_volumes_of(
    store: BackupStore, backup: str, operations: Sequence[JSONObject], workdir: Path | None
) -> dict[Claim, MovedVolume | NotMoved]:
    """The data that a backup moved, by claim, as its tarball tells; none if it cannot be read.

    Raises:
        StorageError: the tarball cannot be fetched.
    """
    with tempfile.TemporaryDirectory(prefix="deletion-", dir=workdir) as folder:
        path = Path(folder) / "contents.tar.gz"
        try:
            await store.download_contents(backup, path)
        except ObjectNotFound:
            return {}
        try:
            with await ArchiveIndex.open(path, Path(folder)) as archive:
                return moved_volumes(operations, partial(read_item, archive))
        except ArchiveError:
            return {}  # each claim is then reported as one whose data cannot be deleted


def saved_moved_volumes(volumes: Mapping[Claim, MovedVolume | NotMoved]) -> list[SavedPodVolume]:
    """The snapshots of moved data, which are in the same repositories as those of pod volumes."""
    stored = (each if isinstance(each, MovedVolume) else each.in_repository for each in volumes.values())
    return [
        SavedPodVolume(uploader=KOPIA, snapshot=volume.snapshot, namespace=volume.source_namespace)
        for volume in stored
        if volume is not None
    ]


def _is_left(claim: Claim, volumes: Mapping[Claim, MovedVolume | NotMoved]) -> bool:
    """Whether moved data of a claim may be there that cannot be deleted."""
    found = volumes.get(claim)
    return found is None or (isinstance(found, NotMoved) and not found.is_known)


def read_item(archive: ArchiveIndex, group_resource: str, namespace: str, name: str) -> JSONObject | None:
    """Read an object of a tarball; None if it cannot be read."""
    try:
        obj = orjson.loads(archive.read(group_resource, namespace, name))
    except (ArchiveError, orjson.JSONDecodeError):
        return None
    return obj if isinstance(obj, dict) else None


def saved_pod_volumes(
    objects: Iterable[JSONObject], infos: Iterable[BackupVolumeInfo] = ()
) -> list[SavedPodVolume]:
    """The snapshots that PodVolumeBackups name, each once.

    The uploader may be named in any of them: a cluster whose definition lacks the field drops it.
    """
    found: dict[str, SavedPodVolume] = {}
    uploaders: dict[str, str] = {}
    for info in infos:
        if info.pvb_info is not None and info.pvb_info.uploader_type:
            uploaders[info.pvb_info.snapshot_handle] = info.pvb_info.uploader_type
    for obj in objects:
        spec, snapshot = _mapping(obj.get("spec")), _text(_mapping(obj.get("status")).get("snapshotID"))
        if not snapshot:
            continue
        if uploader := _text(spec.get("uploaderType")):
            uploaders[snapshot] = uploader
        pod = _mapping(spec.get("pod"))
        saved = SavedPodVolume(
            uploader=RESTIC,
            snapshot=snapshot,
            namespace=_text(pod.get("namespace")),
            pod=_text(pod.get("name")),
            volume=_text(spec.get("volume")),
        )
        found.setdefault(snapshot, saved)
    return [
        msgspec.structs.replace(each, uploader=uploaders.get(each.snapshot, RESTIC))
        for each in found.values()
    ]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _of_content(content: JSONObject) -> StoredSnapshot | None:
    try:
        handle, driver = csi.handle_of(content), str((content.get("spec") or {}).get("driver") or "")
        secret, manager = csi.secret_named_by(content, labels.CSI_DELETION_SECRET), csi.manager_label(content)
    except (TypeError, AttributeError):
        return None  # no API server would have stored it
    if not handle or not driver:
        return None
    return StoredSnapshot(driver=driver, handle=handle, deletion_secret=secret, manager_label=manager)


def _of_infos(infos: Iterable[BackupVolumeInfo]) -> Iterator[StoredSnapshot]:
    for info in infos:
        of_snapshot = info.csi_snapshot_info
        if info.backup_method != BackupMethod.CSI_SNAPSHOT or info.snapshot_data_moved or of_snapshot is None:
            continue
        handle, driver = of_snapshot.snapshot_handle, of_snapshot.driver
        if handle and driver and _UNKNOWN not in (handle, driver):
            yield StoredSnapshot(driver=driver, handle=handle)


async def _in_tarball(store: BackupStore, backup: str, workdir: Path | None) -> list[StoredSnapshot]:
    """The snapshots that the backup took; those of users, which some tarballs hold too, are kept."""
    with tempfile.TemporaryDirectory(prefix="deletion-", dir=workdir) as folder:
        path = Path(folder) / "contents.tar.gz"
        try:
            await store.download_contents(backup, path)
        except ObjectNotFound:
            return []
        with await ArchiveIndex.open(path, Path(folder)) as archive:
            return list(_made_by(archive, backup))


def _made_by(archive: ArchiveIndex, backup: str) -> Iterator[StoredSnapshot]:
    contents = {obj["metadata"]["name"]: obj for obj in _objects(archive, csi.CONTENTS)}
    wanted = {name for name, obj in contents.items() if csi.is_of_backup(obj, backup)}
    for snapshot in _objects(archive, csi.SNAPSHOTS):
        if not csi.is_of_backup(snapshot, backup):
            continue
        notes = csi.annotations_of(snapshot)
        handle = _text(notes.get(labels.CSI_SNAPSHOT_HANDLE))
        driver = _text(notes.get(labels.CSI_DRIVER_NAME))
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


def _objects(archive: ArchiveIndex, group_resource: str) -> Iterator[JSONObject]:
    """The objects of a kind that have the structure of stored objects."""
    for namespace in archive.namespaces(group_resource):
        for name in archive.names(group_resource, namespace):
            try:
                obj = orjson.loads(archive.read(group_resource, namespace, name))
            except (ArchiveError, orjson.JSONDecodeError):
                continue
            if _is_object(obj):
                yield obj


def _is_object(obj: object) -> bool:
    if not isinstance(obj, dict) or not isinstance(obj.get("status"), dict | None):
        return False
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return False
    return all(isinstance(metadata.get(key), dict | None) for key in ("labels", "annotations"))
