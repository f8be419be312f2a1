"""`snapshot-location create|get|set`. (docs/spec: CLI 7.5, BEY 7.4)"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from pinnace.cli.common.commands import (
    describe_command,
    get_command,
    group_of,
    labels_option,
    names_argument,
)
from pinnace.cli.flags import Command, check_arguments, key_values, takes
from pinnace.cli.location.options import SnapshotLocationCreateOptions
from pinnace.cli.output.printing import create_flags

if TYPE_CHECKING:
    from pinnace.cli.common.describing import Describer


@click.command("create", cls=Command, short_help="Create a snapshot location.")
@names_argument("NAME")
@click.option("--provider", default="", help="The plugin that takes the snapshots, such as aws. Required.")
@key_values("--credential", help="Secret with the credentials, and the key in it: secret=key.")
@key_values("--config", help="Settings of the provider: region=...,k=v,...")
@labels_option("VolumeSnapshotLocation")
@create_flags
@takes(SnapshotLocationCreateOptions)
def create(ctx: click.Context, options: SnapshotLocationCreateOptions) -> None:
    """Create a location for snapshots of volumes."""
    from pinnace.cli.location.snapshot import create

    check_arguments(options.names, exactly=1)
    create(ctx, options)


@click.command("set", cls=Command, short_help="Change a snapshot location.")
@names_argument("NAME")
@key_values("--credential", help="Secret with the credentials, and the key in it: secret=key.")
@click.pass_context
def set_(ctx: click.Context, /, names: tuple[str, ...], credential: Mapping[str, str]) -> None:
    """Change the credentials of a snapshot location."""
    from pinnace.cli.location import snapshot as snapshot_location_run

    check_arguments(names, exactly=1)
    snapshot_location_run.change(ctx, names[0], credential)


def _describer() -> "Describer":
    from pinnace.cli.location.describe import describe_stored_location

    return describe_stored_location


get = get_command("snapshot-location", "snapshot locations")
describe = describe_command("snapshot-location", "Describe snapshot locations.", describer=_describer)
group = group_of(
    "snapshot-location",
    "Work with the locations that volume snapshots are kept in.",
    create,
    get,
    describe,
    set_,
)
