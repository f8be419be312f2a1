"""`schedule`, with those of its commands that all nouns have. (docs/spec: CLI 6)"""

from pinnace.cli.common.commands import (
    delete_command,
    describe_command,
    examples_of_get,
    get_command,
    group_of,
)

get = get_command("schedule", "schedules", examples_of_get("schedule", "schedules", "daily"))
describe = describe_command(
    "schedule",
    "schedules",
    "daily",
    help="Describe schedules in full, with the template of their backups.",
    describer="pinnace.cli.schedule.describe:describe_stored_schedule",
)
delete = delete_command(
    "schedule",
    "schedules",
    short_help="Delete schedules; their backups stay.",
    help="Delete schedules. What they have backed up stays, unless they own their Backup objects.",
    examples=(
        ("Delete one; its backups stay", "pinnace schedule delete daily"),
        ("Delete two without a question", "pinnace schedule delete daily weekly --confirm"),
        ("Delete those with a label", "pinnace schedule delete -l team=web"),
    ),
)
_SCHEDULE = "pinnace.cli.schedule"
group = group_of(
    "schedule",
    "Work with schedules.",
    *(get, describe, delete),
    lazy={
        "create": f"{_SCHEDULE}.create:create",
        "run": f"{_SCHEDULE}.run:run",
        "pause": f"{_SCHEDULE}.pause:pause",
        "prune": f"{_SCHEDULE}.prune:prune",
        "unpause": f"{_SCHEDULE}.pause:unpause",
    },
)
