"""`backup-location create|get|set|delete`. (docs/spec: CLI 7.1-7.4)"""

from typing import Any

import click

from pinnace.cli.flags import (
    Command,
    DurationFlag,
    Enum,
    KeyValueMap,
    boolean,
    check_arguments,
    merge_maps,
    optional_boolean,
)
from pinnace.cli.options import (
    Decorator,
    config_option,
    delete_command,
    group_of,
    labels_option,
    names_argument,
    pop_output,
    selector_option,
)
from pinnace.cli.output.printing import output_flags


def _credential_option() -> Decorator:
    return click.option(
        "--credential",
        type=KeyValueMap(),
        multiple=True,
        help="Secret with the credentials, and the key in it: secret=key.",
    )


@click.command("create", cls=Command, short_help="Create a backup location.")
@names_argument("NAME")
@click.option(
    "--provider", default="", help="Who keeps the backups: aws, or filesystem for a folder. Required."
)
@click.option("--bucket", default="", help="Bucket to keep them in. Required, but for a folder.")
@click.option("--prefix", default="", help="Path inside the bucket.")
@_credential_option()
@boolean("--default", help="Make it the location of backups that name none.")
@click.option(
    "--backup-sync-period", type=DurationFlag(), help="How often to look for backups in it; 0s for never."
)
@click.option("--validation-frequency", type=DurationFlag(), help="How often to check it; 0s for once.")
@config_option("Settings of the provider: region=...,s3Url=..., or path=/folder with filesystem.")
@labels_option("BackupStorageLocation")
@click.option("--cacert", default="", help="File with the CA bundle to verify the store with.")
@click.option(
    "--access-mode", type=Enum("ReadWrite", "ReadOnly"), default="ReadWrite", show_default=True,
    help="ReadOnly keeps new backups out.",
)  # fmt: skip
@output_flags
@click.pass_context
def create(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Create a location for backups. It is not looked at here: the server says whether it can use it.

    \b
    A bucket:  pinnace backup-location create main --provider aws --bucket backups \\
                   --config region=eu-central-1 --credential cloud-credentials=cloud --default
    A folder:  pinnace backup-location create main --provider filesystem --config path=/srv/backups
    """
    from pinnace.cli.location import backup as backup_location_run

    check_arguments(names, exactly=1)
    output = pop_output(flags)
    for key in ("credential", "config", "labels"):
        flags[key] = merge_maps(flags[key])
    backup_location_run.create(ctx, names[0], output, flags)


@click.command("get", cls=Command, short_help="List backup locations.")
@names_argument("[NAME...]")
@boolean("--default", help="Show only default locations.")
@selector_option("Show only locations")
@output_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], selector: str, default: bool, **flags: Any) -> None:
    """List backup locations, or show the named ones."""
    output = pop_output(flags, default="table")
    from pinnace.cli.location import backup as backup_location_run

    backup_location_run.get(ctx, names, selector, output, only_default=default)


@click.command("set", cls=Command, short_help="Change a backup location.")
@names_argument("NAME")
@click.option("--cacert", default="", help="File with the CA bundle to verify the store with.")
@_credential_option()
@optional_boolean("--default", help="Make it the location of backups that name none (=false: no longer).")
@click.pass_context
def set_(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Change a backup location: what is not given stays as it is."""
    from pinnace.cli.location import backup as backup_location_run

    check_arguments(names, exactly=1)
    flags["credential"] = merge_maps(flags["credential"])
    backup_location_run.change(ctx, names[0], **flags)


delete = delete_command(
    "backup-location",
    "backup locations",
    short_help="Delete backup locations; the stored backups stay.",
    help="Delete backup locations from the cluster. What is stored in them stays.",
)
group = group_of(
    "backup-location", "Work with the locations that backups are kept in.", create, get, set_, delete
)
