"""`nonadmin`: the commands of tenants for their own namespace, and that of their process. (docs/spec: NAC)

Each command of a tenant needs rights in one namespace only: that of `--namespace`, else that of the
kubeconfig's context, else `default`.
"""

import click

from pinnace.cli.common.commands import (
    CONTEXT,
    all_of,
    download_options,
    movement_options,
    names_argument,
    operation_timeout_option,
    restored_files_options,
    scoped_filter_options,
    selector_option,
    upload_option,
)
from pinnace.cli.common.options import GetOptions, LogsOptions
from pinnace.cli.flags import (
    Command,
    DurationFlag,
    Enum,
    Group,
    OrSelectorFlag,
    SelectorFlag,
    boolean,
    check_arguments,
    comma_list,
    key_values,
    optional_boolean,
    takes,
)
from pinnace.cli.nonadmin.options import (
    TenantBackupOptions,
    TenantDeleteOptions,
    TenantLocationOptions,
    TenantRestoreOptions,
)
from pinnace.cli.output.printing import listing_flags, output_flags

group = Group(
    name="nonadmin",
    help="Back up and restore your own namespace, without rights in the server's.",
    context_settings=CONTEXT,
    lazy={
        "server": ("pinnace.cli.nonadmin.server:command", "Run the controllers of self-service."),
    },
)
backup = Group(name="backup", help="Work with backups of your own namespace.", context_settings=CONTEXT)
restore = Group(name="restore", help="Work with restores of your own namespace.", context_settings=CONTEXT)
location = Group(
    name="storage-location", help="Work with locations in your own buckets.", context_settings=CONTEXT
)

_LABELS = key_values("--labels", help="Labels for the object: k=v,...")
_INCLUDE = comma_list("--include-resources", help="Resource types, '*' for all.")
_EXCLUDE = comma_list("--exclude-resources", help="Resource types to leave out.")
_SELECTOR = click.option(
    "-l", "--selector", type=SelectorFlag(), help="Only objects that match this label selector."
)

_CLUSTER = optional_boolean(
    "--include-cluster-resources", help="Only false is allowed: tenants have no cluster-scoped objects."
)
_OR_SELECTOR = click.option(
    "--or-selector",
    type=OrSelectorFlag(),
    default="",
    help="Only objects that match one of these: 'a=b or c=d'.",
)


@backup.command("create", short_help="Back up your own namespace.")
@names_argument("NAME")
@_INCLUDE
@_EXCLUDE
@_SELECTOR
@_OR_SELECTOR
@_CLUSTER
@scoped_filter_options("back up")
@click.option(
    "--ordered-resources", default="", help="Order within types: 'pods=ns1/p1,ns1/p2;secrets=ns1/s1'."
)
@click.option("--ttl", type=DurationFlag(), help="How long to keep it; the server's default if not given.")
@click.option(
    "--storage-location", default="", help="Your own storage location; the server's default if not given."
)
@optional_boolean("--snapshot-volumes", help="Take snapshots of volumes.")
@optional_boolean(
    "--default-volumes-to-restic",
    "--default-volumes-to-fs-backup",
    help="Back up the files of all pod volumes unless opted out.",
)
@click.option(
    "--csi-snapshot-timeout", type=DurationFlag(),
    help="How long a CSI snapshot may take until the storage system has named it; at most 10m, unless the"
    " administrator allows more.",
)  # fmt: skip
@upload_option()
@operation_timeout_option()
@movement_options
@_LABELS
@output_flags
@takes(TenantBackupOptions)
def create_backup(ctx: click.Context, options: TenantBackupOptions) -> None:
    """Ask for a backup of the namespace."""
    from pinnace.cli.nonadmin import create as nonadmin_create

    check_arguments(options.names, exactly=1)
    nonadmin_create.backup(ctx, options)


