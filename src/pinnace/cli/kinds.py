"""The kinds that the commands are about, by the noun that stands in their place on the command line."""

from typing import Final

from pinnace.cli.backend import server_kinds
from pinnace.cli.backend.server_kinds import Kind
from pinnace.cli.output import tables

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

KINDS: Final = {
    kind.noun: kind
    for kind in (
        BACKUP,
        RESTORE,
        server_kinds.SCHEDULE,
        server_kinds.BACKUP_LOCATION,
        server_kinds.SNAPSHOT_LOCATION,
        server_kinds.RESTIC_REPOSITORY,
    )
}

IN_LOCATIONS: Final = frozenset({BACKUP.noun, RESTORE.noun})
"""What a location holds too, so that the commands need no server for it."""
