"""`nonadmin backup|restore|storage-location create`. (docs/spec: NAC)"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from pinnace.cli.common.options import (
    BackupContentOptions,
    ObjectFilterOptions,
    OperationTimeoutOptions,
    RestoreContentOptions,
)
from pinnace.cli.declaring.commands import command, work_in
from pinnace.cli.declaring.fields import Section, arguments, comma_list, flag, key_values, text, tristate
from pinnace.cli.declaring.types import DurationFlag, Enum, OrSelectorFlag, SelectorFlag
from pinnace.cli.declaring.values import NEW, PROVIDER, RESOURCES, SECRET_KEY, TTL, CompletionSource, Value
from pinnace.cli.output.printing import OutputOptions

if TYPE_CHECKING:
    from pinnace.api.meta import LabelSelector
    from pinnace.api.values.durations import Duration


class RequestOptions(OutputOptions):
    """The options of every request of a tenant."""

    names: Sequence[str] = arguments("NAME", NEW)
    labels: Mapping[str, str] = key_values("--labels", help="Labels for the object: k=v,...")


class TenantFilterOptions(ObjectFilterOptions, section=Section.WHAT):
    """Which resources and objects of the namespace."""

    include_resources: Sequence[str] = comma_list(
        "--include-resources", value=RESOURCES, help="Resource types, '*' for all."
    )
    exclude_resources: Sequence[str] = comma_list(
        "--exclude-resources", value=RESOURCES, help="Resource types to leave out."
    )
    selector: "LabelSelector | None" = flag(
        "-l", "--selector", type=SelectorFlag(), help="Only objects that match this label selector."
    )
    or_selector: "Sequence[LabelSelector]" = flag(
        "--or-selector",
        type=OrSelectorFlag(),
        default="",
        help="Only objects that match one of these: 'a=b or c=d'.",
    )
    include_cluster_resources: bool | None = tristate(
        "--include-cluster-resources", help="Only false is allowed: tenants have no cluster-scoped objects."
    )


class TenantBackupOptions(TenantFilterOptions, BackupContentOptions, OperationTimeoutOptions, RequestOptions):
    """`nonadmin backup create`; `ttl` None leaves it to the administrator's default."""

    ordered_resources: str = text(
        "--ordered-resources",
        section=Section.WHAT,
        value=Value("ORDER"),
        help="Order within types: 'pods=ns1/p1,ns1/p2;secrets=ns1/s1'.",
    )
    ttl: "Duration | None" = flag(
        "--ttl",
        type=DurationFlag(),
        value=TTL,
        before="item_operation_timeout",
        help="How long to keep it; the server's default if not given.",
    )
    storage_location: str = text(
        "--storage-location",
        section=Section.WHERE,
        value=Value("LOCATION", CompletionSource.TENANT_LOCATIONS),
        help="Your own storage location; the server's default if not given.",
    )
    snapshot_volumes: bool | None = tristate(
        "--snapshot-volumes", section=Section.VOLUMES, help="Take snapshots of volumes."
    )
    default_volumes_to_restic: bool | None = tristate(
        "--default-volumes-to-restic",
        "--default-volumes-to-fs-backup",
        section=Section.VOLUMES,
        help="Back up the files of all pod volumes unless opted out.",
    )
    csi_snapshot_timeout: "Duration | None" = flag(
        "--csi-snapshot-timeout",
        type=DurationFlag(),
        section=Section.VOLUMES,
        help="How long a CSI snapshot may take until the storage system has named it; at most 10m, unless the"
        " administrator allows more.",
    )


@command(
    "create",
    TenantBackupOptions,
    noun="nonadmin backup",
    short_help="Back up your own namespace.",
    examples=(
        ("Back up the namespace of the context", "pinnace nonadmin backup create shop"),
        (
            "Back up another namespace, into your own bucket",
            "pinnace nonadmin backup create shop -n shop --storage-location mine",
        ),
        (
            "Without Secrets, for a week",
            "pinnace nonadmin backup create shop --exclude-resources secrets --ttl 1w",
        ),
    ),
)
def create_backup(ctx: click.Context, options: TenantBackupOptions) -> None:
    """Ask for a backup of the namespace."""
    work_in("pinnace.cli.nonadmin.creating").backup(ctx, options)


class TenantRestoreOptions(
    TenantFilterOptions, RestoreContentOptions, OperationTimeoutOptions, RequestOptions
):
    """`nonadmin restore create`."""

    from_backup: str = text(
        "--from-backup",
        section=Section.WHAT,
        value=Value("BACKUP", CompletionSource.TENANT_BACKUPS),
        before="include_resources",
        help="The backup to restore, by its name in this namespace. Required.",
    )
    preserve_nodeports: bool | None = tristate(
        "--preserve-nodeports",
        section=Section.WHAT,
        before="include_cluster_resources",
        help="Keep the node ports of Services.",
    )
    existing_resource_policy: str | None = flag(
        "--existing-resource-policy",
        type=Enum("none", "update"),
        section=Section.WHAT,
        help="What to do with objects that exist and differ: none leaves them alone, update patches them.",
    )


@command(
    "create",
    TenantRestoreOptions,
    noun="nonadmin restore",
    short_help="Restore your own namespace.",
    examples=(
        ("Restore a backup of the namespace", "pinnace nonadmin restore create again --from-backup shop"),
        (
            "Only ConfigMaps",
            "pinnace nonadmin restore create again --from-backup shop --include-resources configmaps",
        ),
        ("See what would be asked for", "pinnace nonadmin restore create again --from-backup shop -o yaml"),
    ),
)
def create_restore(ctx: click.Context, options: TenantRestoreOptions) -> None:
    """Ask for a restore of the namespace."""
    work_in("pinnace.cli.nonadmin.creating").restore(ctx, options)


class TenantLocationOptions(RequestOptions):
    """`nonadmin storage-location create`."""

    provider: str = text(
        "--provider",
        default="aws",
        show_default=True,
        section=Section.WHERE,
        value=PROVIDER,
        help="Provider of the bucket.",
    )
    bucket: str = text("--bucket", section=Section.WHERE, help="The bucket. Required.")
    prefix: str = text(
        "--prefix", section=Section.WHERE, help="Path inside the bucket, after the namespace's name."
    )
    credential: Mapping[str, str] = key_values(
        "--credential",
        section=Section.WHERE,
        value=SECRET_KEY,
        help="Secret of this namespace with the keys, and the key in it: secret=key. Required.",
    )
    config: Mapping[str, str] = key_values(
        "--config", section=Section.WHERE, help="Settings of the provider: region=...,..."
    )
    backup_sync_period: "Duration | None" = flag(
        "--backup-sync-period",
        type=DurationFlag(),
        before="labels",
        help="How often to look for backups in it.",
    )


@command(
    "create",
    TenantLocationOptions,
    noun="nonadmin storage-location",
    short_help="Ask for a location in your own bucket.",
    examples=(
        (
            "Ask for a location in your own bucket",
            "pinnace nonadmin storage-location create mine --bucket our-bucket --credential keys=cloud "
            "--config region=eu-central-1",
        ),
        (
            "A path in it",
            "pinnace nonadmin storage-location create mine --bucket our-bucket --prefix backups "
            "--credential keys=cloud",
        ),
        (
            "See what would be asked for",
            "pinnace nonadmin storage-location create mine --bucket ours --credential keys=cloud -o yaml",
        ),
    ),
)
def create_location(ctx: click.Context, options: TenantLocationOptions) -> None:
    """Ask for a storage location; an administrator may have to approve it."""
    work_in("pinnace.cli.nonadmin.creating").location(ctx, options)
