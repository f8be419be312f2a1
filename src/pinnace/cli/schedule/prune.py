"""`schedule prune`. (docs/adr/128)"""

from collections.abc import Sequence

from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import arguments, switch
from pinnace.cli.output.printing import DataOptions


class SchedulePruneOptions(DataOptions):
    """Show which backups of schedules the rules keep and which go, and confirm deletions that wait.

    The server deletes by itself what no rule keeps. More than ten deletions at once that nobody could expect
    wait for a day, or until this command has confirmed them. Without names: all schedules with rules. Days
    and weeks are those of the time zone in the schedule's expression, or else of the server.
    """

    names: Sequence[str] = arguments("[NAME...]")
    dry_run: bool = switch(help="Only show what is kept and what goes.")
    confirm: bool = switch(help="Confirm the deletions that wait without a question.")


prune = lazy_command(
    "prune",
    SchedulePruneOptions,
    "pinnace.cli.schedule.pruning:prune",
    noun="schedule",
    short_help="Show what the rules of schedules keep; confirm deletions that wait.",
    examples=(
        ("See what each rule keeps", "pinnace schedule prune daily --dry-run"),
        ("Confirm the deletions that wait, after a question", "pinnace schedule prune daily"),
        ("For a program", "pinnace schedule prune --dry-run -o json"),
    ),
)
