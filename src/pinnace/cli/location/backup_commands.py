"""`backup-location create|get|describe|set|delete`. (docs/spec: CLI 7.1-7.4)"""

from typing import TYPE_CHECKING

from pinnace.cli.common.commands import delete_command, describe_command, group_of
from pinnace.cli.location.backup_create import create
from pinnace.cli.location.backup_get import get
from pinnace.cli.location.backup_set import set_

if TYPE_CHECKING:
    from pinnace.cli.common.describing import Describer


def _describer() -> "Describer":
    from pinnace.cli.location.describe import describe_stored_location

    return describe_stored_location


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
    describer=_describer,
)

group = group_of(
    "backup-location",
    "Work with the locations that backups are kept in.",
    create,
    get,
    describe,
    set_,
    delete,
)
