"""The five kinds of the group, and their CustomResourceDefinitions. (docs/spec: NAC 4)"""

from typing import Any, Final

from pinnace.api.definitions.crds import crd_manifest
from pinnace.api.kinds import Column, Kind
from pinnace.api.nonadmin import GROUP, VERSION
from pinnace.api.nonadmin.backup import NonAdminBackup
from pinnace.api.nonadmin.download_request import NonAdminDownloadRequest
from pinnace.api.nonadmin.restore import NonAdminRestore
from pinnace.api.nonadmin.storage_location import (
    NonAdminBackupStorageLocation,
    NonAdminBackupStorageLocationRequest,
)

_PHASE: Final = Column(name="Request-Phase", type="string", json_path=".status.phase")
_AGE: Final = Column(name="Age", type="date", json_path=".metadata.creationTimestamp")


def _velero_phase(member: str) -> Column:
    return Column(name="Velero-Phase", type="string", json_path=f".status.{member}.status.phase")


BACKUP: Final = Kind(
    kind="NonAdminBackup",
    plural="nonadminbackups",
    struct=NonAdminBackup,
    short_names=("nab",),
    status_subresource=True,
    columns=(_PHASE, _velero_phase("veleroBackup"), _AGE),
    group=GROUP,
    version=VERSION,
    requires_spec=True,
)
RESTORE: Final = Kind(
    kind="NonAdminRestore",
    plural="nonadminrestores",
    struct=NonAdminRestore,
    short_names=("nar",),
    status_subresource=True,
    columns=(_PHASE, _velero_phase("veleroRestore"), _AGE),
    group=GROUP,
    version=VERSION,
    requires_spec=True,
)
LOCATION: Final = Kind(
    kind="NonAdminBackupStorageLocation",
    plural="nonadminbackupstoragelocations",
    struct=NonAdminBackupStorageLocation,
    short_names=("nabsl",),
    status_subresource=True,
    columns=(
        Column(
            name="Request-Approved",
            type="string",
            json_path='.status.conditions[?(@.type=="ClusterAdminApproved")].status',
        ),
        _PHASE,
        _velero_phase("veleroBackupStorageLocation"),
        _AGE,
    ),
    group=GROUP,
    version=VERSION,
    requires_spec=True,
)
LOCATION_REQUEST: Final = Kind(
    kind="NonAdminBackupStorageLocationRequest",
    plural="nonadminbackupstoragelocationrequests",
    struct=NonAdminBackupStorageLocationRequest,
    short_names=("nabslrequest",),
    status_subresource=True,
    columns=(
        _PHASE,
        Column(
            name="Request-Namespace",
            type="string",
            json_path=".status.nonAdminBackupStorageLocation.namespace",
        ),
        Column(name="Request-Name", type="string", json_path=".status.nonAdminBackupStorageLocation.name"),
        _AGE,
    ),
    group=GROUP,
    version=VERSION,
)
DOWNLOAD: Final = Kind(
    kind="NonAdminDownloadRequest",
    plural="nonadmindownloadrequests",
    struct=NonAdminDownloadRequest,
    short_names=("nadr",),
    status_subresource=True,
    columns=(_PHASE, _AGE),
    group=GROUP,
    version=VERSION,
    requires_spec=True,
)

KINDS: Final = (BACKUP, LOCATION_REQUEST, LOCATION, DOWNLOAD, RESTORE)
"""In the alphabetical order of the plurals."""


def nonadmin_crds() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions of all five kinds; each call returns new dicts."""
    return [crd_manifest(kind) for kind in KINDS]
