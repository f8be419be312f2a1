"""`backup`, with those of its commands that all nouns have. (docs/spec: CLI 4)"""

from pinnace.cli.common.commands import describe_command, examples_of_get, get_command, group_of, logs_command

get = get_command("backup", "backups", examples_of_get("backup", "backups", "shop"))
describe = describe_command(
    "backup",
    "backups",
    "shop",
    help="Describe backups in full.",
    describer="pinnace.cli.backup.read:describe_stored_backup",
    details="Show the resource list and the snapshots.",
)
logs = logs_command(
    "backup",
    (
        ("Print the log of a backup", "pinnace backup logs shop"),
        ("Only its errors", "pinnace backup logs shop | grep level=error"),
        ("Of a backup in a folder", "pinnace --location ./backups backup logs shop"),
    ),
)
_BACKUP = "pinnace.cli.backup"
_BROWSE = "pinnace.cli.browse"
group = group_of(
    *("backup", "Work with backups."),
    *(get, describe, logs),
    lazy={
        "create": f"{_BACKUP}.create:create",
        "download": f"{_BACKUP}.download:download",
        "explain-filters": f"{_BACKUP}.explain_filters:explain_filters",
        "delete": f"{_BACKUP}.delete:delete",
        "prune": f"{_BACKUP}.prune:prune",
        "hold": f"{_BACKUP}.hold:hold",
        "release": f"{_BACKUP}.hold:release",
        "ls": f"{_BROWSE}.ls:ls",
        "show": f"{_BROWSE}.show:show",
        "diff": f"{_BROWSE}.diff:diff",
        "search": f"{_BROWSE}.search:search",
        "verify": f"{_BROWSE}.verify:verify",
        "index": f"{_BROWSE}.index:index",
    },
)
