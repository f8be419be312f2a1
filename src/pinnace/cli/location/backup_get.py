"""`backup-location get`. (docs/spec: CLI 7.2)"""

import click

from pinnace.cli.common.commands import examples_of_get
from pinnace.cli.common.options import GetOptions
from pinnace.cli.declaring.commands import command, work_in
from pinnace.cli.declaring.fields import switch


class BackupLocationGetOptions(GetOptions, things="locations"):
    """`backup-location get`."""

    default: bool = switch(help="Show only default locations.")


@command(
    "get",
    BackupLocationGetOptions,
    noun="backup-location",
    short_help="List backup locations.",
    examples=examples_of_get("backup-location", "backup locations", "main"),
)
def get(ctx: click.Context, options: BackupLocationGetOptions) -> None:
    """List backup locations, or show the named ones."""
    work_in("pinnace.cli.location.backup").get(ctx, options)
