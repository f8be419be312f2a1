"""`restore create|get|describe|logs|delete`. (docs/spec: CLI 5)"""

from typing import Any

import click

from pinnace.cli.backup import flags_in_order
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
from pinnace.cli.output import output_flags, parse_output_flags

group = Group(
    name="restore",
    help="Work with restores.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@click.command("create", cls=Command, short_help="Create a restore.")
@click.argument("names", nargs=-1, metavar="[RESTORE_NAME]")
@click.option("--from-backup", default="", help="Backup to restore.")
@click.option("--from-schedule", default="", help="Schedule whose newest successful backup is restored.")
@click.option(
    "--include-namespaces", type=CommaList(), default="*", help="Namespaces (as in the backup) to restore."
)
@click.option("--exclude-namespaces", type=CommaList(), help="Namespaces to leave out.")
@click.option(
    "--namespace-mappings", type=KeyValueMap(":"), multiple=True,
    help="Restore namespaces under other names: src1:dst1,src2:dst2.",
)  # fmt: skip
@click.option(
    "--include-resources", type=CommaList(), help="Resource types to restore (resource.group), '*' for all."
)
@click.option("--exclude-resources", type=CommaList(), help="Resource types to leave out.")
@click.option("--labels", type=KeyValueMap(), multiple=True, help="Labels for the Restore object: k=v,...")
@click.option(
    "-l", "--selector", type=SelectorFlag(), help="Restore only objects that match this label selector."
)
@optional_boolean("--restore-volumes", help="Restore volumes from snapshots.")
@optional_boolean("--preserve-nodeports", help="Keep the node ports of Services.")
@optional_boolean("--include-cluster-resources", help="Include cluster-scoped objects.")
@optional_boolean("--allow-partially-failed", help="With --from-schedule: PartiallyFailed backups count too.")
@boolean("-w", "--wait", help="Wait for the end (always so with --location).")
@output_flags
@click.pass_context
def create(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> int:
    """Create a restore.

    With --location the restore is made here and now; the exit code is 0 when it is Completed, 3 when it is
    PartiallyFailed, 4 when it Failed and 2 when the request itself is wrong.
    """
    from pinnace.cli import restore_create

    check_arguments(names, most=1)
    output = parse_output_flags(
        flags.pop("output_format"), flags.pop("label_columns"), flags.pop("show_labels")
    )
    for key in ("labels", "namespace_mappings"):
        flags[key] = merge_maps(flags[key])
    return restore_create.create(ctx, names[0] if names else "", output, flags)


@click.command("get", cls=Command, short_help="List restores.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("-l", "--selector", default="", help="Show only restores that match this label selector.")
@output_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], selector: str, **flags: Any) -> None:
    """List restores, or show the named ones."""
    from pinnace.cli import restore_read

    restore_read.get(ctx, names, selector, parse_output_flags(*flags_in_order(flags), default="table"))


@click.command("describe", cls=Command, short_help="Describe restores.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("-l", "--selector", default="", help="Describe only restores that match this label selector.")
@boolean("--details", help="Show each volume.")
@boolean("--insecure-skip-tls-verify", help="Accept any TLS certificate for downloads.")
@click.option("--cacert", default="", help="CA bundle to verify downloads with.")
@click.pass_context
def describe(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Describe restores in full, warnings and errors included."""
    from pinnace.cli import restore_read

    restore_read.describe(ctx, names, **flags)


@click.command("logs", cls=Command, short_help="Print the log of a restore.")
@click.argument("names", nargs=-1, metavar="RESTORE")
@click.option(
    "--timeout", type=DurationFlag(), default="1m0s", show_default=True, help="How long to wait for the log."
)
@boolean("--insecure-skip-tls-verify", help="Accept any TLS certificate for the download.")
@click.option("--cacert", default="", help="CA bundle to verify the download with.")
@click.pass_context
def logs(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Print the log of a finished restore."""
    from pinnace.cli import restore_read

    check_arguments(names, exactly=1)
    restore_read.logs(ctx, names[0], **flags)


@click.command("delete", cls=Command, short_help="Delete restores.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@boolean("--confirm", help="Do not ask.")
@boolean("--all", help="Delete all restores.")
@click.option(
    "-l", "--selector", type=SelectorFlag(), help="Delete the restores that match this label selector."
)
@click.pass_context
def delete(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Delete Restore objects (with --location: their files); what was restored stays in the cluster."""
    from pinnace.cli import restore_delete

    restore_delete.delete(
        ctx, names, confirm=flags["confirm"], everything=flags["all"], selector=flags["selector"]
    )


for _command in (create, get, describe, logs, delete):
    group.add_command(_command)
