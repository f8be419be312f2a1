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
        "create": (f"{_BACKUP}.create:create", "Create a backup."),
        "download": (f"{_BACKUP}.download:download", "Download the contents of a backup."),
        "delete": (f"{_BACKUP}.delete:delete", "Delete backups and everything that belongs to them."),
        "ls": (f"{_BROWSE}.ls:ls", "List what is in a backup."),
        "show": (f"{_BROWSE}.show:show", "Show one object of a backup."),
        "diff": (f"{_BROWSE}.diff:diff", "Compare two backups, or a backup with the cluster."),
        "search": (f"{_BROWSE}.search:search", "Search a text in backups."),
        "verify": (f"{_BROWSE}.verify:verify", "Check that backups are whole."),
        "index": (f"{_BROWSE}.index:index", "Write the index of a backup that has none."),
    },
)
