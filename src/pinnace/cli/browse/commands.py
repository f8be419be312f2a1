"""`backup ls|show|diff|search|verify|index`, and `history`."""

import click

from pinnace.cli.browse.options import (
    BackupVerifyOptions,
    DiffOptions,
    HistoryOptions,
    IndexOptions,
    ListOptions,
    SearchOptions,
    ShowOptions,
)
from pinnace.cli.common.commands import (
    Decorator,
    all_of,
    download_options,
    filter_options,
    names_argument,
)
from pinnace.cli.flags import Command, PagedCommand, WaitFlag, boolean, check_arguments, comma_list, takes

SECRETS = boolean("--show-secrets", help="Show the values of Secrets, which are hidden otherwise.")


def _output(formats: str) -> Decorator:
    return click.option("-o", "--output", "output_format", help=f"Output format: {formats}.")


def _of_namespace() -> Decorator:
    return click.option(
        "-n",
        "--namespace",
        "of_namespace",
        default="",
        help="Namespace of the objects. (The server's is given in front of the command, or by the settings.)",
    )


def _common(formats: str) -> Decorator:
    return all_of(_of_namespace(), _output(formats), download_options("a file of the backup"))


@click.command("ls", cls=PagedCommand, short_help="List what is in a backup.")
@names_argument("NAME [KIND[/NAME]]")
@boolean("--summary", help="Show how many items there are of each kind in each namespace, and their size.")
@filter_options("list")
@_common("table, wide, json, yaml or name")
@takes(ListOptions)
def ls(ctx: click.Context, options: ListOptions) -> None:
    """List the objects in a backup.

    KIND is a resource (deployments.apps), its plural, its kind or its short name. The backup's index is read,
    or, where it has none, its tarball.
    """
    from pinnace.cli.browse.listing import list_items

    check_arguments(options.names, least=1, most=3)
    list_items(ctx, options)


@click.command("show", cls=PagedCommand, short_help="Show one object of a backup.")
@names_argument("NAME KIND/NAME")
@SECRETS
@_common("yaml or json")
@takes(ShowOptions)
def show(ctx: click.Context, options: ShowOptions) -> None:
    """Show an object as it was stored in a backup."""
    from pinnace.cli.browse.show import show

    check_arguments(options.names, least=2, most=3)
    show(ctx, options)


@click.command("index", cls=Command, short_help="Write the index of a backup that has none.")
@names_argument("NAME")
@download_options("the tarball")
@takes(IndexOptions)
def index(ctx: click.Context, options: IndexOptions) -> None:
    """Write the index of a backup that has none, or a damaged one, so that looking into it is quick.

    Needs --location, as files cannot be written through a server.
    """
    from pinnace.cli.browse.index import write

    check_arguments(options.names, exactly=1)
    write(ctx, options)


class _DiffCommand(PagedCommand):
    exits_like_diff = True


@click.command("diff", cls=_DiffCommand, short_help="Compare two backups, or a backup with the cluster.")
@names_argument("A [B]")
@boolean("--cluster", help="Compare with the cluster as it is now.")
@boolean("--full", help="Show whole objects as a unified difference of YAML.")
@boolean("--name-only", help="Show only which objects differ.")
@boolean("--all-fields", help="Compare the status, too, and what the API server sets in the metadata.")
@SECRETS
@filter_options("compare")
@_common("table, json, yaml or name")
@takes(DiffOptions)
def diff(ctx: click.Context, options: DiffOptions) -> int:
    """Show which objects were added, removed or changed between two backups, and in which fields.

    With --cluster, between a backup and the cluster; only types that the backup has objects of are compared.
    The exit code is 0 if nothing differs, 1 if something does, and 2 in case of trouble.
    """
    from pinnace.cli.browse.diff import diff

    check_arguments(options.names, least=1, most=2)
    return diff(ctx, options)


@click.command("search", cls=PagedCommand, short_help="Search a text in backups.")
@names_argument("[NAME] TEXT")
@boolean("--all", help="Search all backups.")
@boolean("--content", help="Search all values and keys, not only names and labels.")
@SECRETS
@filter_options("search")
@_common("table, json, yaml or name")
@takes(SearchOptions)
def search(ctx: click.Context, options: SearchOptions) -> int:
    """Search a text in the names and labels of a backup's objects, in upper or lower case.

    The exit code is 1 if it is not found. Hidden values of Secrets are only found with --show-secrets.
    """
    from pinnace.cli.browse.search import search

    check_arguments(options.names, least=1, most=2)
    return search(ctx, options)


@click.command("history", cls=PagedCommand, short_help="Show in which backups an object changed.")
@names_argument("KIND/NAME")
@boolean("--all-fields", help="Count changes of the status, too, and of what the API server sets.")
@SECRETS
@_common("table, wide, json, yaml or name")
@takes(HistoryOptions)
def history(ctx: click.Context, options: HistoryOptions) -> None:
    """Show the backups in which an object appeared, changed or disappeared, oldest first, with the fields."""
    from pinnace.cli.browse.history import history

    check_arguments(options.names, least=1, most=2)
    history(ctx, options)


@click.command("verify", cls=Command, short_help="Check that backups are whole.")
@names_argument("[NAME...]")
@boolean("--all", help="Check all backups.")
@click.option(
    "--restic-password-file",
    type=click.Path(),
    default="",
    help="With --location: the password of the restic and kopia repositories. [default: the environment's"
    " RESTIC_PASSWORD_FILE or RESTIC_PASSWORD, else the Secret of the server's namespace]",
)
@click.option(
    "--read-data",
    default="",
    metavar="SHARE",
    help="Also read this share of the data in restic and kopia repositories: 10%, 100%, or 1/5 for one of"
    " five parts.",
)
@boolean(
    "--ask-drivers",
    help="With --location: make a VolumeSnapshotContent for each CSI snapshot of which the cluster has none,"
    " so that its driver looks for it; it is removed again, and the snapshot stays.",
)
@boolean(
    "--restore",
    help="Also restore the pods of the backup and what they need into scratch namespaces, see what becomes"
    " ready, and remove them again.",
)
@comma_list("--include-namespaces", help="With --restore: only these namespaces of the backup.")
@click.option(
    "--ready-timeout",
    type=WaitFlag(),
    default="5m0s",
    show_default=True,
    help="With --restore: how long pods may take to be ready; with a server also how long the restore may.",
)
@_output("table, json or yaml")
@download_options("a file of the backup")
@takes(BackupVerifyOptions)
def verify(ctx: click.Context, options: BackupVerifyOptions) -> int:
    """Check that backups are whole: files, each item of the tarball, checksums, resource list, volume data.

    The data of volumes is looked for: snapshots of restic and kopia in their repositories, those of
    clouds by asking the cloud, CSI snapshots by the cluster's VolumeSnapshotContents. A server does all
    this itself, and the command waits for what it finds. Data that cannot be looked at is listed as "not
    checked". The exit code is 1 if a backup cannot be relied upon, and 0 if nothing bad was found, even if
    something is "not checked".
    """
    from pinnace.cli.browse.verify import verify_backups

    return verify_backups(ctx, options)
