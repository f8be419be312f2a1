"""BackupRepository: where the volumes of one namespace are kept in one location. (docs/spec: BEY 6.3)"""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pinnace.api import API_VERSION
from pinnace.api.fields import ALWAYS, ENUM_KEY, NULLABLE, REQUIRED, NullableTime
from pinnace.api.meta import ObjectMeta
from pinnace.api.values.durations import Duration

RESTIC_REPOSITORY: Final = "restic"
KOPIA_REPOSITORY: Final = "kopia"


class BackupRepositoryPhase(StrEnum):
    """Whether the repository can be used. Empty counts as New."""

    NEW = "New"
    READY = "Ready"
    NOT_READY = "NotReady"


class MaintenanceResult(StrEnum):
    """How the maintenance of a repository ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class BackupRepositorySpec(Struct, rename="camel", kw_only=True):
    """Which repository this is.

    Attributes:
        volume_namespace: The namespace whose volumes the repository holds.
        backup_storage_location: The location that holds the repository.
        repository_type: The program whose format the repository has, restic or kopia; restic when empty.
        restic_identifier: The repository, as restic's `--repo` takes it; empty until it is known, and for
            kopia.
        maintenance_frequency: How often the repository is maintained; the server's default when not positive.
        repository_config: Settings of the repository, such as the limit of its cache.
    """

    volume_namespace: Annotated[str, REQUIRED] = ""
    backup_storage_location: Annotated[str, REQUIRED] = ""
    repository_type: str = ""
    # Velero 1.10 to 1.16 require it.
    restic_identifier: Annotated[str, ALWAYS] = ""
    maintenance_frequency: Annotated[Duration, REQUIRED] = Duration()
    repository_config: Annotated[dict[str, str], NULLABLE] = {}


class RepositoryMaintenance(Struct, rename="camel", kw_only=True):
    """One maintenance of a repository.

    Attributes:
        result: Succeeded or Failed.
        start_timestamp: When the maintenance began.
        complete_timestamp: When the maintenance ended.
        message: Why the maintenance failed.
    """

    result: Annotated[str, Meta(extra={ENUM_KEY: MaintenanceResult})] = ""
    start_timestamp: NullableTime = None
    complete_timestamp: NullableTime = None
    message: str = ""


class BackupRepositoryStatus(Struct, rename="camel", kw_only=True):
    """What the server last found out about the repository.

    Attributes:
        phase: Whether the repository can be used.
        message: Why it cannot be used, or what went wrong with its maintenance.
        last_maintenance_time: When the repository was last maintained.
        recent_maintenance: The last maintenances, oldest first.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: BackupRepositoryPhase})] = ""
    message: str = ""
    last_maintenance_time: NullableTime = None
    recent_maintenance: list[RepositoryMaintenance] = []


class BackupRepository(Struct, rename="camel", kw_only=True):
    """The repository that holds the volumes of one namespace in one location."""

    kind: str = "BackupRepository"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BackupRepositorySpec = field(default_factory=BackupRepositorySpec)
    status: BackupRepositoryStatus = field(default_factory=BackupRepositoryStatus)
