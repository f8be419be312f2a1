"""`schedule create`. (docs/spec: CLI 6, BEY 7.1)"""

from collections.abc import Sequence

import click

from pinnace.cli.common.content_options import BackupSpecOptions, MetadataOptions, OperationTimeoutOptions
from pinnace.cli.common.refused import OF_BACKUPS, refused
from pinnace.cli.common.retention_options import RetentionOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import arguments, flag, switch, text, tristate
from pinnace.cli.declaring.values import NEW, Value
from pinnace.cli.output.printing import CreateOptions

CRON = Value(
    "CRON",
    words=(
        *("@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@every"),
        *("@hourly-random", "@daily-random", "@weekly-random", "@monthly-random", "@yearly-random"),
    ),
    like="'0 3 * * *', @daily-random, '@every 6h'",
)


class ScheduleCreateOptions(
    BackupSpecOptions,
    OperationTimeoutOptions,
    MetadataOptions,
    RetentionOptions,
    CreateOptions,
    kind="Schedule",
):
    """Create a schedule of backups that a server makes.

    The schedule is a cron expression of five fields, or '@every' and a duration. Its times are those of the
    server's time zone, which is UTC in the image; 'CRON_TZ=Europe/Berlin 0 7 * * *' names another.
    '@daily-random' is a time of the day that each schedule keeps, spread over those that there are.

    \b
    .------------- minute (0-59)
    | .----------- hour (0-23)
    | | .--------- day of the month (1-31)
    | | | .------- month (1-12)
    | | | | .----- day of the week (0-6, Sunday is 0)
    | | | | |
    0 7 * * *
    """

    names: Sequence[str] = arguments("NAME", NEW)
    schedule: str = text(
        value=CRON, before="ttl", help="When to make backups: a cron expression, or '@every 6h'. Required."
    )
    use_owner_references_in_backup: bool = switch(
        before="labels",
        help="Make the schedule the owner of its backups: deleting it deletes the Backup objects.",
    )
    paused: bool = switch(
        before="labels", help="Create the schedule paused: it makes no backups until it is unpaused."
    )
    skip_immediately: bool | None = tristate(
        before="labels",
        help="Whether a backup that is due at once is left out; the server's setting if not given.",
    )
    not_during: str = text(
        value=Value("WINDOWS", like="'Mon-Fri 08:00-18:00; Sun 22:00-04:00'"),
        before="labels",
        help="Windows in the time zone of the schedule. A backup that is due in one is made at its end.",
    )
    catch_up: str = flag(
        type=click.Choice(["none", "last"]),
        default="last",
        before="labels",
        help="What becomes of backups that could not begin within ten minutes, as no server ran: one is made"
        " for all of them, or none.",
    )
    allow_overlap: bool = switch(
        before="labels",
        help="Let a backup begin while the one before it still reads the cluster. It waits otherwise.",
    )
    verify: str = text(
        value=Value("CRON"),
        before="labels",
        help="When the server verifies the newest backup of the schedule, as `backup verify` does: a cron"
        " expression, or '@daily'.",
    )
    verify_read_data: str = text(
        value=Value("SHARE"),
        before="labels",
        help="With --verify: how much of the data in restic and kopia repositories is read, such as 10%.",
    )


create = lazy_command(
    "create",
    ScheduleCreateOptions,
    "pinnace.cli.schedule.creating:create",
    noun="schedule",
    short_help="Create a schedule.",
    also=refused(OF_BACKUPS),
    examples=(
        (
            "Each day at 3, kept for two weeks",
            "pinnace schedule create daily --schedule '0 3 * * *' --ttl 2w",
        ),
        (
            "Keep one of each of 7 days and 12 months",
            "pinnace schedule create daily --schedule @daily --keep-daily 7 --keep-monthly 12",
        ),
        (
            "Every six hours, one namespace",
            "pinnace schedule create shop --schedule '@every 6h' --include-namespaces shop",
        ),
        (
            "Once a day at a time drawn for it, and not during office hours in Berlin",
            "pinnace schedule create web --schedule 'CRON_TZ=Europe/Berlin @daily-random'"
            " --not-during 'Mon-Fri 08:00-18:00'",
        ),
        (
            "See what would be created",
            "pinnace schedule create daily --schedule @daily --dry-run=client -o yaml",
        ),
    ),
)
