"""`backup create|get|describe|logs|download|delete`. (docs/spec: CLI 4)"""

import os
from typing import Any

import click

from pinnace.cli.flags import (
    Command,
    DurationFlag,
    StringSlice,
    boolean,
    check_arguments,
    flatten,
    merge_maps,
    optional_boolean,
)
from pinnace.cli.options import (
    delete_command,
    describe_command,
    download_options,
    filter_options,
    get_command,
    group_of,
    labels_option,
    logs_command,
    names_argument,
    pop_output,
)
from pinnace.cli.output.printing import output_flags


@click.command("create", cls=Command, short_help="Create a backup.")
@names_argument("[NAME]")
@click.option(
    "--ttl", type=DurationFlag(), default="720h0m0s", show_default=True, help="How long to keep the backup."
)
@filter_options("back up")
@labels_option("Backup")
@click.option("--storage-location", default="", help="Location to store the backup in (with a server).")
@click.option(
    "--volume-snapshot-locations", type=StringSlice(), multiple=True,
    help="Locations for volume snapshots, at most one per provider.",
)  # fmt: skip
@click.option(
    "--ordered-resources", default="", help="Order within types: 'pods=ns1/p1,ns1/p2;persistentvolumes=pv1'."
)
@optional_boolean("--snapshot-volumes", help="Take snapshots of PersistentVolumes.")
@optional_boolean(
    "--default-volumes-to-restic",
    "--default-volumes-to-fs-backup",
    help="Back up all pod volumes with restic unless opted out.",
)
@click.option(
    "--csi-snapshot-timeout", type=DurationFlag(),
    help="How long a CSI snapshot may take until the storage system has named it: 10m if not given.",
)  # fmt: skip
@boolean("-w", "--wait", help="Wait for the end (always so with --location).")
@click.option("--from-schedule", default="", help="Use a schedule's template; the other filters are ignored.")
@output_flags
@click.pass_context
def create(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> int:
    """Create a backup.

    With --location the backup is made here and now; the exit code is 0 when it is Completed, 3 when it is
    PartiallyFailed, 4 when it Failed and 2 when the request itself is wrong.
    """
    from pinnace.cli.backup import create as backup_create

    check_arguments(names, most=1)
    output = pop_output(flags)
    flags["labels"] = merge_maps(flags["labels"])
    flags["volume_snapshot_locations"] = flatten(flags["volume_snapshot_locations"])
    return backup_create.create(ctx, names[0] if names else "", output, flags)


@click.command("download", cls=Command, short_help="Download the contents of a backup.")
@names_argument("NAME")
@click.option(
    "-o", "--output", default="", help="File to write; default NAME-data.tar.gz in the current folder."
)
@boolean("--force", help="Overwrite the file if it exists.")
@download_options("it")
@click.pass_context
def download(ctx: click.Context, /, names: tuple[str, ...], output: str, **flags: Any) -> None:
    """Download the tarball of a backup."""
    from pinnace.cli.backup import download as backup_download

    check_arguments(names, exactly=1)
    path = output or os.path.join(os.getcwd(), f"{names[0]}-data.tar.gz")
    backup_download.download(ctx, names[0], path, **flags)


get = get_command("backup", "backups")
describe = describe_command(
    "backup", "Describe backups in full.", details="Show the resource list and the snapshots."
)
logs = logs_command("backup")
delete = delete_command(
    "backup",
    "backups",
    short_help="Delete backups and everything that belongs to them.",
    help="Delete backups: with a server by request, with --location at once. A backup is not deleted while"
    " data of its volumes would be left behind.",
    volume_data=True,
)
group = group_of("backup", "Work with backups.", create, get, describe, logs, download, delete)
