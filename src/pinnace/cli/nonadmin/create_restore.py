"""`nonadmin restore create`. (docs/spec: NAC)"""

from collections.abc import Sequence

from pinnace.cli.common.content_options import (
    ChosenObjectOptions,
    OperationTimeoutOptions,
    RestoreContentOptions,
)
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Section, flag, text, tristate
from pinnace.cli.declaring.types import Enum
from pinnace.cli.declaring.values import CompletionSource, Value
from pinnace.cli.nonadmin.options import RequestOptions, TenantFilterOptions


class TenantRestoreOptions(
    TenantFilterOptions,
    RestoreContentOptions,
    ChosenObjectOptions,
    OperationTimeoutOptions,
    RequestOptions,
):
    """Ask for a restore of the namespace."""

    from_backup: str = text(
        section=Section.WHAT,
        value=Value("BACKUP", CompletionSource.TENANT_BACKUPS),
        before="include_resources",
        help="The backup to restore, by its name in this namespace. Required.",
    )
    objects: Sequence[str] = flag(
        "--object",
        multiple=True,
        value=Value("KIND/NAME"),
        help="Restore only this object of the namespace; can be given several times.",
    )
    preserve_nodeports: bool | None = tristate(
        section=Section.WHAT, before="include_cluster_resources", help="Keep the node ports of Services."
    )
    existing_resource_policy: str | None = flag(
        type=Enum("none", "update"),
        section=Section.WHAT,
        help="What to do with objects that exist and differ: none leaves them alone, update patches them.",
    )
    identity_secret: str = text(
        section=Section.WHAT,
        help="Secret of the namespace with private keys that open the backup, if it is encrypted.",
    )


create_restore = lazy_command(
    "create",
    TenantRestoreOptions,
    "pinnace.cli.nonadmin.creating:restore",
    noun="nonadmin restore",
    short_help="Restore your own namespace.",
    examples=(
        ("Restore a backup of the namespace", "pinnace nonadmin restore create again --from-backup shop"),
        (
            "Only ConfigMaps",
            "pinnace nonadmin restore create again --from-backup shop --include-resources configmaps",
        ),
        (
            "One object with all that it needs",
            "pinnace nonadmin restore create again --from-backup shop --object deployments/web"
            " --with-dependencies",
        ),
        ("See what would be asked for", "pinnace nonadmin restore create again --from-backup shop -o yaml"),
    ),
)
