"""`backup-location create|get|describe|set|delete`. (docs/spec: CLI 7.1-7.4)"""

from pinnace.cli.common.commands import delete_command, describe_command, group_of

delete = delete_command(
    "backup-location",
    "backup locations",
    short_help="Delete backup locations; the stored backups stay.",
    help="Delete backup locations from the cluster. What is stored in them stays.",
    examples=(
        ("Delete one; what is stored in it stays", "pinnace backup-location delete old"),
        ("Delete two without a question", "pinnace backup-location delete old older --confirm"),
        ("Delete those with a label", "pinnace backup-location delete -l team=web"),
    ),
)

describe = describe_command(
    "backup-location",
    "backup locations",
    "main",
    help="Describe backup locations: phase, message, settings.",
    describer="pinnace.cli.location.describe:describe_stored_location",
)

_LOCATION = "pinnace.cli.location"
group = group_of(
    "backup-location",
    "Work with the locations that backups are kept in.",
    *(describe, delete),
    short_help="Work with backup locations.",
    lazy={
        "create": f"{_LOCATION}.backup_create:create",
        "get": f"{_LOCATION}.backup_get:get",
        "rekey": f"{_LOCATION}.rekey:rekey",
        "set": f"{_LOCATION}.backup_set:set_",
        "sign-key": f"{_LOCATION}.sign_key:sign_key",
    },
)
