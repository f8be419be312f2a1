"""`backup create|get|describe|logs|download|delete`. (docs/spec: CLI 4)"""

import os
from typing import Any

import click

from pinnace.cli.flags import (
    CommaList,
    Command,
    DurationFlag,
    Group,
    KeyValueMap,
    SelectorFlag,
    StringSlice,
    boolean,
    check_arguments,
    flatten,
    merge_maps,
    optional_boolean,
)
from pinnace.cli.output import output_flags, parse_output_flags

group = Group(
    name="backup",
    help="Work with backups.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@click.command("create", cls=Command, short_help="Create a backup.")
@click.argument("names", nargs=-1, metavar="[NAME]")
@click.option(
    "--ttl", type=DurationFlag(), default="720h0m0s", show_default=True, help="How long to keep the backup."
)
@click.option(
    "--include-namespaces", type=CommaList(), default="*", help="Namespaces to back up, '*' for all."
)
@click.option("--exclude-namespaces", type=CommaList(), help="Namespaces to leave out.")
@click.option(
    "--include-resources", type=CommaList(), help="Resource types to back up (resource.group), '*' for all."
)
@click.option("--exclude-resources", type=CommaList(), help="Resource types to leave out.")
@click.option("--labels", type=KeyValueMap(), multiple=True, help="Labels for the Backup object: k=v,...")
@click.option("--storage-location", default="", help="Location to store the backup in (with a server).")
@click.option(
    "--volume-snapshot-locations", type=StringSlice(), multiple=True,
    help="Locations for volume snapshots, at most one per provider.",
)  # fmt: skip
@click.option(
    "-l", "--selector", type=SelectorFlag(), help="Back up only objects that match this label selector."
)
@click.option(
    "--ordered-resources", default="", help="Order within types: 'pods=ns1/p1,ns1/p2;persistentvolumes=pv1'."
)
@optional_boolean("--snapshot-volumes", help="Take snapshots of PersistentVolumes.")
@optional_boolean("--include-cluster-resources", help="Include cluster-scoped objects.")
@optional_boolean("--default-volumes-to-restic", help="Back up all pod volumes with restic unless opted out.")
@boolean("-w", "--wait", help="Wait for the end (always so with --location).")
@click.option("--from-schedule", default="", help="Use a schedule's template; the other filters are ignored.")
@output_flags
@click.pass_context
def create(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> int:
    """Create a backup.

    With --location the backup is made here and now; the exit code is 0 when it is Completed, 3 when it is
    PartiallyFailed, 4 when it Failed and 2 when the request itself is wrong.
    """
    from pinnace.cli import backup_create

    check_arguments(names, most=1)
    output = parse_output_flags(
        flags.pop("output_format"), flags.pop("label_columns"), flags.pop("show_labels")
    )
    flags["labels"] = merge_maps(flags["labels"])
    flags["volume_snapshot_locations"] = flatten(flags["volume_snapshot_locations"])
    return backup_create.create(ctx, names[0] if names else "", output, flags)


@click.command("get", cls=Command, short_help="List backups.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("-l", "--selector", default="", help="Show only backups that match this label selector.")
@output_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], selector: str, **flags: Any) -> None:
    """List backups, or show the named ones."""
    from pinnace.cli import backup_read

    backup_read.get(ctx, names, selector, parse_output_flags(*flags_in_order(flags), default="table"))


@click.command("describe", cls=Command, short_help="Describe backups.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("-l", "--selector", default="", help="Describe only backups that match this label selector.")
@boolean("--details", help="Show the resource list and the snapshots.")
@boolean("--insecure-skip-tls-verify", help="Accept any TLS certificate for downloads.")
@click.option("--cacert", default="", help="CA bundle to verify downloads with.")
@click.pass_context
def describe(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Describe backups in full."""
    from pinnace.cli import backup_read

    backup_read.describe(ctx, names, **flags)


@click.command("logs", cls=Command, short_help="Print the log of a backup.")
@click.argument("names", nargs=-1, metavar="BACKUP")
@click.option(
    "--timeout", type=DurationFlag(), default="1m0s", show_default=True, help="How long to wait for the log."
)
@boolean("--insecure-skip-tls-verify", help="Accept any TLS certificate for the download.")
@click.option("--cacert", default="", help="CA bundle to verify the download with.")
@click.pass_context
def logs(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Print the log of a finished backup."""
    from pinnace.cli import backup_read

    check_arguments(names, exactly=1)
    backup_read.logs(ctx, names[0], **flags)


@click.command("download", cls=Command, short_help="Download the contents of a backup.")
@click.argument("names", nargs=-1, metavar="NAME")
@click.option(
    "-o", "--output", default="", help="File to write; default NAME-data.tar.gz in the current folder."
)
@boolean("--force", help="Overwrite the file if it exists.")
@click.option(
    "--timeout", type=DurationFlag(), default="1m0s", show_default=True, help="How long to wait for it."
)
@boolean("--insecure-skip-tls-verify", help="Accept any TLS certificate for the download.")
@click.option("--cacert", default="", help="CA bundle to verify the download with.")
@click.pass_context
def download(ctx: click.Context, /, names: tuple[str, ...], output: str, **flags: Any) -> None:
    """Download the tarball of a backup."""
    from pinnace.cli import backup_read

    check_arguments(names, exactly=1)
    path = output or os.path.join(os.getcwd(), f"{names[0]}-data.tar.gz")
    backup_read.download(ctx, names[0], path, **flags)


@click.command("delete", cls=Command, short_help="Delete backups and everything that belongs to them.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@boolean("--confirm", help="Do not ask.")
@boolean("--all", help="Delete all backups.")
@click.option(
    "-l", "--selector", type=SelectorFlag(), help="Delete the backups that match this label selector."
)
@click.pass_context
def delete(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Delete backups: with a server by request, with --location at once."""
    from pinnace.cli import backup_delete

    backup_delete.delete(
        ctx, names, confirm=flags["confirm"], everything=flags["all"], selector=flags["selector"]
    )


def flags_in_order(flags: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The output flags in the order that `parse_output_flags` takes them."""
    return flags["output_format"], flags["label_columns"], flags["show_labels"]


for _command in (create, get, describe, logs, download, delete):
    group.add_command(_command)
