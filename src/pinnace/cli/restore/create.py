"""`restore create`. (docs/spec: CLI 5.1)"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from pinnace.cli.common.content_options import (
    ChosenObjectOptions,
    FilterOptions,
    MetadataOptions,
    OperationTimeoutOptions,
    RestoreContentOptions,
    RunMessageOptions,
    WaitOptions,
)
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import (
    Options,
    Section,
    arguments,
    comma_list,
    flag,
    key_values,
    switch,
    text,
    tristate,
)
from pinnace.cli.declaring.types import Enum, NameArgument, SelectorFlag
from pinnace.cli.declaring.values import BACKUP, NEW, RESOURCES, SCHEDULE, CompletionSource, Value, one_of
from pinnace.cli.output.printing import OutputOptions

if TYPE_CHECKING:
    from pinnace.api.meta import LabelSelector


class ConsentOptions(Options):
    """What may need a yes."""

    confirm: bool = switch(help="Do not ask before --existing-resource-policy recreate.")
    allow_partially_failed: bool | None = tristate(
        help="With --from-schedule: PartiallyFailed backups count too."
    )
    allow_failed: bool = switch(help="With --from-backup: restore what a Failed backup has.")


class RestoreCreateOptions(
    FilterOptions,
    RestoreContentOptions,
    MetadataOptions,
    ChosenObjectOptions,
    ConsentOptions,
    OperationTimeoutOptions,
    WaitOptions,
    RunMessageOptions,
    OutputOptions,
    kind="Restore",
    namespaces="Namespaces (as in the backup)",
):
    """Create a restore.

    With --location the restore is made here and now. Then, and with --wait --exit-code, the exit code is 0
    when it is Completed, 3 when it is PartiallyFailed, 4 when it Failed and 2 when the request is wrong.
    """

    names: Sequence[str] = arguments("[RESTORE_NAME]", NEW)
    from_backup: str = flag(
        type=NameArgument("backup", may_be_empty=True),
        default="",
        section=Section.WHAT,
        value=BACKUP,
        before="include_namespaces",
        help="Backup to restore.",
    )
    from_schedule: str = flag(
        type=NameArgument("schedule", may_be_empty=True),
        default="",
        section=Section.WHAT,
        value=SCHEDULE,
        before="include_namespaces",
        help="Schedule whose newest successful backup is restored.",
    )
    namespace_selector: "LabelSelector | None" = flag(
        type=SelectorFlag(),
        section=Section.WHAT,
        before="preserve_nodeports",
        help="Restore only namespaces whose Namespace object in the backup has these labels.",
    )
    namespace_mappings: Mapping[str, str] = key_values(
        separator=":",
        section=Section.WHAT,
        value=Value("OLD:NEW,...", CompletionSource.NAMESPACES),
        before="preserve_nodeports",
        help="Restore namespaces under other names: src1:dst1,src2:dst2.",
    )
    without_volume_data: bool = switch(
        section=Section.VOLUMES,
        before="write_sparse_files",
        help="Create claims and pods whose data cannot be restored, with empty volumes.",
    )
    existing_resource_policy: str | None = flag(
        type=Enum("none", "update", "recreate"),
        section=Section.WHAT,
        help="What to do with objects that exist and differ: none leaves them alone, update patches them to"
        " the"
        " version in the backup, recreate also deletes and creates again what cannot be patched.",
    )
    existing_volume_data_policy: str = text(
        section=Section.VOLUMES,
        value=one_of("none", "full", "incremental"),
        help="What to do with the data of claims that exist: none leaves it, full writes all files of the"
        " backup over it, incremental those whose size or time differs.",
    )
    delete_extra_files: bool | None = tristate(
        section=Section.VOLUMES,
        help="With --existing-volume-data-policy: remove files that the backup does not have.",
    )
    status_include_resources: Sequence[str] = comma_list(
        section=Section.WHAT, value=RESOURCES, help="Resource types whose status is restored, '*' for all."
    )
    status_exclude_resources: Sequence[str] = comma_list(
        section=Section.WHAT, value=RESOURCES, help="Resource types whose status is not restored."
    )
    resource_modifier_configmap: str = text(
        section=Section.WHAT,
        help="ConfigMap of the server's namespace with rules that change objects before they are created.",
    )
    resource_policies_configmap: str = text(
        section=Section.WHAT,
        help="ConfigMap of the server's namespace with filters by namespace and kind.",
    )
    identity_secret: str = text(
        section=Section.WHAT,
        help="Secret of the server's namespace with private keys that open the backup, if it is encrypted.",
    )
    skip_default_resource_modifier: bool = switch(
        section=Section.WHAT,
        help="Leave out the rules that the server applies to restores without --resource-modifier-configmap.",
    )
    dry_run: str = flag(
        type=click.Choice(["none", "client", "cluster", "server"]),
        is_flag=False,
        flag_value="cluster",
        default="none",
        section=Section.OUTPUT,
        before="show_labels",
        help="Show what would be done, and do nothing. With --dry-run=server the API server is asked about"
        " each object, too; with --dry-run=client the object is printed as it would be sent.",
        show_default=False,
    )
    compare_files: bool = switch(
        section=Section.OUTPUT,
        before="show_labels",
        help="With --dry-run and --existing-volume-data-policy: say which files of claims that exist change."
        " Node agents compare them, and pods are made for claims that nothing mounts, and removed.",
    )


create = lazy_command(
    "create",
    RestoreCreateOptions,
    "pinnace.cli.restore.creating:create",
    noun="restore",
    short_help="Create a restore.",
    examples=(
        ("Show what a restore would do", "pinnace restore create --from-backup shop --dry-run"),
        (
            "Show which files of claims that exist would change",
            "pinnace restore create --from-backup shop --existing-volume-data-policy incremental"
            " --dry-run --compare-files",
        ),
        ("Restore a backup, and wait for the end", "pinnace restore create --from-backup shop --wait"),
        (
            "Into another namespace",
            "pinnace restore create --from-backup shop --namespace-mappings shop:shop-copy",
        ),
        (
            "Without a server, from a folder, only ConfigMaps",
            "pinnace --location ./backups restore create --from-backup shop --include-resources configmaps",
        ),
        (
            "One object with all that it needs",
            "pinnace restore create --from-backup shop --object deployments/shop/web --with-dependencies",
        ),
    ),
)
