"""`backup-location create|get|set|delete`. (docs/spec: CLI 7.1-7.4)"""

from typing import Any

import click

from pinnace.cli.backup import flags_in_order
from pinnace.cli.flags import (
    Command,
    DurationFlag,
    Enum,
    Group,
    KeyValueMap,
    SelectorFlag,
    boolean,
    check_arguments,
    merge_maps,
    optional_boolean,
)
from pinnace.cli.output import output_flags, parse_output_flags

group = Group(
    name="backup-location",
    help="Work with the locations that backups are kept in.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@click.command("create", cls=Command, short_help="Create a backup location.")
@click.argument("names", nargs=-1, metavar="NAME")
@click.option(
    "--provider", default="", help="Who keeps the backups: aws, or filesystem for a folder. Required."
)
@click.option("--bucket", default="", help="Bucket to keep them in. Required, but for a folder.")
@click.option("--prefix", default="", help="Path inside the bucket.")
@click.option(
    "--credential", type=KeyValueMap(), multiple=True,
    help="Secret with the credentials, and the key in it: secret=key.",
)  # fmt: skip
@boolean("--default", help="Make it the location of backups that name none.")
@click.option(
    "--backup-sync-period", type=DurationFlag(), help="How often to look for backups in it; 0s for never."
)
@click.option("--validation-frequency", type=DurationFlag(), help="How often to check it; 0s for once.")
@click.option(
    "--config", type=KeyValueMap(), multiple=True,
    help="Settings of the provider: region=...,s3Url=..., or path=/folder with filesystem.",
)  # fmt: skip
@click.option("--labels", type=KeyValueMap(), multiple=True, help="Labels for the location: k=v,...")
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
    from pinnace.cli import backup_location_run

    check_arguments(names, exactly=1)
    output = parse_output_flags(
        flags.pop("output_format"), flags.pop("label_columns"), flags.pop("show_labels")
    )
    for key in ("credential", "config", "labels"):
        flags[key] = merge_maps(flags[key])
    backup_location_run.create(ctx, names[0], output, flags)


@click.command("get", cls=Command, short_help="List backup locations.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@boolean("--default", help="Show only default locations.")
@click.option("-l", "--selector", default="", help="Show only locations that match this label selector.")
@output_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], selector: str, default: bool, **flags: Any) -> None:
    """List backup locations, or show the named ones."""
    from pinnace.cli import backup_location_run

    output = parse_output_flags(*flags_in_order(flags), default="table")
    backup_location_run.get(ctx, names, selector, output, only_default=default)


@click.command("set", cls=Command, short_help="Change a backup location.")
@click.argument("names", nargs=-1, metavar="NAME")
@click.option("--cacert", default="", help="File with the CA bundle to verify the store with.")
@click.option(
    "--credential", type=KeyValueMap(), multiple=True,
    help="Secret with the credentials, and the key in it: secret=key.",
)  # fmt: skip
@optional_boolean("--default", help="Make it the location of backups that name none (=false: no longer).")
@click.pass_context
def set_(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Change a backup location: what is not given stays as it is."""
    from pinnace.cli import backup_location_run

    check_arguments(names, exactly=1)
    flags["credential"] = merge_maps(flags["credential"])
    backup_location_run.change(ctx, names[0], **flags)


@click.command("delete", cls=Command, short_help="Delete backup locations; the stored backups stay.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@boolean("--confirm", help="Do not ask.")
@boolean("--all", help="Delete all backup locations.")
@click.option(
    "-l", "--selector", type=SelectorFlag(), help="Delete the locations that match this label selector."
)
@click.pass_context
def delete(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Delete backup locations from the cluster. What is stored in them stays."""
    from pinnace.cli import objects, server_kinds

    objects.delete(
        ctx,
        server_kinds.BACKUP_LOCATION,
        names,
        confirm=flags["confirm"],
        everything=flags["all"],
        selector=flags["selector"],
    )


for _command in (create, get, set_, delete):
    group.add_command(_command)
