"""What `schedule create` does. (docs/spec: CLI 6)"""

from typing import Any

import click

from pinnace.api.codec import encode
from pinnace.api.meta import ObjectMeta
from pinnace.api.schedule import Schedule, ScheduleSpec
from pinnace.cli import build
from pinnace.cli.backend.objects import server_settings
from pinnace.cli.backend.server_kinds import SCHEDULE
from pinnace.cli.connect import open_cluster, run_async
from pinnace.cli.errors import InvalidInput
from pinnace.cli.output.printing import OutputFlags, print_objects
from pinnace.cli.settings import Settings
from pinnace.kube.resources import velero


def create(ctx: click.Context, name: str, output: OutputFlags, flags: dict[str, Any]) -> None:
    """Print or submit the schedule."""
    settings = server_settings(ctx, "schedule create")
    _check_expression(flags["schedule"])
    schedule = schedule_from_flags(name, settings.namespace, flags)
    if output.format:
        print_objects([encode(schedule, unsent=True)], SCHEDULE.table(), output)
        return
    run_async(_submit(settings, schedule))
    click.echo(f'Schedule "{name}" created successfully.')


def _check_expression(expression: str) -> None:
    """Refuse now what the server would refuse later, where only `describe` shows it. Raises InvalidInput."""
    if not expression:
        raise InvalidInput("--schedule is required")
    from pinnace.api.values.cron import CronError, read_schedule

    try:
        read_schedule(expression)
    except CronError as error:
        raise InvalidInput(str(error)) from error


def schedule_from_flags(name: str, namespace: str, flags: dict[str, Any]) -> Schedule:
    """The Schedule that the flags ask for. Raises InvalidInput."""
    return Schedule(
        metadata=ObjectMeta(name=name, namespace=namespace, labels=flags["labels"]),
        spec=ScheduleSpec(
            schedule=flags["schedule"],
            use_owner_references_in_backup=flags["use_owner_references_in_backup"],
            paused=flags["paused"],
            skip_immediately=flags["skip_immediately"],
            template=build.backup_from_flags(name, namespace, flags).spec,
        ),
    )


async def _submit(settings: Settings, schedule: Schedule) -> None:
    """Create it, if its locations exist: a typing error should not become a row of failed backups."""
    async with open_cluster(settings) as client:
        template = schedule.spec.template
        if template.storage_location:
            await client.get(velero("backupstoragelocations"), template.storage_location, settings.namespace)
        for location in template.volume_snapshot_locations:
            await client.get(velero("volumesnapshotlocations"), location, settings.namespace)
        await client.create(velero(SCHEDULE.plural), encode(schedule), settings.namespace)
