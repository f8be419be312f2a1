"""Backups with each way of saving volume data, by each writer, and the data that every consumer must find."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from pinnace.age.recipients import Recipient
from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.snapshots import VolumeSnapshot, VolumeSnapshotSpec, VolumeSnapshotStatus
from pinnace.api.volume_info import BackupVolumeInfo, CSISnapshotInfo, DataMovementInfo, PodVolumeInfo
from pinnace.catalogue.reading import plain_list_of
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from tests.support.stores import golden
from tests.unit.restore.world import obj, pod, tarball_of

NAME = "b1"
Claim = tuple[str, str]
InRepository = tuple[str, str, str]
"""Uploader, namespace, id of the snapshot."""


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One backup, and its volume data.

    Attributes:
        archive, backup: a bucket that a real server wrote, and its backup; empty if `files` tell it.
        files: fields of `BackupFiles`.
        items, raw: the items of its tarball, as objects and by path.
        live: PodVolumeBackups and DataUploads in the cluster, by plural.
        repository: the snapshots in repositories.
        only_live: those that only objects of the cluster name.
        csi: driver, handle and Secret of the CSI snapshots.
        native: ids of the native snapshots.
        left: the data that may be there and cannot be deleted, as a message names it.
        lost: why the data of claims is not restored, by a server that can restore everything.
        lost_without: the same, by a command without a server and without the feature for CSI snapshots.
        moved: the snapshots of the moved data that is restored.
        snapshotted: the claims whose old volumes are never restored.
        pods: uploader, snapshot and size of the volumes of pods.
    """

    title: str
    archive: str = ""
    backup: str = NAME
    files: Mapping[str, Any] = {}
    items: Sequence[JSONObject] = ()
    raw: Mapping[str, bytes] = {}
    live: Mapping[str, Sequence[JSONObject]] = {}
    repository: frozenset[InRepository] = frozenset()
    only_live: frozenset[InRepository] = frozenset()
    csi: frozenset[tuple[str, str, tuple[str, str] | None]] = frozenset()
    native: frozenset[str] = frozenset()
    left: tuple[str, ...] = ()
    lost: Mapping[Claim, str] = {}
    lost_without: Mapping[Claim, str] = {}
    moved: Mapping[Claim, str] = {}
    snapshotted: frozenset[Claim] = frozenset()
    pods: Mapping[str, Mapping[str, tuple[str, str, int]]] = {}

    async def store(self, folder: Path, unpacked: Path) -> BackupStore:
        """The location that has the backup; buckets of real servers are below `unpacked`."""
        if self.archive:
            bucket = unpacked / self.archive / "bucket"
            if not bucket.exists():
                golden.unpack(self.archive, unpacked / self.archive)
            return BackupStore(FilesystemStore(bucket), Layout(""), location="default")
        (folder / "bucket").mkdir()
        store = BackupStore(FilesystemStore(folder / "bucket"), Layout(""), location="default")
        metadata = encode_metadata(Backup(metadata=ObjectMeta(name=NAME)))
        contents = await tarball_of(folder, self.items, files=self.raw)
        await store.put_backup(BackupFiles(name=NAME, metadata=metadata, contents=contents, **self.files))
        return store

    async def encrypted(self, folder: Path, plain: BackupStore, recipient: Recipient) -> BackupStore:
        """A location that has the backup of a plain one for that recipient, as a run would have stored it."""
        (folder / "encrypted").mkdir()
        store = BackupStore(FilesystemStore(folder / "encrypted"), Layout(""), location="default")
        store = store.encrypted(Encryption(recipients=(recipient,)))
        name, contents = self.backup, folder / "plain.tar.gz"
        await plain.download_contents(name, contents)
        files = BackupFiles(
            name=name,
            metadata=await plain.get_metadata(name),
            contents=contents,
            pod_volume_backups=await plain.read_pod_volume_backups(name),
            snapshots=await plain.read_snapshots(name),
            resource_list=await plain.read_resource_list(name),
            csi_volume_snapshot_contents=await plain.read_csi_volume_snapshot_contents(name),
            volume_infos=await plain.read_volume_infos(name),
            item_operations=await plain.read_item_operations(name),
        )
        await store.put_backup(replace(files, plain_list=await plain_list_of(files, folder)))
        return store.encrypted(Encryption())  # another process, which has no key


def saved(
    name: str,
    snapshot: str = "",
    uploader: str = "",
    phase: str = "Completed",
    namespace: str = "shop",
) -> JSONObject:
    """A PodVolumeBackup of volume `data` of a pod."""
    uploaded = {"uploaderType": uploader} if uploader else {}
    return {
        "apiVersion": "velero.io/v1",
        "kind": "PodVolumeBackup",
        "metadata": {"name": f"{NAME}-{name}", "namespace": "velero", "annotations": {labels.PVC_NAME: name}},
        "spec": {
            "node": "n",
            "pod": {"kind": "Pod", "namespace": namespace, "name": name},
            "volume": "data",
            "backupStorageLocation": "default",
            "repoIdentifier": "x",
            **uploaded,
        },
        "status": {"phase": phase, "snapshotID": snapshot, "progress": {"totalBytes": 5, "bytesDone": 5}},
    }


