"""`backup`, with those of its commands that all nouns have. (docs/spec: CLI 4)"""

from typing import TYPE_CHECKING

from pinnace.cli.backup.create import create
from pinnace.cli.backup.delete import delete
from pinnace.cli.backup.download import download
from pinnace.cli.common.commands import describe_command, examples_of_get, get_command, group_of, logs_command

if TYPE_CHECKING:
    from pinnace.cli.common.describing import Describer


def _describer() -> "Describer":
    from pinnace.cli.backup.read import describe_stored_backup

    return describe_stored_backup


get = get_command("backup", "backups", examples_of_get("backup", "backups", "shop"))
describe = describe_command(
    "backup",
    "backups",
    "shop",
    help="Describe backups in full.",
    describer=_describer,
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
_BROWSE = "pinnace.cli.browse"
group = group_of(
    *("backup", "Work with backups."),
    *(create, get, describe, logs, download, delete),
    lazy={
        "ls": (f"{_BROWSE}.ls:ls", "List what is in a backup."),
        "show": (f"{_BROWSE}.show:show", "Show one object of a backup."),
        "diff": (f"{_BROWSE}.diff:diff", "Compare two backups, or a backup with the cluster."),
        "search": (f"{_BROWSE}.search:search", "Search a text in backups."),
        "verify": (f"{_BROWSE}.verify:verify", "Check that backups are whole."),
        "index": (f"{_BROWSE}.index:index", "Write the index of a backup that has none."),
    },
)
