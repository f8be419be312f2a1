"""`snapshot-location create|get|describe|set`. (docs/spec: CLI 7.5, BEY 7.4)"""

from pinnace.cli.common.commands import describe_command, examples_of_get, get_command, group_of

get = get_command(
    "snapshot-location",
    "snapshot locations",
    examples_of_get("snapshot-location", "snapshot locations", "main"),
)

describe = describe_command(
    "snapshot-location",
    "snapshot locations",
    "main",
    help="Describe snapshot locations.",
    describer="pinnace.cli.location.describe:describe_stored_location",
)

_LOCATION = "pinnace.cli.location"
group = group_of(
    "snapshot-location",
    "Work with the locations that volume snapshots are kept in.",
    *(get, describe),
    short_help="Work with snapshot locations.",
    lazy={
        "create": f"{_LOCATION}.snapshot_create:create",
        "set": f"{_LOCATION}.snapshot_set:set_",
    },
)