def mounting(name: str, **annotations: str) -> JSONObject:
    """A pod with the volume `data`, which a claim of the pod's name fills."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    return pod(name, "shop", spec={"volumes": [volume]}, annotations=annotations)


def record(name: str, **fields: Any) -> BackupVolumeInfo:
    return BackupVolumeInfo(pvc_namespace="shop", pvc_name=name, pv_name=f"pv-{name}", **fields)


def by_pod(name: str, snapshot: str, uploader: str) -> BackupVolumeInfo:
    info = PodVolumeInfo(
        snapshot_handle=snapshot,
        uploader_type=uploader,
        pod_name=name,
        pod_namespace="shop",
        volume_name="data",
    )
    return record(name, backup_method="PodVolumeBackup", pvb_info=info)


def by_csi(name: str, handle: str, driver: str = "d") -> BackupVolumeInfo:
    info = CSISnapshotInfo(snapshot_handle=handle, driver=driver)
    return record(name, backup_method="CSISnapshot", csi_snapshot_info=info)


def by_mover(name: str) -> BackupVolumeInfo:
    return record(
        name,
        backup_method="CSISnapshot",
        snapshot_data_moved=True,
        csi_snapshot_info=CSISnapshotInfo(snapshot_handle="unknown", driver="unknown"),
        snapshot_data_movement_info=DataMovementInfo(data_mover="velero", operation_id=f"du-{name}"),
    )


def uploading(name: str, upload: str = "") -> JSONObject:
    """The item operation that moved the data of a claim."""
    made = {"Group": "velero.io", "Resource": "datauploads", "Namespace": "velero", "Name": upload or name}
    about = {"Group": "", "Resource": "persistentvolumeclaims", "Namespace": "shop", "Name": name}
    return {
        "spec": {
            "backupName": NAME,
            "operationID": f"du-{name}",
            "resourceIdentifier": about,
            "postOperationItems": [made],
        }
    }


def upload(
    name: str,
    snapshot: str = "",
    *,
    mover: str = "",
    phase: str = "Completed",
    of: str = "",
    by: str = NAME,
) -> JSONObject:
    """The DataUpload of a claim, by one backup."""
    return obj(
        "DataUpload",
        name,
        "velero",
        api_version="velero.io/v2alpha1",
        labels={labels.BACKUP_NAME: by},
        spec={"sourcePVC": of or name, "sourceNamespace": "shop", "datamover": mover},
        status={"phase": phase, "snapshotID": snapshot, "message": "no" if phase == "Failed" else ""},
    )


def file_of(*uploads: JSONObject) -> dict[str, bytes]:
    return {
        f"resources/datauploads.velero.io/namespaces/velero/{each['metadata']['name']}.json": orjson.dumps(
            each
        )
        for each in uploads
    }


def snapshot_files(name: str, handle: str, of: str = NAME) -> dict[str, bytes]:
    """The VolumeSnapshot of a claim and its content, as the tarballs of Velero 1.6 to 1.13 have them."""
    marks = {labels.BACKUP_NAME: of}
    notes = {
        labels.CSI_SNAPSHOT_HANDLE: handle,
        labels.CSI_DRIVER_NAME: "d",
        f"{labels.CSI_NOTED_DELETION_SECRET}-name": "s",
        f"{labels.CSI_NOTED_DELETION_SECRET}-namespace": "kube-system",
    }
    snapshot = {
        "metadata": {"name": f"vs-{name}", "namespace": "shop", "labels": marks, "annotations": notes},
        "spec": {"source": {"persistentVolumeClaimName": name}},
        "status": {"boundVolumeSnapshotContentName": f"vsc-{name}"},
    }
    group = "snapshot.storage.k8s.io"
    return {
        f"resources/volumesnapshots.{group}/namespaces/shop/vs-{name}.json": orjson.dumps(snapshot),
        f"resources/volumesnapshotcontents.{group}/cluster/vsc-{name}.json": orjson.dumps(
            content(name, handle, of)
        ),
    }


def content(name: str, handle: str, of: str = NAME) -> JSONObject:
    return {
        "metadata": {
            "name": f"vsc-{name}",
            "labels": {labels.BACKUP_NAME: of},
            "annotations": {
                f"{labels.CSI_DELETION_SECRET}-name": "s",
                f"{labels.CSI_DELETION_SECRET}-namespace": "kube-system",
            },
        },
        "spec": {"driver": "d", "volumeSnapshotRef": {"namespace": "shop", "name": f"vs-{name}"}},
        "status": {"snapshotHandle": handle},
    }


LISTED = {
    "snapshot.storage.k8s.io/v1/VolumeSnapshot": ["shop/vs-data"],
    "snapshot.storage.k8s.io/v1/VolumeSnapshotContent": ["vsc-data"],
}
SECRET = ("kube-system", "s")
DATA, LOGS = ("shop", "data"), ("shop", "logs")


def native(snapshot: str, volume: str = "pv-data") -> VolumeSnapshot:
    spec = VolumeSnapshotSpec(backup_name=NAME, location="aws", persistent_volume_name=volume)
    status = VolumeSnapshotStatus(provider_snapshot_id=snapshot, phase="Completed" if snapshot else "Failed")
    return VolumeSnapshot(spec=spec, status=status)


def in_repository(*ids: str, uploader: str = "kopia", namespace: str = "shop") -> frozenset[InRepository]:
    return frozenset((uploader, namespace, each) for each in ids)
