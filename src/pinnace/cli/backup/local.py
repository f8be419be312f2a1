"""`backup create` without a server: the same engine, a location by URL."""

from pinnace.api.backup import Backup
from pinnace.cli.local import EXIT_CODES, check_metadata, open_run, say_outcome
from pinnace.cli.settings import Settings
from pinnace.operations import local


async def make_backup(settings: Settings, backup: Backup) -> int:
    """Make a backup and print how it ended. Returns the exit code."""
    check_metadata(backup.metadata)
    async with open_run(settings, "backup", create=True) as run:
        finished = await local.make_backup(run, backup)
    progress = finished.status.progress
    say_outcome("Backup", finished, progress.items_backed_up if progress else 0, "logs")
    return EXIT_CODES[finished.status.phase]
