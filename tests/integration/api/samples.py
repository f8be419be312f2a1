"""One object of every kind with as many fields set as possible, valid for the CRDs."""

from datetime import UTC, datetime

from msgspec import Struct

from pinnace.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta, ObjectReference
from pinnace.api.phases import BackupPhase, RestorePhase
from pinnace.api.values.durations import Duration
from pinnace.api.velero import backup as b
from pinnace.api.velero import backup_repository as br
from pinnace.api.velero import data_movement as dm
from pinnace.api.velero import restore as r
from pinnace.api.velero.delete_request import (
    DeleteBackupRequest,
    DeleteBackupRequestSpec,
    DeleteBackupRequestStatus,
)
from pinnace.api.velero.download_request import (
    DownloadRequest,
    DownloadRequestSpec,
    DownloadRequestStatus,
    DownloadTarget,
)
from pinnace.api.velero.pod_volume import (
    PodVolumeBackup,
    PodVolumeBackupSpec,
    PodVolumeBackupStatus,
    PodVolumeRestore,
    PodVolumeRestoreSpec,
    PodVolumeRestoreStatus,
)
from pinnace.api.velero.restic_repository import (
    ResticRepository,
    ResticRepositorySpec,
    ResticRepositoryStatus,
)
from pinnace.api.velero.schedule import Schedule, ScheduleSpec, ScheduleStatus
from pinnace.api.velero.server_status import PluginInfo, ServerStatusRequest, ServerStatusRequestStatus
from pinnace.api.velero.snapshot_location import (
    VolumeSnapshotLocation,
    VolumeSnapshotLocationSpec,
    VolumeSnapshotLocationStatus,
)
from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
    BackupStorageLocationSpec,
    BackupStorageLocationStatus,
    ObjectStorageLocation,
    SecretKeySelector,
)
from pinnace.api.velero.transfers import TransferProgress

MOMENT = datetime(2021, 8, 11, 21, 43, 26, tzinfo=UTC)
SELECTOR = LabelSelector(
    match_labels={"app": "web"},
    match_expressions=[LabelSelectorRequirement(key="tier", operator="In", values=["a", "b"])],
)
POD = ObjectReference(kind="Pod", namespace="ns", name="pod-1", uid="u-1")


def _meta() -> ObjectMeta:
    return ObjectMeta(name="sample", labels={"x": "y"}, annotations={"a": "b"})


def _backup_spec() -> b.BackupSpec:
    hook = b.ExecHook(container="c", command=["/bin/true"], on_error="Fail", timeout=Duration.seconds(90))
    group = b.BackupResourceHookSpec(
        name="h",
        included_namespaces=["a"],
        label_selector=SELECTOR,
        pre=[b.BackupResourceHook(exec=hook)],
        post=[b.BackupResourceHook(exec=hook)],
    )
    return b.BackupSpec(
        included_namespaces=["*"],
        excluded_namespaces=["kube-system"],
        included_resources=["pods"],
        excluded_resources=["secrets"],
        label_selector=SELECTOR,
        snapshot_volumes=False,
        ttl=Duration.hours(720),
        include_cluster_resources=True,
        hooks=b.BackupHooks(resources=[group]),
        storage_location="default",
        volume_snapshot_locations=["vsl-1"],
        default_volumes_to_restic=False,
        ordered_resources={"pods": "ns/pod-1,ns/pod-2"},
    )


def _backup() -> b.Backup:
    status = b.BackupStatus(
        version=1,
        format_version="1.1.0",
        expiration=MOMENT,
        phase=BackupPhase.COMPLETED,
        validation_errors=["x"],
        failure_reason="why",
        start_timestamp=MOMENT,
        completion_timestamp=MOMENT,
        volume_snapshots_attempted=2,
        volume_snapshots_completed=1,
        warnings=3,
        errors=4,
        progress=b.BackupProgress(total_items=5, items_backed_up=5),
    )
    return b.Backup(metadata=_meta(), spec=_backup_spec(), status=status)


def _restore() -> r.Restore:
    container = {
        "name": "init",
        "image": "i",
        "env": [{"name": "A", "value": "1"}],
        "securityContext": {"runAsUser": 1},
    }
    hook = r.ExecRestoreHook(command=["true"], on_error="Continue", wait_timeout=Duration.seconds(5))
    group = r.RestoreResourceHookSpec(
        name="h",
        post_hooks=[
            r.RestoreResourceHook(exec=hook),
            r.RestoreResourceHook(init=r.InitRestoreHook(init_containers=[container])),
            r.RestoreResourceHook(init=r.InitRestoreHook()),
        ],
    )
    spec = r.RestoreSpec(
        schedule_name="s",
        included_namespaces=["*"],
        excluded_resources=["nodes"],
        namespace_mapping={"a": "b"},
        label_selector=LabelSelector(),
        restore_pvs=True,
        preserve_node_ports=False,
        hooks=r.RestoreHooks(resources=[group]),
    )
    status = r.RestoreStatus(
        phase=RestorePhase.FAILED,
        failure_reason="why",
        start_timestamp=MOMENT,
        progress=r.RestoreProgress(total_items=2, items_restored=1),
    )
    return r.Restore(metadata=_meta(), spec=spec, status=status)


