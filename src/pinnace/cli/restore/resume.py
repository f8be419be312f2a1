"""`restore resume`. (docs/adr/131)"""

from collections.abc import Sequence

from pinnace.cli.common.content_options import RunMessageOptions, WaitOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import arguments


class ResumeOptions(WaitOptions, RunMessageOptions):
    """Continue a restore that was interrupted, as its server or command was killed or stopped.

    What it created counts as created, hooks that ran are not run again, and volumes whose data is there are
    not read again. With --location the restore is continued here and now.
    """

    names: Sequence[str] = arguments("RESTORE_NAME")


resume = lazy_command(
    "resume",
    ResumeOptions,
    "pinnace.cli.restore.resuming:resume",
    noun="restore",
    short_help="Continue a restore that was interrupted.",
    examples=(
        ("Continue a restore whose server was killed", "pinnace restore resume shop-again"),
        ("Wait for its end", "pinnace restore resume shop-again --wait --exit-code"),
        ("One that was made without a server", "pinnace --location ./backups restore resume shop-again"),
    ),
)
