"""`backup create|get|describe|logs|download|delete`. (docs/spec: CLI 4)"""

from typing import TYPE_CHECKING

import click

from pinnace.cli.backup.options import BackupCreateOptions, BackupDownloadOptions
from pinnace.cli.common.commands import (
    annotations_option,
    delete_command,
    describe_command,
    download_options,
    filter_options,
    get_command,
    group_of,
    labels_option,
    logs_command,
    movement_options,
    names_argument,
    operation_timeout_option,
    scoped_filter_options,
    upload_option,
    wait_options,
)
from pinnace.cli.common.refused import OF_BACKUPS, refusing
from pinnace.cli.flags import (
    Command,
    DurationFlag,
    NameArgument,
    boolean,
    check_arguments,
    optional_boolean,
    string_slice,
    takes,
)
from pinnace.cli.guard import complain
from pinnace.cli.output.printing import counted_create_flags

if TYPE_CHECKING:
    from pinnace.api.values.durations import Duration
    from pinnace.cli.common.deletion import VolumeDataDeletion
    from pinnace.cli.common.describing import Describer


def _explain_zero(ctx: click.Context, param: click.Parameter, ttl: "Duration") -> "Duration":
    """Say what --ttl 0 means: elsewhere it is "at once" or "for ever"."""
    source = ctx.get_parameter_source(param.name or "")
    if source is click.core.ParameterSource.COMMANDLINE and ttl.nanoseconds == 0:
        complain("--ttl 0 stands for the default: as the server says, or 720h (30 days)")
    return ttl


@click.command("create", cls=Command, short_help="Create a backup.")
@names_argument("[NAME]")
@click.option(
    "--ttl", type=DurationFlag(), default="0s", callback=_explain_zero,
    help="How long to keep the backup; if not given as the server says, or 720h.",
)  # fmt: skip
@filter_options("back up")
@scoped_filter_options("back up")
@labels_option("Backup")
@annotations_option("Backup")
@click.option("--storage-location", default="", help="Location to store the backup in (with a server).")
@string_slice("--volume-snapshot-locations", help="Locations for volume snapshots, at most one per provider.")
@click.option(
    "--ordered-resources", default="", help="Order within types: 'pods=ns1/p1,ns1/p2;persistentvolumes=pv1'."
)
@optional_boolean("--snapshot-volumes", help="Take snapshots of PersistentVolumes.")
@optional_boolean(
    "--default-volumes-to-restic",
    "--default-volumes-to-fs-backup",
    help="Back up all pod volumes from their files unless opted out.",
)
@click.option(
    "--csi-snapshot-timeout", type=DurationFlag(),
    help="How long a CSI snapshot may take until the storage system has named it: 10m if not given.",
)  # fmt: skip
@click.option(
    "--resource-policies-configmap",
    default="",
    help="ConfigMap in the server's namespace with policies for volumes and resources.",
)
@upload_option()
@operation_timeout_option()
@movement_options
@wait_options()
@click.option(
    "--from-schedule", type=NameArgument("schedule"), default=None,
    callback=lambda _ctx, _param, name: name or "",
    help="Use a schedule's template; the other filters are ignored.",
)  # fmt: skip
@counted_create_flags
@refusing(OF_BACKUPS)
@takes(BackupCreateOptions)
def create(ctx: click.Context, options: BackupCreateOptions) -> int:
    """Create a backup.

    With --location the backup is made here and now. Then, and with --wait --exit-code, the exit code is 0
    when it is Completed, 3 when it is PartiallyFailed, 4 when it Failed and 2 when the request is wrong.
    """
    from pinnace.cli.backup.create import create

    check_arguments(options.names, most=1)
    return create(ctx, options)


@click.command("download", cls=Command, short_help="Download the contents of a backup.")
@names_argument("NAME")
@click.option(
    "-o", "--output", default="", help="File to write; default NAME-data.tar.gz in the current folder."
)
@boolean("--force", help="Overwrite the file if it exists.")
@download_options("it")
@takes(BackupDownloadOptions)
def download(ctx: click.Context, options: BackupDownloadOptions) -> None:
    """Download the tarball of a backup."""
    from pinnace.cli.backup.download import download

    check_arguments(options.names, exactly=1)
    download(ctx, options)


def _describer() -> "Describer":
    from pinnace.cli.backup.read import describe_stored_backup

    return describe_stored_backup


def _volume_data() -> "VolumeDataDeletion":
    from pinnace.cli.backup.deletion import delete_volume_data

    return delete_volume_data


get = get_command("backup", "backups")
describe = describe_command(
    "backup",
    "Describe backups in full.",
    describer=_describer,
    details="Show the resource list and the snapshots.",
)
logs = logs_command("backup")
delete = delete_command(
    "backup",
    "backups",
    short_help="Delete backups and everything that belongs to them.",
    help="Delete backups: with a server by request, with --location at once. A backup is not deleted while"
    " data of its volumes would be left behind. Its restores, their logs and their results go with it.",
    volume_data=_volume_data,
)
_BROWSE = "pinnace.cli.browse.commands"
group = group_of(
    *("backup", "Work with backups."),
    *(create, get, describe, logs, download, delete),
    lazy={
        "ls": (f"{_BROWSE}:ls", "List what is in a backup."),
        "show": (f"{_BROWSE}:show", "Show one object of a backup."),
        "diff": (f"{_BROWSE}:diff", "Compare two backups, or a backup with the cluster."),
        "search": (f"{_BROWSE}:search", "Search a text in backups."),
        "verify": (f"{_BROWSE}:verify", "Check that backups are whole."),
        "index": (f"{_BROWSE}:index", "Write the index of a backup that has none."),
    },
)
