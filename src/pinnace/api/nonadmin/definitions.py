"""The definitions of the five kinds of self-service. (docs/spec: NAC 4)"""

from typing import Any, Final

from pinnace.api import kinds
from pinnace.api.definitions.crds import crd_manifest
from pinnace.api.definitions.definition import Column, Definition
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


DEFINITIONS: Final = (
    Definition(
        kind=kinds.NON_ADMIN_BACKUPS,
        struct=NonAdminBackup,
        status_subresource=True,
        columns=(_PHASE, _velero_phase("veleroBackup"), _AGE),
        requires_spec=True,
    ),
    Definition(
        kind=kinds.NON_ADMIN_LOCATION_REQUESTS,
        struct=NonAdminBackupStorageLocationRequest,
        status_subresource=True,
        columns=(
            _PHASE,
            Column(
                name="Request-Namespace",
                type="string",
                json_path=".status.nonAdminBackupStorageLocation.namespace",
            ),
            Column(
                name="Request-Name", type="string", json_path=".status.nonAdminBackupStorageLocation.name"
            ),
            _AGE,
        ),
    ),
    Definition(
        kind=kinds.NON_ADMIN_LOCATIONS,
        struct=NonAdminBackupStorageLocation,
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
        requires_spec=True,
    ),
    Definition(
        kind=kinds.NON_ADMIN_DOWNLOADS,
        struct=NonAdminDownloadRequest,
        status_subresource=True,
        columns=(_PHASE, _AGE),
        requires_spec=True,
    ),
    Definition(
        kind=kinds.NON_ADMIN_RESTORES,
        struct=NonAdminRestore,
        status_subresource=True,
        columns=(_PHASE, _velero_phase("veleroRestore"), _AGE),
        requires_spec=True,
    ),
)
"""In the alphabetical order of the plurals."""


def nonadmin_crds() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions of all five kinds; each call returns new dicts."""
    return [crd_manifest(each) for each in DEFINITIONS]
