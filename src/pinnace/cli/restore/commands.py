"""`restore`, with those of its commands that all nouns have. (docs/spec: CLI 5)"""

from pinnace.cli.common.commands import (
    delete_command,
    describe_command,
    examples_of_get,
    get_command,
    group_of,
    logs_command,
)

get = get_command("restore", "restores", examples_of_get("restore", "restores", "shop-again"))
describe = describe_command(
    "restore",
    "restores",
    "shop-again",
    help="Describe restores in full, warnings and errors included.",
    describer="pinnace.cli.restore.read:describe_stored_restore",
    details="Show each volume.",
)
logs = logs_command(
    "restore",
    (
        ("Print the log of a restore", "pinnace restore logs shop-again"),
        ("Only its warnings", "pinnace restore logs shop-again | grep level=warning"),
        (
            "Of a restore that was made without a server",
            "pinnace --location ./backups restore logs shop-again",
        ),
    ),
)
delete = delete_command(
    "restore",
    "restores",
    short_help="Delete restores.",
    help="Delete Restore objects (with --location: their files); what was restored stays in the cluster.",
    examples=(
        ("Delete one; what it restored stays", "pinnace restore delete shop-again"),
        ("Delete two without a question", "pinnace restore delete first second --confirm"),
        ("Delete all", "pinnace restore delete --all"),
    ),
)
group = group_of(
    "restore",
    "Work with restores.",
    *(get, describe, logs, delete),
    lazy={"create": "pinnace.cli.restore.create:create", "resume": "pinnace.cli.restore.resume:resume"},
)
