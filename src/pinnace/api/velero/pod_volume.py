"""PodVolumeBackup and PodVolumeRestore: one volume of one pod, saved or restored by its node's agent.

(docs/spec: API 7)
"""

from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pinnace.api import API_VERSION
from pinnace.api.fields import ENUM_KEY, NULLABLE, REQUIRED, Int64, NullableTime
from pinnace.api.meta import ObjectMeta, ObjectReference
from pinnace.api.velero.transfers import TransferPhase, TransferProgress

RESTIC: Final = "restic"
KOPIA: Final = "kopia"
"""The uploaders whose snapshots this version makes and restores."""


class PodVolumeBackupSpec(Struct, rename="camel", kw_only=True):
    """Which volume to save, and where.

    Attributes:
        node: The node that the pod runs on.
        pod: The pod that has the volume.
        volume: Name of the volume in the pod.
        backup_storage_location: The location that holds the repository.
        repo_identifier: The repository, as restic's `--repo` takes it.
        tags: Tags to put on the snapshot.
        uploader_type: The program that saves the volume; empty for restic, as before Velero 1.10.
        uploader_settings: Settings of the program.
        cancel: Whether the work is to be given up.
    """

    node: Annotated[str, REQUIRED] = ""
    pod: Annotated[ObjectReference, REQUIRED] = field(default_factory=ObjectReference)
    volume: Annotated[str, REQUIRED] = ""
    backup_storage_location: Annotated[str, REQUIRED] = ""
    repo_identifier: Annotated[str, REQUIRED] = ""
    tags: dict[str, str] = {}
    uploader_type: str = ""
    uploader_settings: Annotated[dict[str, str], NULLABLE] = {}
    cancel: bool = False


class PodVolumeBackupStatus(Struct, rename="camel", kw_only=True):
    """What the node agent reports about the backup of the volume.

    Attributes:
        phase: The phase of the work.
        path: The directory on the node that was saved.
        snapshot_id: The snapshot in the repository; empty for an empty volume.
        message: What went wrong, or why there is no snapshot.
        start_timestamp: When the work began, by the node's clock.
        completion_timestamp: When the work ended, by the node's clock.
        progress: The progress of the work.
        incremental_bytes: Number of bytes that were new in the repository.
        accepted_timestamp: When the node agent took the work on.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: TransferPhase})] = ""
    path: str = ""
    snapshot_id: str = field(name="snapshotID", default="")
    message: str = ""
    start_timestamp: NullableTime = None
    completion_timestamp: NullableTime = None
    progress: TransferProgress = field(default_factory=TransferProgress)
    incremental_bytes: Int64 = 0
    accepted_timestamp: NullableTime = None


class PodVolumeBackup(Struct, rename="camel", kw_only=True):
    """A request to save a volume of a pod, and its outcome."""

    kind: str = "PodVolumeBackup"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodVolumeBackupSpec = field(default_factory=PodVolumeBackupSpec)
    status: PodVolumeBackupStatus = field(default_factory=PodVolumeBackupStatus)


class PodVolumeRestoreSpec(Struct, rename="camel", kw_only=True):
    """Which snapshot to restore, and into which volume.

    Attributes:
        pod: The restored pod that has the volume.
        volume: Name of the volume in the pod.
        backup_storage_location: The location that holds the repository.
        repo_identifier: The repository, as restic's `--repo` takes it.
        snapshot_id: The snapshot to restore.
        uploader_type: The program that saved the volume; empty for restic, as before Velero 1.10.
        source_namespace: The namespace of the pod that was saved; empty before Velero 1.10.
        uploader_settings: Settings of the program.
        cancel: Whether the work is to be given up.
        snapshot_size: Number of bytes of the data; 0 where that is not known.
    """

    pod: Annotated[ObjectReference, REQUIRED] = field(default_factory=ObjectReference)
    volume: Annotated[str, REQUIRED] = ""
    backup_storage_location: Annotated[str, REQUIRED] = ""
    repo_identifier: Annotated[str, REQUIRED] = ""
    snapshot_id: Annotated[str, REQUIRED] = field(name="snapshotID", default="")
    uploader_type: str = ""
    source_namespace: str = ""
    uploader_settings: Annotated[dict[str, str], NULLABLE] = {}
    cancel: bool = False
    snapshot_size: Int64 = 0


class PodVolumeRestoreStatus(Struct, rename="camel", kw_only=True):
    """What the node agent reports about the restore of the volume.

    Attributes:
        phase: The phase of the work.
        message: What went wrong.
        start_timestamp: When the work began, by the node's clock.
        completion_timestamp: When the work ended, by the node's clock.
        progress: The progress of the work.
        accepted_timestamp: When the node agent took the work on.
        node: The node that does the work.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: TransferPhase})] = ""
    message: str = ""
    start_timestamp: NullableTime = None
    completion_timestamp: NullableTime = None
    progress: TransferProgress = field(default_factory=TransferProgress)
    accepted_timestamp: NullableTime = None
    node: str = ""


class PodVolumeRestore(Struct, rename="camel", kw_only=True):
    """A request to restore a volume of a pod, and its outcome."""

    kind: str = "PodVolumeRestore"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodVolumeRestoreSpec = field(default_factory=PodVolumeRestoreSpec)
    status: PodVolumeRestoreStatus = field(default_factory=PodVolumeRestoreStatus)
