"""`backup create`. (docs/spec: CLI 4.1)"""

from collections.abc import Sequence

import click

from pinnace.cli.common.content_options import (
    BackupSpecOptions,
    MetadataOptions,
    OperationTimeoutOptions,
    RunMessageOptions,
    WaitOptions,
)
from pinnace.cli.common.refused import OF_BACKUPS, refused
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Section, arguments, flag
from pinnace.cli.declaring.types import NameArgument
from pinnace.cli.declaring.values import NEW, SCHEDULE
from pinnace.cli.output.printing import OutputOptions


class BackupCreateOptions(
    BackupSpecOptions,
    MetadataOptions,
    OperationTimeoutOptions,
    WaitOptions,
    RunMessageOptions,
    OutputOptions,
    kind="Backup",
):
    """Create a backup.

    With --location the backup is made here and now. Then, and with --wait --exit-code, the exit code is 0
    when it is Completed, 3 when it is PartiallyFailed, 4 when it Failed and 2 when the request is wrong.
    """

    names: Sequence[str] = arguments("[NAME]", NEW)
    from_schedule: str = flag(
        type=NameArgument("schedule"),
        section=Section.WHAT,
        value=SCHEDULE,
        callback=lambda _ctx, _param, name: name or "",
        help="Use a schedule's template; the other filters are ignored.",
    )
    dry_run: str = flag(
        type=click.Choice(["none", "client", "cluster"]),
        is_flag=False,
        flag_value="cluster",
        default="none",
        section=Section.OUTPUT,
        before="show_labels",
        help="Show what would be in it, and write nothing. With --dry-run=client the object is printed as it"
        " would be sent.",
        show_default=False,
    )

    @property
    def name(self) -> str:
        """The backup's; empty where a schedule's template gives one."""
        return self.names[0] if self.names else ""


create = lazy_command(
    "create",
    BackupCreateOptions,
    "pinnace.cli.backup.creating:create",
    noun="backup",
    short_help="Create a backup.",
    also=refused(OF_BACKUPS),
    examples=(
        ("Back up everything, and wait for the end", "pinnace backup create everything --wait"),
        (
            "Back up one namespace and keep it for 30 days",
            "pinnace backup create shop --include-namespaces shop --ttl 30d",
        ),
        (
            "The same with the files of its pods' volumes, which a server with node agents saves",
            "pinnace backup create shop --include-namespaces shop --default-volumes-to-fs-backup",
        ),
        (
            "Without a server, the objects into a folder",
            "pinnace --location ./backups backup create shop --include-namespaces shop",
        ),
        (
            "Only objects with a label, without Secrets; show first what that would be",
            "pinnace backup create web -l app=web --exclude-resources secrets --dry-run",
        ),
        ("Make the backup of a schedule now", "pinnace backup create --from-schedule daily"),
    ),
)
