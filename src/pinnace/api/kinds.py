"""The eleven kinds of `velero.io/v1`: their names, printer columns and structs. (docs/spec: API 1)"""

from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from pinnace.api import GROUP, VERSION
from pinnace.api.backup import Backup
from pinnace.api.delete_request import DeleteBackupRequest
from pinnace.api.download_request import DownloadRequest
from pinnace.api.pod_volume import PodVolumeBackup, PodVolumeRestore
from pinnace.api.restic_repository import ResticRepository
from pinnace.api.restore import Restore
from pinnace.api.schedule import Schedule
from pinnace.api.server_status import ServerStatusRequest
from pinnace.api.snapshot_location import VolumeSnapshotLocation
from pinnace.api.storage_location import BackupStorageLocation


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

KINDS: Final[tuple[Kind, ...]] = (
    Kind(kind="Backup", plural="backups", struct=Backup),
    Kind(
        kind="BackupStorageLocation",
        plural="backupstoragelocations",
        struct=BackupStorageLocation,
        short_names=("bsl",),
        status_subresource=True,
        columns=_LOCATION_COLUMNS,
    ),
    Kind(kind="DeleteBackupRequest", plural="deletebackuprequests", struct=DeleteBackupRequest),
    Kind(kind="DownloadRequest", plural="downloadrequests", struct=DownloadRequest, status_subresource=True),
    Kind(kind="PodVolumeBackup", plural="podvolumebackups", struct=PodVolumeBackup),
    Kind(kind="PodVolumeRestore", plural="podvolumerestores", struct=PodVolumeRestore),
    Kind(kind="ResticRepository", plural="resticrepositories", struct=ResticRepository),
    Kind(kind="Restore", plural="restores", struct=Restore),
    Kind(kind="Schedule", plural="schedules", struct=Schedule),
    Kind(
        kind="ServerStatusRequest",
        plural="serverstatusrequests",
        struct=ServerStatusRequest,
        short_names=("ssr",),
        status_subresource=True,
    ),
    Kind(kind="VolumeSnapshotLocation", plural="volumesnapshotlocations", struct=VolumeSnapshotLocation),
)
"""In the alphabetical order of the plurals, in which `install` creates their CRDs (docs/spec: CLI 11.2)."""
