"""`snapshot-location create|get`, and the hidden `set`. (docs/spec: CLI 7.5)"""

from typing import Any

import click

from pinnace.cli.backup import flags_in_order
from pinnace.cli.flags import Command, Group, KeyValueMap, check_arguments, merge_maps
from pinnace.cli.output import output_flags, parse_output_flags

group = Group(
    name="snapshot-location",
    help="Work with the locations that volume snapshots are kept in.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@click.command("create", cls=Command, short_help="Create a snapshot location.")
@click.argument("names", nargs=-1, metavar="NAME")
@click.option("--provider", default="", help="The plugin that takes the snapshots, such as aws. Required.")
@click.option(
    "--config", type=KeyValueMap(), multiple=True, help="Settings of the provider: region=...,k=v,..."
)
@click.option("--labels", type=KeyValueMap(), multiple=True, help="Labels for the location: k=v,...")
@output_flags
@click.pass_context
def create(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Create a location for snapshots of volumes.

    \b
    Example:  pinnace snapshot-location create main --provider aws --config region=eu-central-1
    """
    from pinnace.cli import snapshot_location_run

    check_arguments(names, exactly=1)
    output = parse_output_flags(
        flags.pop("output_format"), flags.pop("label_columns"), flags.pop("show_labels")
    )
    for key in ("config", "labels"):
        flags[key] = merge_maps(flags[key])
    snapshot_location_run.create(ctx, names[0], output, **flags)


@click.command("get", cls=Command, short_help="List snapshot locations.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("-l", "--selector", default="", help="Show only locations that match this label selector.")
@output_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], selector: str, **flags: Any) -> None:
    """List snapshot locations, or show the named ones."""
    output = parse_output_flags(*flags_in_order(flags), default="table")
    from pinnace.cli import objects, server_kinds

    objects.get(ctx, server_kinds.SNAPSHOT_LOCATION, names, selector, output)


@click.command("set", cls=Command, hidden=True, short_help="Write a snapshot location again.")
@click.argument("names", nargs=-1, metavar="NAME")
@click.pass_context
def set_(ctx: click.Context, /, names: tuple[str, ...]) -> None:
    """Write a snapshot location again as it is; there is nothing that could be changed."""
    from pinnace.cli import snapshot_location_run

    check_arguments(names, exactly=1)
    snapshot_location_run.rewrite(ctx, names[0])


for _command in (create, get, set_):
    group.add_command(_command)
