"""`backup prune`. (docs/adr/128)"""

from typing import TYPE_CHECKING

from pinnace.cli.common.options import repository_password
from pinnace.cli.common.retention_options import RetentionOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Section, flag, switch, text
from pinnace.cli.declaring.types import SelectorFlag
from pinnace.cli.declaring.values import Value
from pinnace.cli.output.printing import DataOptions

if TYPE_CHECKING:
    from pinnace.api.meta import LabelSelector


class BackupPruneOptions(RetentionOptions, DataOptions):
    """Delete the backups that no rule keeps.

    The backups of each schedule, location and cluster are a group of their own. Backups of no schedule stay,
    unless --selector chooses them; those of one cluster and location are then one group. What has not ended,
    is held, or whose time cannot be right stays.
    """

    selector: "LabelSelector | None" = flag(
        "-l",
        "--selector",
        type=SelectorFlag(),
        section=Section.WHAT,
        help="Only backups that match this label selector, also those of no schedule.",
    )
    time_zone: str = text(
        value=Value("ZONE", like="Europe/Berlin"),
        help="The time zone of hours, days, weeks, months and years; UTC if not given.",
    )
    dry_run: bool = switch(help="Only show what is kept and what goes.")
    confirm: bool = switch(help="Do not ask.")
    restic_password_file: str = repository_password("restic")


prune = lazy_command(
    "prune",
    BackupPruneOptions,
    "pinnace.cli.backup.pruning:prune",
    noun="backup",
    short_help="Delete the backups that no rule keeps.",
    examples=(
        (
            "With a server, one schedule",
            "pinnace backup prune -l velero.io/schedule-name=daily --keep-within 30d",
        ),
        ("See what would go", "pinnace --location ./backups backup prune --keep-daily 7 --dry-run"),
        (
            "In a folder, backups with one label",
            "pinnace --location ./backups backup prune -l job=shop --keep-daily 7 --keep-weekly 4 --confirm",
        ),
    ),
)
