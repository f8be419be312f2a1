"""A tenant's own bucket, and the administrator's decision about it. (docs/spec: NAC 4.3, 4.4)"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from pinnace.api.fields import ENUM_KEY, REQUIRED
from pinnace.api.meta import ObjectMeta
from pinnace.api.nonadmin import API_VERSION
from pinnace.api.nonadmin.common import Mirror, RequestStatus, VeleroObject
from pinnace.api.velero.storage_location import BackupStorageLocationSpec


class ApprovalDecision(StrEnum):
    """An administrator's decision about a location; empty counts as pending."""

    APPROVE = "approve"
    REJECT = "reject"
    PENDING = "pending"


class RequestPhase(StrEnum):
    """The phase of a location's request."""

    PENDING = "Pending"
    APPROVED = "Approved"
    REJECTED = "Rejected"


class NonAdminBackupStorageLocationSpec(Struct, rename="camel", kw_only=True):
    """A bucket of the tenant.

    Attributes:
        backup_storage_location_spec: Where it is; the credentials lie in a Secret of this namespace.
    """

    backup_storage_location_spec: Annotated[BackupStorageLocationSpec, REQUIRED] = field(
        default_factory=BackupStorageLocationSpec
    )


class VeleroBackupStorageLocation(VeleroObject, rename="camel", kw_only=True):
    """The BackupStorageLocation that was made for the request.

    Attributes:
        requested_spec: The spec that the administrator was last asked to approve.
    """

    # Not upstream's: without it an edited spec would be used once the request is garbage (NAC 12.2, A21).
    requested_spec: Mirror | None = None


class NonAdminBackupStorageLocationStatus(RequestStatus, rename="camel", kw_only=True):
    """The state of the request, and whether the location can be used.

    Attributes:
        velero_backup_storage_location: The BackupStorageLocation that was made for the request.
    """

    velero_backup_storage_location: VeleroBackupStorageLocation | None = None


class NonAdminBackupStorageLocation(Struct, rename="camel", kw_only=True):
    """A tenant's request to keep backups in a bucket of its own."""

    kind: str = "NonAdminBackupStorageLocation"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NonAdminBackupStorageLocationSpec = field(default_factory=NonAdminBackupStorageLocationSpec)
    status: NonAdminBackupStorageLocationStatus = field(default_factory=NonAdminBackupStorageLocationStatus)


class NonAdminBackupStorageLocationRequestSpec(Struct, rename="camel", kw_only=True):
    """The administrator's decision.

    Attributes:
        approval_decision: approve, reject or pending.
    """

    approval_decision: Annotated[str, Meta(extra={ENUM_KEY: ApprovalDecision})] = ""


class SourceLocation(Struct, rename="camel", kw_only=True):
    """The location that waits for a decision.

    Attributes:
        requested_spec: The spec that the tenant asked for, and that an approval applies to.
        nacuuid: The unique id of the location.
        name: Name of the NonAdminBackupStorageLocation.
        namespace: Namespace of the tenant.
    """

    requested_spec: Annotated[BackupStorageLocationSpec, REQUIRED] = field(
        default_factory=BackupStorageLocationSpec
    )
    nacuuid: str = ""
    name: str = ""
    namespace: str = ""


class NonAdminBackupStorageLocationRequestStatus(Struct, rename="camel", kw_only=True):
    """The state of the request.

    Attributes:
        phase: Pending, Approved or Rejected.
        non_admin_backup_storage_location: The location that waits for a decision.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: RequestPhase})] = ""
    non_admin_backup_storage_location: SourceLocation | None = None


class NonAdminBackupStorageLocationRequest(Struct, rename="camel", kw_only=True):
    """A request for approval of a tenant's location, in the namespace of the server."""

    kind: str = "NonAdminBackupStorageLocationRequest"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NonAdminBackupStorageLocationRequestSpec = field(
        default_factory=NonAdminBackupStorageLocationRequestSpec
    )
    status: NonAdminBackupStorageLocationRequestStatus = field(
        default_factory=NonAdminBackupStorageLocationRequestStatus
    )
