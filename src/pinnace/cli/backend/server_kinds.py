"""What the commands need to know of each kind that only a server has."""

from collections.abc import Callable
from dataclasses import dataclass

from pinnace.cli.output import server_tables as tables
from pinnace.cli.output.printing import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind.

    Attributes:
        plural: The resource's name in the API.
        kind: The kind's name in the API.
        noun: The command's name, which messages use too.
        table: Its table, made when it is printed: relative times need a now.
        deleted: What is printed when an object was deleted; `{}` stands for its name.
    """

    plural: str
    kind: str
    noun: str
    table: Callable[[], Table]
    deleted: str = ""


SCHEDULE = Kind(
    plural="schedules",
    kind="Schedule",
    noun="schedule",
    table=tables.schedule_table,
    deleted="Schedule deleted: {}",
)
BACKUP_LOCATION = Kind(
    plural="backupstoragelocations",
    kind="BackupStorageLocation",
    noun="backup-location",
    table=tables.backup_location_table,
    deleted='Backup storage location "{}" deleted successfully.',
)
SNAPSHOT_LOCATION = Kind(
    plural="volumesnapshotlocations",
    kind="VolumeSnapshotLocation",
    noun="snapshot-location",
    table=tables.snapshot_location_table,
)
RESTIC_REPOSITORY = Kind(
    plural="resticrepositories",
    kind="ResticRepository",
    noun="restic repo",
    table=tables.restic_repository_table,
)
