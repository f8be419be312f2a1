"""DeleteBackupRequest: a request to delete a backup with all its data. (docs/spec: API 9.1)"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from pinnace.api import API_VERSION
from pinnace.api.fields import ENUM_KEY, NULLABLE, REQUIRED
from pinnace.api.meta import ObjectMeta


class DeleteBackupRequestPhase(StrEnum):
    """The phase of a request. Empty counts as New."""

    NEW = "New"
    IN_PROGRESS = "InProgress"
    PROCESSED = "Processed"


class DeleteBackupRequestSpec(Struct, rename="camel", kw_only=True):
    """Which backup to delete.

    Attributes:
        backup_name: Name of the Backup.
    """

    backup_name: Annotated[str, REQUIRED] = ""


class DeleteBackupRequestStatus(Struct, rename="camel", kw_only=True):
    """What the server reports about the deletion.

    Attributes:
        phase: The phase of the request.
        errors: What could not be deleted, and why.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: DeleteBackupRequestPhase})] = ""
    errors: Annotated[list[str], NULLABLE] = []


class DeleteBackupRequest(Struct, rename="camel", kw_only=True):
    """A request to delete a backup, its files, its snapshots and its restores."""

    kind: str = "DeleteBackupRequest"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DeleteBackupRequestSpec = field(default_factory=DeleteBackupRequestSpec)
    status: DeleteBackupRequestStatus = field(default_factory=DeleteBackupRequestStatus)