@restore.command("create", short_help="Restore your own namespace.")
@names_argument("NAME")
@click.option(
    "--from-backup", default="", help="The backup to restore, by its name in this namespace. Required."
)
@_INCLUDE
@_EXCLUDE
@_SELECTOR
@_OR_SELECTOR
@optional_boolean("--restore-volumes", help="Restore volumes from snapshots.")
@optional_boolean("--preserve-nodeports", help="Keep the node ports of Services.")
@_CLUSTER
@click.option(
    "--existing-resource-policy",
    type=Enum("none", "update"),
    help="What to do with objects that exist and differ: none leaves them alone, update patches them.",
)
@operation_timeout_option()
@restored_files_options()
@_LABELS
@output_flags
@takes(TenantRestoreOptions)
def create_restore(ctx: click.Context, options: TenantRestoreOptions) -> None:
    """Ask for a restore of the namespace."""
    from pinnace.cli.nonadmin import create as nonadmin_create

    check_arguments(options.names, exactly=1)
    nonadmin_create.restore(ctx, options)


@location.command("create", short_help="Ask for a location in your own bucket.")
@names_argument("NAME")
@click.option("--provider", default="aws", show_default=True, help="Provider of the bucket.")
@click.option("--bucket", default="", help="The bucket. Required.")
@click.option("--prefix", default="", help="Path inside the bucket, after the namespace's name.")
@key_values(
    "--credential", help="Secret of this namespace with the keys, and the key in it: secret=key. Required."
)
@key_values("--config", help="Settings of the provider: region=...,...")
@click.option("--backup-sync-period", type=DurationFlag(), help="How often to look for backups in it.")
@_LABELS
@output_flags
@takes(TenantLocationOptions)
def create_location(ctx: click.Context, options: TenantLocationOptions) -> None:
    """Ask for a storage location; an administrator may have to approve it."""
    from pinnace.cli.nonadmin import create as nonadmin_create

    check_arguments(options.names, exactly=1)
    nonadmin_create.location(ctx, options)


def _get(noun: str) -> click.Command:
    @click.command("get", cls=Command, short_help=f"List {noun}s.", help=f"List {noun}s, or the named ones.")
    @names_argument("[NAME...]")
    @selector_option(f"Only {noun}s")
    @listing_flags
    @takes(GetOptions)
    def get(ctx: click.Context, options: GetOptions) -> None:
        from pinnace.cli.nonadmin import read as nonadmin_read

        nonadmin_read.get(ctx, noun, options)

    return get


def _describe(noun: str) -> click.Command:
    @click.command(
        "describe", cls=Command, short_help=f"Describe {noun}s.", help=f"Describe {noun}s in full."
    )
    @names_argument("[NAME...]")
    @click.pass_context
    def describe(ctx: click.Context, /, names: tuple[str, ...]) -> None:
        from pinnace.cli.nonadmin import read as nonadmin_read

        nonadmin_read.describe(ctx, noun, names)

    return describe


def _logs(noun: str) -> click.Command:
    @click.command(
        "logs",
        cls=Command,
        short_help=f"Print the log of a {noun}.",
        help=f"Print the log of a finished {noun} that is in your own storage location.",
    )
    @names_argument("NAME")
    @download_options("the log")
    @takes(LogsOptions)
    def logs(ctx: click.Context, options: LogsOptions) -> None:
        from pinnace.cli.nonadmin import read as nonadmin_read

        check_arguments(options.names, exactly=1)
        nonadmin_read.logs(ctx, noun, options)

    return logs


def _delete(noun: str, help: str) -> click.Command:
    keep_data = boolean(
        "--keep-data", help="Delete the object only; the backup stays in storage, and may come back."
    )

    @click.command("delete", cls=Command, short_help=f"Delete {noun}s.", help=help)
    @names_argument("NAME...")
    @boolean("--confirm", help="Do not ask.")
    @(keep_data if noun == "backup" else all_of())
    @takes(TenantDeleteOptions)
    def delete(ctx: click.Context, options: TenantDeleteOptions) -> None:
        from pinnace.cli.nonadmin import delete as nonadmin_delete

        nonadmin_delete.delete(ctx, noun, options)

    return delete


for _group, _name, _command_help in (
    (backup, "backup", "Delete backups for good: what is stored, and their restores."),
    (restore, "restore", "Delete restores; what they restored stays."),
    (
        location,
        "storage-location",
        "Delete storage locations and the backup objects on them; the data stays.",
    ),
):
    for _command in (_get(_name), _describe(_name), _delete(_name, _command_help)):
        _group.add_command(_command)
    if _name != "storage-location":
        _group.add_command(_logs(_name))
    group.add_command(_group)
