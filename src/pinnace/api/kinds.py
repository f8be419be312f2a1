"""The kinds of `velero.io`: their names, printer columns and structs. (docs/spec: API 1, BEY 2)

Those of Velero 1.18, and ResticRepository, which BackupRepository replaces since 1.10. Short names and
columns are those of the branch for 1.19.
"""

from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from pinnace.api import ALPHA_VERSION, GROUP, VERSION
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column that `kubectl get` shows."""

    name: str
    type: str
    json_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of a group.

    Attributes:
        requires_spec: the API server refuses objects without a spec.
        required: a server does not start where the kind is not served.
    """

    kind: str
    plural: str
    struct: type[Struct]
    short_names: tuple[str, ...] = ()
    status_subresource: bool = False
    columns: tuple[Column, ...] = ()
    group: str = GROUP
    version: str = VERSION
    requires_spec: bool = False
    required: bool = True

    @property
    def singular(self) -> str:
        """The kind in lower case."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """The kind of a list of these objects."""
        return f"{self.kind}List"

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"


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

KINDS: Final[tuple[Kind, ...]] = (
    Kind(
        kind="BackupRepository",
        plural="backuprepositories",
        struct=BackupRepository,
        short_names=("repo",),
        columns=(_AGE, Column(name="Repository Type", type="string", json_path=".spec.repositoryType")),
    ),
    Kind(
        kind="Backup",
        plural="backups",
        struct=Backup,
        short_names=("bak",),
        columns=(
            _STATUS,
            *_COUNTS,
            Column(name="Started", type="date", json_path=".status.startTimestamp"),
            _AGE,
        ),
    ),
    Kind(
        kind="BackupStorageLocation",
        plural="backupstoragelocations",
        struct=BackupStorageLocation,
        short_names=("bsl",),
        status_subresource=True,
        columns=_LOCATION_COLUMNS,
    ),
    Kind(
        kind="DataDownload",
        plural="datadownloads",
        struct=DataDownload,
        short_names=("dd",),
        version=ALPHA_VERSION,
        columns=(*_MOVING_COLUMNS, _STATUS_NODE),
    ),
    Kind(
        kind="DataUpload",
        plural="datauploads",
        struct=DataUpload,
        short_names=("du",),
        version=ALPHA_VERSION,
        columns=(*_MOVING_COLUMNS, _STATUS_NODE),
    ),
    Kind(
        kind="DeleteBackupRequest",
        plural="deletebackuprequests",
        struct=DeleteBackupRequest,
        short_names=("dbr",),
        columns=(Column(name="BackupName", type="string", json_path=".spec.backupName"), _STATUS),
    ),
    Kind(
        kind="DownloadRequest",
        plural="downloadrequests",
        struct=DownloadRequest,
        short_names=("dreq",),
        status_subresource=True,
        columns=(
            Column(name="Target Kind", type="string", json_path=".spec.target.kind"),
            Column(name="Target Name", type="string", json_path=".spec.target.name"),
            _STATUS,
            _AGE,
        ),
    ),
    Kind(
        kind="PodVolumeBackup",
        plural="podvolumebackups",
        struct=PodVolumeBackup,
        short_names=("pvb",),
        columns=(*_MOVING_COLUMNS, Column(name="Node", type="string", json_path=".spec.node"), _UPLOADER),
    ),
    Kind(
        kind="PodVolumeRestore",
        plural="podvolumerestores",
        struct=PodVolumeRestore,
        short_names=("pvr",),
        columns=(*_MOVING_COLUMNS, _STATUS_NODE, _UPLOADER),
    ),
    Kind(kind="ResticRepository", plural="resticrepositories", struct=ResticRepository, required=False),
    Kind(
        kind="Restore",
        plural="restores",
        struct=Restore,
        short_names=("rst",),
        columns=(
            Column(name="Backup", type="string", json_path=".spec.backupName"),
            _STATUS,
            *_COUNTS,
            _AGE,
        ),
    ),
    Kind(
        kind="Schedule",
        plural="schedules",
        struct=Schedule,
        short_names=("sched",),
        columns=(
            _STATUS,
            Column(name="Schedule", type="string", json_path=".spec.schedule"),
            Column(name="LastBackup", type="date", json_path=".status.lastBackup"),
            _AGE,
            Column(name="Paused", type="boolean", json_path=".spec.paused"),
        ),
    ),
    Kind(
        kind="ServerStatusRequest",
        plural="serverstatusrequests",
        struct=ServerStatusRequest,
        short_names=("ssr",),
        status_subresource=True,
        columns=(
            _STATUS,
            Column(name="Server Version", type="string", json_path=".status.serverVersion"),
            Column(name="Processed", type="date", json_path=".status.processedTimestamp"),
            _AGE,
        ),
    ),
    Kind(
        kind="VolumeSnapshotLocation",
        plural="volumesnapshotlocations",
        struct=VolumeSnapshotLocation,
        short_names=("vsl",),
        columns=(
            Column(name="Provider", type="string", json_path=".spec.provider"),
            Column(name="Phase", type="string", json_path=".status.phase"),
            _AGE,
        ),
    ),
)
"""In the alphabetical order of the plurals, in which `install` creates their CRDs (docs/spec: CLI 11.2)."""
