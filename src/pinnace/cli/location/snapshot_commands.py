"""`snapshot-location create|get`, and the hidden `set`. (docs/spec: CLI 7.5)"""

from typing import Any

import click

from pinnace.cli.flags import Command, check_arguments, merge_maps
from pinnace.cli.options import (
    config_option,
    get_command,
    group_of,
    labels_option,
    names_argument,
    pop_output,
)
from pinnace.cli.output.printing import output_flags


@click.command("create", cls=Command, short_help="Create a snapshot location.")
@names_argument("NAME")
@click.option("--provider", default="", help="The plugin that takes the snapshots, such as aws. Required.")
@config_option("Settings of the provider: region=...,k=v,...")
@labels_option("VolumeSnapshotLocation")
@output_flags
@click.pass_context
def create(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Create a location for snapshots of volumes.

    \b
    Example:  pinnace snapshot-location create main --provider aws --config region=eu-central-1
    """
    from pinnace.cli.location import snapshot as snapshot_location_run

    check_arguments(names, exactly=1)
    output = pop_output(flags)
    for key in ("config", "labels"):
        flags[key] = merge_maps(flags[key])
    snapshot_location_run.create(ctx, names[0], output, **flags)


@click.command("set", cls=Command, hidden=True, short_help="Write a snapshot location again.")
@names_argument("NAME")
@click.pass_context
def set_(ctx: click.Context, /, names: tuple[str, ...]) -> None:
    """Write a snapshot location again as it is; there is nothing that could be changed."""
    from pinnace.cli.location import snapshot as snapshot_location_run

    check_arguments(names, exactly=1)
    snapshot_location_run.rewrite(ctx, names[0])


get = get_command("snapshot-location", "snapshot locations")
group = group_of(
    "snapshot-location", "Work with the locations that volume snapshots are kept in.", create, get, set_
)
