"""The definitions of the kinds of `velero.io`: structs and printer columns. (docs/spec: API 1, BEY 2)"""

from typing import Final

from pinnace.api import kinds
from pinnace.api.definitions.definition import Column, Definition
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.backup_repository import BackupRepository
from pinnace.api.velero.data_movement import DataDownload, DataUpload
from pinnace.api.velero.delete_request import DeleteBackupRequest
from pinnace.api.velero.download_request import DownloadRequest
from pinnace.api.velero.pod_volume import PodVolumeBackup, PodVolumeRestore
from pinnace.api.velero.restic_repository import ResticRepository
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.schedule import Schedule
from pinnace.api.velero.server_status import ServerStatusRequest
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocation
from pinnace.api.velero.storage_location import BackupStorageLocation

_LOCATION_COLUMNS: Final = (
    Column(name="Phase", type="string", json_path=".status.phase"),
    Column(name="Last Validated", type="date", json_path=".status.lastValidationTime"),
    Column(name="Age", type="date", json_path=".metadata.creationTimestamp"),
    Column(name="Default", type="boolean", json_path=".spec.default"),
)

_AGE: Final = Column(name="Age", type="date", json_path=".metadata.creationTimestamp")
_STATUS: Final = Column(name="Status", type="string", json_path=".status.phase")
_MOVING_COLUMNS: Final = (
    _STATUS,
    Column(name="Started", type="date", json_path=".status.startTimestamp"),
    Column(name="Bytes Done", type="integer", json_path=".status.progress.bytesDone"),
    Column(name="Total Bytes", type="integer", json_path=".status.progress.totalBytes"),
    Column(name="Storage Location", type="string", json_path=".spec.backupStorageLocation"),
    _AGE,
)
_STATUS_NODE: Final = Column(name="Node", type="string", json_path=".status.node")
_UPLOADER: Final = Column(name="Uploader", type="string", json_path=".spec.uploaderType")
_COUNTS: Final = (
    Column(name="Errors", type="integer", json_path=".status.errors"),
    Column(name="Warnings", type="integer", json_path=".status.warnings"),
)

DEFINITIONS: Final[tuple[Definition, ...]] = (
    Definition(
        kind=kinds.BACKUP_REPOSITORIES,
        struct=BackupRepository,
        columns=(_AGE, Column(name="Repository Type", type="string", json_path=".spec.repositoryType")),
    ),
    Definition(
        kind=kinds.BACKUPS,
        struct=Backup,
        columns=(
            _STATUS,
            *_COUNTS,
            Column(name="Started", type="date", json_path=".status.startTimestamp"),
            _AGE,
        ),
    ),
    Definition(
        kind=kinds.BACKUP_STORAGE_LOCATIONS,
        struct=BackupStorageLocation,
        status_subresource=True,
        columns=_LOCATION_COLUMNS,
    ),
    Definition(
        kind=kinds.DATA_DOWNLOADS,
        struct=DataDownload,
        columns=(*_MOVING_COLUMNS, _STATUS_NODE),
    ),
    Definition(
        kind=kinds.DATA_UPLOADS,
        struct=DataUpload,
        columns=(*_MOVING_COLUMNS, _STATUS_NODE),
    ),
    Definition(
        kind=kinds.DELETE_BACKUP_REQUESTS,
        struct=DeleteBackupRequest,
        columns=(Column(name="BackupName", type="string", json_path=".spec.backupName"), _STATUS),
    ),
    Definition(
        kind=kinds.DOWNLOAD_REQUESTS,
        struct=DownloadRequest,
        status_subresource=True,
        columns=(
            Column(name="Target Kind", type="string", json_path=".spec.target.kind"),
            Column(name="Target Name", type="string", json_path=".spec.target.name"),
            _STATUS,
            _AGE,
        ),
    ),
    Definition(
        kind=kinds.POD_VOLUME_BACKUPS,
        struct=PodVolumeBackup,
        columns=(*_MOVING_COLUMNS, Column(name="Node", type="string", json_path=".spec.node"), _UPLOADER),
    ),
    Definition(
        kind=kinds.POD_VOLUME_RESTORES,
        struct=PodVolumeRestore,
        columns=(*_MOVING_COLUMNS, _STATUS_NODE, _UPLOADER),
    ),
    Definition(kind=kinds.RESTIC_REPOSITORIES, struct=ResticRepository),
    Definition(
        kind=kinds.RESTORES,
        struct=Restore,
        columns=(
            Column(name="Backup", type="string", json_path=".spec.backupName"),
            _STATUS,
            *_COUNTS,
            _AGE,
        ),
    ),
    Definition(
        kind=kinds.SCHEDULES,
        struct=Schedule,
        columns=(
            _STATUS,
            Column(name="Schedule", type="string", json_path=".spec.schedule"),
            Column(name="LastBackup", type="date", json_path=".status.lastBackup"),
            _AGE,
            Column(name="Paused", type="boolean", json_path=".spec.paused"),
        ),
    ),
    Definition(
        kind=kinds.SERVER_STATUS_REQUESTS,
        struct=ServerStatusRequest,
        status_subresource=True,
        columns=(
            _STATUS,
            Column(name="Server Version", type="string", json_path=".status.serverVersion"),
            Column(name="Processed", type="date", json_path=".status.processedTimestamp"),
            _AGE,
        ),
    ),
    Definition(
        kind=kinds.VOLUME_SNAPSHOT_LOCATIONS,
        struct=VolumeSnapshotLocation,
        columns=(
            Column(name="Provider", type="string", json_path=".spec.provider"),
            Column(name="Phase", type="string", json_path=".status.phase"),
            _AGE,
        ),
    ),
)
"""In the order of `kinds.VELERO`."""
