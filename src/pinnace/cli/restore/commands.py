"""`restore create|get|describe|logs|delete`. (docs/spec: CLI 5)"""

from typing import TYPE_CHECKING

import click

from pinnace.cli.common.commands import (
    annotations_option,
    delete_command,
    describe_command,
    filter_options,
    get_command,
    group_of,
    labels_option,
    logs_command,
    names_argument,
    operation_timeout_option,
    restored_files_options,
    wait_options,
)
from pinnace.cli.flags import (
    Command,
    Enum,
    NameArgument,
    boolean,
    check_arguments,
    comma_list,
    key_values,
    optional_boolean,
    takes,
)
from pinnace.cli.output.printing import previewed_create_flags
from pinnace.cli.restore.options import RestoreCreateOptions

if TYPE_CHECKING:
    from pinnace.cli.common.describing import Describer


@click.command("create", cls=Command, short_help="Create a restore.")
@names_argument("[RESTORE_NAME]")
@click.option(
    "--from-backup", type=NameArgument("backup", may_be_empty=True), default="", help="Backup to restore."
)
@click.option(
    "--from-schedule", type=NameArgument("schedule", may_be_empty=True), default="",
    help="Schedule whose newest successful backup is restored.",
)  # fmt: skip
@filter_options("restore", "Namespaces (as in the backup)")
@key_values(
    "--namespace-mappings", separator=":", help="Restore namespaces under other names: src1:dst1,src2:dst2."
)
@labels_option("Restore")
@annotations_option("Restore")
@optional_boolean("--restore-volumes", help="Restore volumes from snapshots.")
@boolean(
    "--without-volume-data", help="Create claims and pods whose data cannot be restored, with empty volumes."
)
@optional_boolean("--preserve-nodeports", help="Keep the node ports of Services.")
@click.option(
    "--existing-resource-policy",
    type=Enum("none", "update", "recreate"),
    help="What to do with objects that exist and differ: none leaves them alone, update patches them to the"
    " version in the backup, recreate also deletes and creates anew what cannot be patched.",
)
@comma_list("--status-include-resources", help="Resource types whose status is restored, '*' for all.")
@comma_list("--status-exclude-resources", help="Resource types whose status is not restored.")
@click.option(
    "--resource-modifier-configmap",
    default="",
    help="ConfigMap of the server's namespace with rules that change objects before they are created.",
)
@click.option(
    "--object",
    "objects",
    multiple=True,
    metavar="KIND/NAMESPACE/NAME",
    help="Restore only this object, as named in the backup; can be given several times. KIND/NAME is a"
    " cluster-scoped one.",
)
@boolean("--object-with-owners", help="Restore the owners of each --object, too.")
@boolean(
    "--with-dependencies",
    help="Restore what its pods refer to, too: Secrets, ConfigMaps, claims, service accounts.",
)
@restored_files_options()
@boolean("--confirm", help="Do not ask before --existing-resource-policy recreate.")
@optional_boolean("--allow-partially-failed", help="With --from-schedule: PartiallyFailed backups count too.")
@boolean("--allow-failed", help="With --from-backup: restore what a Failed backup has.")
@operation_timeout_option()
@wait_options()
@previewed_create_flags
@takes(RestoreCreateOptions)
def create(ctx: click.Context, options: RestoreCreateOptions) -> int:
    """Create a restore.

    With --location the restore is made here and now. Then, and with --wait --exit-code, the exit code is 0
    when it is Completed, 3 when it is PartiallyFailed, 4 when it Failed and 2 when the request is wrong.
    """
    from pinnace.cli.restore.create import create

    check_arguments(options.names, most=1)
    return create(ctx, options)


def _describer() -> "Describer":
    from pinnace.cli.restore.read import describe_stored_restore

    return describe_stored_restore


get = get_command("restore", "restores")
describe = describe_command(
    "restore",
    "Describe restores in full, warnings and errors included.",
    describer=_describer,
    details="Show each volume.",
)
logs = logs_command("restore")
delete = delete_command(
    "restore",
    "restores",
    short_help="Delete restores.",
    help="Delete Restore objects (with --location: their files); what was restored stays in the cluster.",
)
group = group_of("restore", "Work with restores.", create, get, describe, logs, delete)
