"""`schedule create|get|describe|pause|unpause|delete`. (docs/spec: CLI 6, BEY 7.1)"""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pinnace.cli.backup import commands as backup
from pinnace.cli.common.commands import (
    annotations_option,
    delete_command,
    describe_command,
    get_command,
    group_of,
    labels_option,
    names_argument,
)
from pinnace.cli.common.refused import OF_BACKUPS, refusing
from pinnace.cli.flags import Command, SelectorFlag, boolean, check_arguments, optional_boolean, takes
from pinnace.cli.output.printing import create_flags
from pinnace.cli.schedule.options import PauseOptions, ScheduleCreateOptions

if TYPE_CHECKING:
    from pinnace.cli.common.describing import Describer

_NOT_OF_TEMPLATES = frozenset(
    {"names", "labels", "annotations", "wait", "exit_code", "progress", "from_schedule"}
    | {"output_format", "dry_run", "label_columns", "show_labels"}
)


def _schedule_and_template() -> list[click.Parameter]:
    """The flag that matters most, then copies of those of `backup create`, so that they never differ."""
    schedule = click.Option(
        ["--schedule"], default="", help="When to make backups: a cron expression, or '@every 6h'. Required."
    )
    template = [
        copy.copy(param)
        for param in backup.create.params
        if param.expose_value and param.name not in _NOT_OF_TEMPLATES
    ]
    return [schedule, *template]


def _skip_immediately() -> Callable[[Any], Any]:
    return optional_boolean(
        "--skip-immediately",
        help="Whether a backup that is due at once is left out; the server's setting if not given.",
    )


@click.command("create", cls=Command, params=_schedule_and_template(), short_help="Create a schedule.")
@names_argument("NAME")
@boolean(
    "--use-owner-references-in-backup",
    help="Make the schedule the owner of its backups: deleting it deletes the Backup objects.",
)
@boolean("--paused", help="Create the schedule paused: it makes no backups until it is unpaused.")
@_skip_immediately()
@click.option(
    "--verify",
    default="",
    metavar="CRON",
    help="When the server verifies the newest backup of the schedule, as `backup verify` does: a cron"
    " expression, or '@daily'.",
)
@click.option(
    "--verify-read-data",
    default="",
    metavar="SHARE",
    help="With --verify: how much of the data in restic and kopia repositories is read, such as 10%.",
)
@labels_option("Schedule")
@annotations_option("Schedule")
@create_flags
@refusing(OF_BACKUPS)
@takes(ScheduleCreateOptions)
def create(ctx: click.Context, options: ScheduleCreateOptions) -> None:
    """Create a schedule, by which a server makes backups.

    The schedule is a cron expression of five fields, in UTC, or '@every' and a duration.

    \b
    .------------- minute (0-59)
    | .----------- hour (0-23)
    | | .--------- day of the month (1-31)
    | | | .------- month (1-12)
    | | | | .----- day of the week (0-6, Sunday is 0)
    | | | | |
    0 7 * * *
    """
    from pinnace.cli.schedule.create import create

    check_arguments(options.names, exactly=1)
    create(ctx, options)


def _describer() -> "Describer":
    from pinnace.cli.schedule.describe import describe_stored_schedule

    return describe_stored_schedule


get = get_command("schedule", "schedules")
describe = describe_command(
    "schedule", "Describe schedules in full, with the template of their backups.", describer=_describer
)


def _pause_command(verb: str, paused: bool) -> click.Command:
    @click.command(
        verb,
        cls=Command,
        short_help=f"{verb.capitalize()} schedules.",
        help=f"{verb.capitalize()} schedules: "
        + (
            "the server makes no backups of them until they are unpaused."
            if paused
            else "the server makes their backups again. If a run became due meanwhile, one backup is made at "
            "once, unless --skip-immediately is given."
        ),
    )
    @names_argument("[NAME...]")
    @boolean("--all", help=f"{verb.capitalize()} all schedules.")
    @click.option(
        "-l", "--selector", type=SelectorFlag(), help="Only schedules that match this label selector."
    )
    @_skip_immediately()
    @takes(PauseOptions)
    def command(ctx: click.Context, options: PauseOptions) -> None:
        from pinnace.cli.schedule.pause import change

        change(ctx, options, paused=paused)

    return command


pause = _pause_command("pause", True)
unpause = _pause_command("unpause", False)
delete = delete_command(
    "schedule",
    "schedules",
    short_help="Delete schedules; their backups stay.",
    help="Delete schedules. What they have backed up stays, unless they own their Backup objects.",
)
group = group_of("schedule", "Work with schedules.", create, get, describe, pause, unpause, delete)
