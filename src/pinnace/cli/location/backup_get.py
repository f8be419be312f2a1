"""`backup-location get`. (docs/spec: CLI 7.2)"""

from pinnace.cli.common.commands import examples_of_get
from pinnace.cli.common.options import GetOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import switch


class BackupLocationGetOptions(GetOptions, things="locations"):
    """List backup locations, or show the named ones."""

    default: bool = switch(help="Show only default locations.")


get = lazy_command(
    "get",
    BackupLocationGetOptions,
    "pinnace.cli.location.backup_getting:get",
    noun="backup-location",
    short_help="List backup locations.",
    examples=examples_of_get("backup-location", "backup locations", "main"),
)
