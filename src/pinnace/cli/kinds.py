"""The kinds that the commands are about, by the noun that stands for each on the command line."""

from collections.abc import Callable
from typing import Final

import msgspec

from pinnace.api import kinds
from pinnace.cli.output import server_tables, tables
from pinnace.cli.output.printing import Table


class PrintedKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind as its commands print it.

    Attributes:
        table: Makes its table when it is printed: relative times need the current time.
        former: The plural of the kind that it replaced, whose objects are shown too.
        deleted: What is printed when an object was deleted; `{}` stands for its name.
    """

    of: kinds.Kind
    table: Callable[[], Table]
    former: str = ""
    deleted: str = ""

    @property
    def plural(self) -> str:
        """The resource's name in the API."""
        return self.of.plural

    @property
    def kind(self) -> str:
        """The kind's name in the API."""
        return self.of.kind

    @property
    def noun(self) -> str:
        """The command's name, which messages use too."""
        return self.of.noun


BACKUP = PrintedKind(
    of=kinds.BACKUPS,
    table=tables.backup_table,
    deleted=(
        'Request to delete backup "{}" submitted successfully.\n'
        "The backup will be fully deleted after all associated data (disk snapshots, backup files, restores) "
        "are removed."
    ),
)
RESTORE = PrintedKind(
    of=kinds.RESTORES,
    table=tables.restore_table,
    deleted='Restore "{}" deleted',
)
SCHEDULE = PrintedKind(
    of=kinds.SCHEDULES,
    table=server_tables.schedule_table,
    deleted="Schedule deleted: {}",
)
BACKUP_LOCATION = PrintedKind(
    of=kinds.BACKUP_STORAGE_LOCATIONS,
    table=server_tables.backup_location_table,
    deleted='Backup storage location "{}" deleted successfully.',
)
SNAPSHOT_LOCATION = PrintedKind(
    of=kinds.VOLUME_SNAPSHOT_LOCATIONS,
    table=server_tables.snapshot_location_table,
)
BACKUP_REPOSITORY = PrintedKind(
    of=kinds.BACKUP_REPOSITORIES,
    table=server_tables.repository_table,
    former=kinds.RESTIC_REPOSITORIES.plural,
)

KINDS: Final = {
    kind.noun: kind
    for kind in (BACKUP, RESTORE, SCHEDULE, BACKUP_LOCATION, SNAPSHOT_LOCATION, BACKUP_REPOSITORY)
}

IN_LOCATIONS: Final = frozenset({BACKUP.noun, RESTORE.noun})
"""The nouns whose objects a location holds too, so that their commands need no server."""
