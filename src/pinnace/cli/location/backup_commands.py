"""`backup-location create|get|set|delete`. (docs/spec: CLI 7.1-7.4)"""

from typing import TYPE_CHECKING

import click

from pinnace.cli.common.commands import (
    Decorator,
    delete_command,
    describe_command,
    group_of,
    labels_option,
    names_argument,
    selector_option,
)
from pinnace.cli.flags import (
    Command,
    DurationFlag,
    Enum,
    boolean,
    check_arguments,
    key_values,
    optional_boolean,
    takes,
)
from pinnace.cli.location.options import (
    BackupLocationCreateOptions,
    BackupLocationGetOptions,
    BackupLocationSetOptions,
)
from pinnace.cli.output.printing import create_flags, listing_flags

if TYPE_CHECKING:
    from pinnace.cli.common.describing import Describer


def _credential_option() -> Decorator:
    return key_values("--credential", help="Secret with the credentials, and the key in it: secret=key.")


@click.command("create", cls=Command, short_help="Create a backup location.")
@names_argument("NAME")
@click.option("--provider", default="", help="Kind of the store: aws, or filesystem for a folder. Required.")
@click.option("--bucket", default="", help="Bucket to keep them in. Required, except for a folder.")
@click.option("--prefix", default="", help="Path inside the bucket.")
@_credential_option()
@boolean("--default", help="Make it the location of backups that name none.")
@click.option(
    "--backup-sync-period", type=DurationFlag(), help="How often to look for backups in it; 0s for never."
)
@click.option("--validation-frequency", type=DurationFlag(), help="How often to check it; 0s for once.")
@key_values(
    "--config", help="Settings of the provider: region=...,s3Url=..., or path=/folder with filesystem."
)
@labels_option("BackupStorageLocation")
@click.option("--cacert", default="", help="File with the CA bundle to verify the store with.")
@click.option(
    "--access-mode", type=Enum("ReadWrite", "ReadOnly"), default="ReadWrite", show_default=True,
    help="ReadOnly keeps new backups out.",
)  # fmt: skip
@boolean("--validate", help="Wait until the server has checked the location, and fail if it cannot use it.")
@create_flags
@takes(BackupLocationCreateOptions)
def create(ctx: click.Context, options: BackupLocationCreateOptions) -> None:
    """Create a location for backups. It is not looked at here: the server says whether it can use it.
    With --validate the command waits for that.
    """
    from pinnace.cli.location.backup import create

    check_arguments(options.names, exactly=1)
    create(ctx, options)


@click.command("get", cls=Command, short_help="List backup locations.")
@names_argument("[NAME...]")
@boolean("--default", help="Show only default locations.")
@selector_option("Show only locations")
@listing_flags
@takes(BackupLocationGetOptions)
def get(ctx: click.Context, options: BackupLocationGetOptions) -> None:
    """List backup locations, or show the named ones."""
    from pinnace.cli.location.backup import get

    get(ctx, options)


@click.command("set", cls=Command, short_help="Change a backup location.")
@names_argument("NAME")
@click.option("--cacert", default="", help="File with the CA bundle to verify the store with.")
@_credential_option()
@optional_boolean("--default", help="Make it the location of backups that name none (=false: no longer).")
@takes(BackupLocationSetOptions)
def set_(ctx: click.Context, options: BackupLocationSetOptions) -> None:
    """Change a backup location: what is not given stays as it is."""
    from pinnace.cli.location.backup import change

    check_arguments(options.names, exactly=1)
    change(ctx, options)


def _describer() -> "Describer":
    from pinnace.cli.location.describe import describe_stored_location

    return describe_stored_location


delete = delete_command(
    "backup-location",
    "backup locations",
    short_help="Delete backup locations; the stored backups stay.",
    help="Delete backup locations from the cluster. What is stored in them stays.",
)
describe = describe_command(
    "backup-location", "Describe backup locations: phase, message, settings.", describer=_describer
)
group = group_of(
    "backup-location",
    "Work with the locations that backups are kept in.",
    create,
    get,
    describe,
    set_,
    delete,
)
