"""The work of `schedule run`. (ADR 130)"""

from collections.abc import Callable

import click

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.objects import text
from pinnace.api.schedules.due import is_paused
from pinnace.cli.backup.from_schedule import backup_from_schedule
from pinnace.cli.backup.submission import created_backup, follow, warn_of_fields
from pinnace.cli.common import outcome
from pinnace.cli.common.chosen_locations import warn_of_unavailable
from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.common.get import server_settings
from pinnace.cli.connect import caller, open_cluster, run_async
from pinnace.cli.errors import ExitCode
from pinnace.cli.guard import complain
from pinnace.cli.kinds import BACKUP
from pinnace.cli.output.printing import OutputFlags, print_unsent
from pinnace.cli.output.tables import backup_table
from pinnace.cli.schedule.run import ScheduleRunOptions
from pinnace.cli.settings import Settings
from pinnace.client.server import ServerBackend
from pinnace.kube.resources import SCHEDULES


def run(ctx: click.Context, options: ScheduleRunOptions) -> int:
    """Print or submit the backup. Returns the exit code."""
    output, settings = options.printed(), server_settings(ctx, "schedule run")
    outcome.check(settings, options)
    with output.naming(BACKUP.kind) as named:
        return run_async(_run(settings, output, options, named))


async def _run(
    settings: Settings, output: OutputFlags, options: ScheduleRunOptions, named: Callable[[str], None]
) -> int:
    (name,) = options.names
    async with open_cluster(settings) as client:
        backend = ServerBackend(client, settings.namespace, caller())
        schedule = await backend.object(SCHEDULES.name, name)
        now = SYSTEM_CLOCK.now()
        backup = backup_from_schedule("", settings.namespace, schedule, options, now)
        if not output.sends:
            print_unsent(backup, backup_table(), output)
            return ExitCode.OK
        say_cluster(client, "Asking for a backup of")
        await warn_of_unavailable(backend, text(backup, "spec", "storageLocation"))
        warn_of_fields(backup)
        if is_paused(schedule):
            complain(f"Schedule {name} is paused and stays so; this one backup is made all the same.")
        created = await created_backup(client, backup, is_named=False)
        named(created["metadata"]["name"])
        return await follow(client, settings, created, options)
