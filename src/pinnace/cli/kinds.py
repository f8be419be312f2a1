"""The kinds that the commands are about, by the noun that stands for each on the command line."""

from collections.abc import Callable
from typing import Final

import msgspec

from pinnace.cli.output import server_tables, tables
from pinnace.cli.output.printing import Table


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind.

    Attributes:
        plural: The resource's name in the API.
        kind: The kind's name in the API.
        noun: The command's name, which messages use too.
        table: Makes its table when it is printed: relative times need the current time.
        former: The plural of the kind that it replaced, whose objects are shown too.
        deleted: What is printed when an object was deleted; `{}` stands for its name.
    """

    plural: str
    kind: str
    noun: str
    table: Callable[[], Table]
    former: str = ""
    deleted: str = ""


BACKUP = Kind(
    plural="backups",
    kind="Backup",
    noun="backup",
    table=tables.backup_table,
    deleted=(
        'Request to delete backup "{}" submitted successfully.\n'
        "The backup will be fully deleted after all associated data (disk snapshots, backup files, restores) "
        "are removed."
    ),
)
RESTORE = Kind(
    plural="restores",
    kind="Restore",
    noun="restore",
    table=tables.restore_table,
    deleted='Restore "{}" deleted',
)
SCHEDULE = Kind(
    plural="schedules",
    kind="Schedule",
    noun="schedule",
    table=server_tables.schedule_table,
    deleted="Schedule deleted: {}",
)
BACKUP_LOCATION = Kind(
    plural="backupstoragelocations",
    kind="BackupStorageLocation",
    noun="backup-location",
    table=server_tables.backup_location_table,
    deleted='Backup storage location "{}" deleted successfully.',
)
SNAPSHOT_LOCATION = Kind(
    plural="volumesnapshotlocations",
    kind="VolumeSnapshotLocation",
    noun="snapshot-location",
    table=server_tables.snapshot_location_table,
)
BACKUP_REPOSITORY = Kind(
    plural="backuprepositories",
    kind="BackupRepository",
    noun="repo",
    table=server_tables.repository_table,
    former="resticrepositories",
)

KINDS: Final = {
    kind.noun: kind
    for kind in (BACKUP, RESTORE, SCHEDULE, BACKUP_LOCATION, SNAPSHOT_LOCATION, BACKUP_REPOSITORY)
}

IN_LOCATIONS: Final = frozenset({BACKUP.noun, RESTORE.noun})
"""The nouns whose objects a location holds too, so that their commands need no server."""
