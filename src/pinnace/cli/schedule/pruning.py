"""The work of `schedule prune`. (docs/adr/128)"""

from collections.abc import Sequence

import click

from pinnace.api import labels
from pinnace.api.retention.rules import RetentionError
from pinnace.api.values.counts import counted
from pinnace.api.values.times import format_time
from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.common.decided_schedules import DecidedSchedule, decided_schedule
from pinnace.cli.common.get import find, server_settings
from pinnace.cli.common.retained import print_groups
from pinnace.cli.connect import caller, open_cluster, run_async
from pinnace.cli.errors import CommandError
from pinnace.cli.guard import complain
from pinnace.cli.kinds import SCHEDULE
from pinnace.cli.output.prompt import confirmed
from pinnace.cli.schedule.prune import SchedulePruneOptions
from pinnace.cli.settings import Settings
from pinnace.client.server import ServerBackend
from pinnace.kube.resources import SCHEDULES


def prune(ctx: click.Context, options: SchedulePruneOptions) -> None:
    """Print what the rules say, and confirm what waits. Raises CommandError, InvalidInput."""
    settings = server_settings(ctx, "schedule prune")
    found, problems = run_async(_decided(settings, list(dict.fromkeys(options.names))))
    print_groups([group for each in found for group in each.groups], options.output_format)
    for doubt in dict.fromkeys(each.doubt for each in found if each.doubt):
        complain(f"NOTE: {doubt}.")
    for each in found:
        if not each.groups:
            complain(f"Schedule {each.schedule['metadata']['name']} has no backups yet.")
    if not found and not problems:
        complain("No schedule has rules of retention.")
    if problems:
        raise CommandError("; ".join(problems))
    waiting = [each for each in found if each.waiting]
    if options.dry_run or not waiting:
        return
    unannounced = [each.schedule["metadata"]["name"] for each in waiting if each.announced is None]
    if unannounced:
        raise CommandError(
            f"the server has not announced the deletions of {', '.join(unannounced)} yet; it does so within"
            " an hour, and only what it has announced can be confirmed"
        )
    complain(f"{counted(sum(each.waiting for each in waiting), 'deletion')} to confirm.")
    if options.confirm or confirmed():
        run_async(_confirm(settings, waiting))


async def _decided(settings: Settings, names: Sequence[str]) -> tuple[list[DecidedSchedule], list[str]]:
    """What the rules of the named schedules say, and what is wrong with their rules."""
    found, problems = [], []
    async with open_cluster(settings) as client:
        say_cluster(client, "Looking at backups in")
        backend = ServerBackend(client, settings.namespace, caller())
        for schedule in await find(backend, SCHEDULE, names, ""):
            name = schedule["metadata"]["name"]
            try:
                decided = await decided_schedule(backend, schedule)
            except RetentionError as error:
                problems.append(f"schedule {name}: {error}; nothing is deleted")
                continue
            if decided is not None:
                found.append(decided)
            elif names:
                problems.append(f"schedule {name} has no rules: set annotation {labels.RETENTION}")
    return found, problems


async def _confirm(settings: Settings, waiting: Sequence[DecidedSchedule]) -> None:
    async with open_cluster(settings) as client:
        for each in waiting:
            assert each.announced is not None
            metadata = each.schedule["metadata"]
            notes = {labels.RETENTION_CONFIRMED: format_time(each.announced)}
            patch = {"metadata": {"uid": metadata["uid"], "annotations": notes}}
            await client.patch(SCHEDULES, metadata["name"], patch, metadata["namespace"])
            click.echo(f'Deletions of schedule "{metadata["name"]}" confirmed; the server requests them now.')
