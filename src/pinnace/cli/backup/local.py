"""`backup create` without a server: the same engine, a location by URL."""

from pinnace.api.codec import encode
from pinnace.api.velero.backup import Backup
from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.common.outcome import EXIT_CODES, say_findings
from pinnace.cli.common.telling import CURRENT_CLUSTER, ToldRun
from pinnace.cli.connect import caller
from pinnace.cli.kinds import BACKUP
from pinnace.cli.local import open_run, say_outcome
from pinnace.cli.settings import Settings
from pinnace.client.location import LocationBackend
from pinnace.messages.settings import MessageSettings
from pinnace.operations import local


async def make_backup(
    settings: Settings,
    backup: Backup,
    *,
    progress: str = "auto",
    messages: MessageSettings | None = None,
) -> int:
    """Make a backup and print how it ended. Returns the exit code.

    Args:
        messages: who is told how it ended; None for nobody.
    """
    async with (
        ToldRun(messages, backup, settings.kubecontext or CURRENT_CLUSTER) as told,
        open_run(settings, "backup", progress=progress, create=True) as (run, view),
    ):
        say_cluster(run.client, "Backing up")
        finished = await local.make_backup(run, backup)
        told.ended(finished)
        counts = finished.status.progress
        items = counts.items_backed_up if counts else 0
        view.finish(items)
        say_outcome("Backup", finished, items)
        await say_findings(
            LocationBackend(run.store, run.location, caller()), settings, BACKUP, encode(finished)
        )
    return EXIT_CODES[finished.status.phase]