def _locations() -> list[Struct]:
    storage = BackupStorageLocationSpec(
        provider="aws",
        config={"region": "minio"},
        credential=SecretKeySelector(name="s", key="cloud"),
        object_storage=ObjectStorageLocation(bucket="b", prefix="p", ca_cert=b"cert"),
        default=True,
        access_mode="ReadWrite",
        backup_sync_period=Duration(),
        validation_frequency=Duration.minutes(1),
    )
    storage_status = BackupStorageLocationStatus(
        phase="Unavailable", last_validation_time=MOMENT, message="no such bucket"
    )
    return [
        BackupStorageLocation(metadata=_meta(), spec=storage, status=storage_status),
        VolumeSnapshotLocation(
            metadata=_meta(),
            spec=VolumeSnapshotLocationSpec(provider="aws", config={"region": "x"}),
            status=VolumeSnapshotLocationStatus(phase="Available"),
        ),
    ]


def _pod_volumes() -> list[Struct]:
    progress = TransferProgress(total_bytes=2**62, bytes_done=1)
    return [
        PodVolumeBackup(
            metadata=_meta(),
            spec=PodVolumeBackupSpec(pod=POD, volume="v", backup_storage_location="b", tags={"ns": "ns"}),
            status=PodVolumeBackupStatus(
                phase="Completed", path="/p", snapshot_id="abc", start_timestamp=MOMENT, progress=progress
            ),
        ),
        PodVolumeRestore(
            metadata=_meta(),
            spec=PodVolumeRestoreSpec(pod=POD, volume="v", snapshot_id="abc"),
            status=PodVolumeRestoreStatus(phase="Failed", message="m", progress=progress),
        ),
        ResticRepository(
            metadata=_meta(),
            spec=ResticRepositorySpec(volume_namespace="ns", maintenance_frequency=Duration.hours(168)),
            status=ResticRepositoryStatus(phase="NotReady", message="m", last_maintenance_time=MOMENT),
        ),
        br.BackupRepository(
            metadata=_meta(),
            spec=br.BackupRepositorySpec(
                volume_namespace="ns", repository_type="kopia", repository_config={"cacheLimitMB": "9"}
            ),
            status=br.BackupRepositoryStatus(
                phase="Ready",
                recent_maintenance=[
                    br.RepositoryMaintenance(result="Succeeded", start_timestamp=MOMENT, message="m")
                ],
            ),
        ),
    ]


def _movements() -> list[Struct]:
    progress = TransferProgress(total_bytes=2**62, bytes_done=1)
    snapshot = dm.CSISnapshotSpec(volume_snapshot="s", storage_class="c", driver="d")
    return [
        dm.DataUpload(
            metadata=_meta(),
            spec=dm.DataUploadSpec(snapshot_type="CSI", csi_snapshot=snapshot, source_pvc="p", cancel=True),
            status=dm.DataUploadStatus(
                phase="Accepted", snapshot_id="i", progress=progress, node_os="linux", incremental_bytes=1
            ),
        ),
        dm.DataDownload(
            metadata=_meta(),
            spec=dm.DataDownloadSpec(
                target_volume=dm.TargetVolume(pvc="c", pv="v", namespace="n"), snapshot_size=2**62
            ),
            status=dm.DataDownloadStatus(phase="Canceled", progress=progress, accepted_timestamp=MOMENT),
        ),
    ]


def _requests() -> list[Struct]:
    return [
        DeleteBackupRequest(
            metadata=_meta(),
            spec=DeleteBackupRequestSpec(backup_name="b"),
            status=DeleteBackupRequestStatus(phase="Processed", errors=["e"]),
        ),
        DownloadRequest(
            metadata=_meta(),
            spec=DownloadRequestSpec(target=DownloadTarget(kind="RestoreResults", name="r")),
            status=DownloadRequestStatus(phase="Processed", download_url="https://x/y?z", expiration=MOMENT),
        ),
        ServerStatusRequest(
            metadata=_meta(),
            status=ServerStatusRequestStatus(
                phase="Processed",
                processed_timestamp=MOMENT,
                server_version="v1",
                plugins=[PluginInfo(name="velero.io/pod", kind="BackupItemAction")],
            ),
        ),
    ]


def samples() -> list[Struct]:
    """One object of every kind, without a namespace."""
    schedule = Schedule(
        metadata=_meta(),
        spec=ScheduleSpec(
            template=_backup_spec(), schedule="@every 1h", use_owner_references_in_backup=False
        ),
        status=ScheduleStatus(phase="Enabled", last_backup=MOMENT, validation_errors=["x"]),
    )
    return [_backup(), _restore(), schedule, *_locations(), *_pod_volumes(), *_movements(), *_requests()]
