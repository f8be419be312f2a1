"""`schedule run`. (ADR 130)"""

from collections.abc import Sequence

from pinnace.cli.common.content_options import MetadataOptions, WaitOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import arguments
from pinnace.cli.output.printing import CreateOptions


class ScheduleRunOptions(MetadataOptions, WaitOptions, CreateOptions, kind="Backup"):
    """Make the backup of a schedule now.

    It is the backup that the server would make, with a name of the schedule's. It is also made while the
    schedule is paused, in a window of --not-during, and while an earlier backup runs. It counts as the run
    that is due now and was not made yet, if there is one; the times of other runs stay.
    """

    names: Sequence[str] = arguments("NAME")


run = lazy_command(
    "run",
    ScheduleRunOptions,
    "pinnace.cli.schedule.running:run",
    noun="schedule",
    short_help="Make the backup of a schedule now.",
    examples=(
        ("Make it, and wait for the end", "pinnace schedule run daily --wait"),
        ("For a script: the exit code says how it ended", "pinnace schedule run daily --wait --exit-code"),
        ("See what would be made", "pinnace schedule run daily --dry-run=client -o yaml"),
    ),
)
