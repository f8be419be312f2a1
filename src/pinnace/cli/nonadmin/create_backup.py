"""`nonadmin backup create`. (docs/spec: NAC)"""

from pinnace.api.values.durations import Duration
from pinnace.cli.common.content_options import BackupContentOptions, OperationTimeoutOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Section, duration, text, tristate
from pinnace.cli.declaring.values import TTL, CompletionSource, Value
from pinnace.cli.nonadmin.options import RequestOptions, TenantFilterOptions


class TenantBackupOptions(TenantFilterOptions, BackupContentOptions, OperationTimeoutOptions, RequestOptions):
    """Ask for a backup of the namespace."""

    ordered_resources: str = text(
        section=Section.WHAT,
        value=Value("ORDER"),
        help="Order within types: 'pods=ns1/p1,ns1/p2;secrets=ns1/s1'.",
    )
    ttl: Duration | None = duration(
        value=TTL,
        before="item_operation_timeout",
        help="How long to keep it; the server's default if not given.",
    )
    storage_location: str = text(
        section=Section.WHERE,
        value=Value("LOCATION", CompletionSource.TENANT_LOCATIONS),
        help="Your own storage location; the server's default if not given.",
    )
    snapshot_volumes: bool | None = tristate(section=Section.VOLUMES, help="Take snapshots of volumes.")
    default_volumes_to_restic: bool | None = tristate(
        "--default-volumes-to-restic",
        "--default-volumes-to-fs-backup",
        section=Section.VOLUMES,
        help="Back up the files of all pod volumes unless opted out.",
    )
    csi_snapshot_timeout: Duration | None = duration(
        section=Section.VOLUMES,
        help="How long a CSI snapshot may take until the storage system has named it; at most 10m, unless the"
        " administrator allows more.",
    )


create_backup = lazy_command(
    "create",
    TenantBackupOptions,
    "pinnace.cli.nonadmin.creating:backup",
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
