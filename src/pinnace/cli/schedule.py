"""`schedule create|get|describe|delete`. (docs/spec: CLI 6)"""

import copy
from typing import Any

import click

from pinnace.cli import backup
from pinnace.cli.backup import flags_in_order
from pinnace.cli.flags import (
    Command,
    Group,
    KeyValueMap,
    SelectorFlag,
    boolean,
    check_arguments,
    flatten,
    merge_maps,
)
from pinnace.cli.output import output_flags, parse_output_flags

group = Group(
    name="schedule",
    help="Work with schedules.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

_NOT_OF_TEMPLATES = frozenset(
    {"names", "labels", "wait", "from_schedule", "output_format", "label_columns", "show_labels"}
)


def _schedule_and_template() -> list[click.Parameter]:
    """The flag that matters most, then those of `backup create`: taken over, so that they never differ."""
    schedule = click.Option(
        ["--schedule"], default="", help="When to make backups: a cron expression, or '@every 6h'. Required."
    )
    template = [
        copy.copy(param)
        for param in backup.create.params
        if param.expose_value and param.name not in _NOT_OF_TEMPLATES
    ]
    return [schedule, *template]


@click.command("create", cls=Command, params=_schedule_and_template(), short_help="Create a schedule.")
@click.argument("names", nargs=-1, metavar="NAME")
@boolean(
    "--use-owner-references-in-backup",
    help="Make the schedule the owner of its backups: deleting it deletes the Backup objects.",
)
@click.option("--labels", type=KeyValueMap(), multiple=True, help="Labels for the Schedule object: k=v,...")
@output_flags
@click.pass_context
def create(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Create a schedule: a server makes a backup each time that the schedule says so.

    The schedule is a cron expression of five fields, in UTC, or '@every' and a duration.

    \b
    .------------- minute (0-59)
    | .----------- hour (0-23)
    | | .--------- day of the month (1-31)
    | | | .------- month (1-12)
    | | | | .----- day of the week (0-6, Sunday is 0)
    | | | | |
    0 7 * * *

    \b
    Each day at 7:       pinnace schedule create daily --schedule '0 7 * * *'
    Every six hours:     pinnace schedule create often --schedule '@every 6h'
    One namespace only:  pinnace schedule create shop --schedule '@daily' --include-namespaces shop
    """
    from pinnace.cli import schedule_create

    check_arguments(names, exactly=1)
    output = parse_output_flags(
        flags.pop("output_format"), flags.pop("label_columns"), flags.pop("show_labels")
    )
    flags["labels"] = merge_maps(flags["labels"])
    flags["volume_snapshot_locations"] = flatten(flags["volume_snapshot_locations"])
    schedule_create.create(ctx, names[0], output, flags)


@click.command("get", cls=Command, short_help="List schedules.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("-l", "--selector", default="", help="Show only schedules that match this label selector.")
@output_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], selector: str, **flags: Any) -> None:
    """List schedules, or show the named ones."""
    output = parse_output_flags(*flags_in_order(flags), default="table")
    from pinnace.cli import objects, server_kinds

    objects.get(ctx, server_kinds.SCHEDULE, names, selector, output)


@click.command("describe", cls=Command, short_help="Describe schedules.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("-l", "--selector", default="", help="Describe only schedules that match this label selector.")
@click.pass_context
def describe(ctx: click.Context, /, names: tuple[str, ...], selector: str) -> None:
    """Describe schedules in full, with the template of their backups."""
    from pinnace.cli import schedule_read

    schedule_read.describe(ctx, names, selector)


@click.command("delete", cls=Command, short_help="Delete schedules; their backups stay.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@boolean("--confirm", help="Do not ask.")
@boolean("--all", help="Delete all schedules.")
@click.option(
    "-l", "--selector", type=SelectorFlag(), help="Delete the schedules that match this label selector."
)
@click.pass_context
def delete(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Delete schedules. What they have backed up stays, unless they own their Backup objects."""
    from pinnace.cli import objects, server_kinds

    objects.delete(
        ctx,
        server_kinds.SCHEDULE,
        names,
        confirm=flags["confirm"],
        everything=flags["all"],
        selector=flags["selector"],
    )


for _command in (create, get, describe, delete):
    group.add_command(_command)
