"""`nonadmin`: what tenants do in their own namespace, and the process that serves them. (docs/spec: NAC)

Every command needs no right but the tenant's own in one namespace: that of `--namespace`, else that of the
kubeconfig's context, else `default`.
"""

from typing import Any

import click

from pinnace.cli.flags import (
    CommaList,
    Command,
    DurationFlag,
    Group,
    KeyValueMap,
    SelectorFlag,
    boolean,
    check_arguments,
    merge_maps,
    optional_boolean,
)
from pinnace.cli.output.printing import output_flags, parse_output_flags

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

group = Group(
    name="nonadmin",
    help="Back up and restore an own namespace without rights on the server's.",
    context_settings=CONTEXT,
    lazy={
        "server": ("pinnace.cli.nonadmin.server:command", "Run the controllers of self-service."),
    },
)
backup = Group(name="backup", help="Work with backups of an own namespace.", context_settings=CONTEXT)
restore = Group(name="restore", help="Work with restores of an own namespace.", context_settings=CONTEXT)
location = Group(
    name="storage-location", help="Work with locations in buckets of the own.", context_settings=CONTEXT
)

_LABELS = click.option("--labels", type=KeyValueMap(), multiple=True, help="Labels for the object: k=v,...")
_INCLUDE = click.option("--include-resources", type=CommaList(), help="Resource types, '*' for all.")
_EXCLUDE = click.option("--exclude-resources", type=CommaList(), help="Resource types to leave out.")
_SELECTOR = click.option(
    "-l", "--selector", type=SelectorFlag(), help="Only objects that match this label selector."
)


@backup.command("create", short_help="Back up an own namespace.")
@click.argument("names", nargs=-1, metavar="NAME")
@_INCLUDE
@_EXCLUDE
@_SELECTOR
@click.option("--ttl", type=DurationFlag(), help="How long to keep it; the server's default if not given.")
@click.option(
    "--storage-location", default="", help="Own storage location; the server's default if not given."
)
@optional_boolean("--snapshot-volumes", help="Take snapshots of volumes.")
@optional_boolean("--default-volumes-to-restic", help="Back up all pod volumes with restic.")
@_LABELS
@output_flags
@click.pass_context
def create_backup(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Ask for a backup of the namespace."""
    from pinnace.cli.nonadmin import create as nonadmin_create

    check_arguments(names, exactly=1)
    nonadmin_create.backup(ctx, names[0], _output(flags), _flags(flags))


@restore.command("create", short_help="Restore an own namespace.")
@click.argument("names", nargs=-1, metavar="NAME")
@click.option(
    "--from-backup", default="", help="The backup to restore, by its name in this namespace. Required."
)
@_INCLUDE
@_EXCLUDE
@_SELECTOR
@optional_boolean("--restore-volumes", help="Restore volumes from snapshots.")
@optional_boolean("--preserve-nodeports", help="Keep the node ports of Services.")
@_LABELS
@output_flags
@click.pass_context
def create_restore(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Ask for a restore of the namespace."""
    from pinnace.cli.nonadmin import create as nonadmin_create

    check_arguments(names, exactly=1)
    nonadmin_create.restore(ctx, names[0], _output(flags), _flags(flags))


@location.command("create", short_help="Ask for a location in an own bucket.")
@click.argument("names", nargs=-1, metavar="NAME")
@click.option("--provider", default="aws", show_default=True, help="Who keeps the bucket.")
@click.option("--bucket", default="", help="The bucket. Required.")
@click.option("--prefix", default="", help="Path inside the bucket, after the namespace's name.")
@click.option(
    "--credential", type=KeyValueMap(), multiple=True,
    help="Secret of this namespace with the keys, and the key in it: secret=key. Required.",
)  # fmt: skip
@click.option("--config", type=KeyValueMap(), multiple=True, help="Settings of the provider: region=...,...")
@click.option("--backup-sync-period", type=DurationFlag(), help="How often to look for backups in it.")
@_LABELS
@output_flags
@click.pass_context
def create_location(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Ask for a storage location; an administrator may have to approve it."""
    from pinnace.cli.nonadmin import create as nonadmin_create

    check_arguments(names, exactly=1)
    for name in ("credential", "config"):
        flags[name] = merge_maps(flags[name])
    nonadmin_create.location(ctx, names[0], _output(flags), _flags(flags))


def _output(flags: dict[str, Any]) -> Any:
    names = ("output_format", "label_columns", "show_labels")
    return parse_output_flags(*(flags.pop(name) for name in names))


def _flags(flags: dict[str, Any]) -> dict[str, Any]:
    return {**flags, "labels": merge_maps(flags["labels"])}


def _get(noun: str) -> click.Command:
    @click.command("get", cls=Command, short_help=f"List {noun}s.", help=f"List {noun}s, or the named ones.")
    @click.argument("names", nargs=-1, metavar="[NAME...]")
    @click.option("-l", "--selector", default="", help=f"Only {noun}s that match this label selector.")
    @output_flags
    @click.pass_context
    def get(ctx: click.Context, /, names: tuple[str, ...], selector: str, **flags: Any) -> None:
        from pinnace.cli.nonadmin import read as nonadmin_read

        output = parse_output_flags(
            flags["output_format"], flags["label_columns"], flags["show_labels"], default="table"
        )
        nonadmin_read.get(ctx, noun, names, selector, output)

    return get


def _describe(noun: str) -> click.Command:
    @click.command(
        "describe", cls=Command, short_help=f"Describe {noun}s.", help=f"Describe {noun}s in full."
    )
    @click.argument("names", nargs=-1, metavar="[NAME...]")
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
        help=f"Print the log of a finished {noun} that lies in an own storage location.",
    )
    @click.argument("names", nargs=-1, metavar="NAME")
    @click.option(
        "--timeout", type=DurationFlag(), default="1m0s", show_default=True, help="How long to wait."
    )
    @boolean("--insecure-skip-tls-verify", help="Accept any TLS certificate for the download.")
    @click.option("--cacert", default="", help="CA bundle to verify the download with.")
    @click.pass_context
    def logs(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
        from pinnace.cli.nonadmin import read as nonadmin_read

        check_arguments(names, exactly=1)
        nonadmin_read.logs(ctx, noun, names[0], **flags)

    return logs


def _delete(noun: str, help: str) -> click.Command:
    @click.command("delete", cls=Command, short_help=f"Delete {noun}s.", help=help)
    @click.argument("names", nargs=-1, metavar="NAME...")
    @boolean("--confirm", help="Do not ask.")
    @click.pass_context
    def delete(ctx: click.Context, /, names: tuple[str, ...], confirm: bool, **flags: Any) -> None:
        from pinnace.cli.nonadmin import delete as nonadmin_delete

        nonadmin_delete.delete(ctx, noun, names, confirm=confirm, **flags)

    if noun == "backup":
        boolean(
            "--keep-data", help="Delete the object only; the backup stays in storage, and may come back."
        )(delete)
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
