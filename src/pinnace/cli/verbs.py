"""The verb-first forms: `create backup`, `get backups`, ... (docs/spec: CLI 3)

Each is the command of the noun-first form under another name, so that the two can never differ.
"""

import click

from pinnace.cli.common.commands import CONTEXT
from pinnace.cli.declaring.commands import Group


class Verb(Group):
    """A verb's group: nouns that are loaded when called, and other words for them that no list shows."""

    def __init__(self, name: str, short_help: str, nouns: dict[str, str], *, does: str = "") -> None:
        """`nouns` is as `lazy` of Group, `does` is for the help."""
        super().__init__(
            name=name,
            help=f"{does or name.capitalize()} {_enumerated(nouns)}.",
            short_help=short_help,
            context_settings=CONTEXT,
            lazy=nouns,
            has_nouns=True,
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Also takes TYPE/NAME, which stays an argument of the command."""
        word, slash, _ = args[0].partition("/")
        known = slash and self.get_command(ctx, word) is not None
        return super().resolve_command(ctx, [word, *args] if known else args)


def _enumerated(nouns: dict[str, str]) -> str:
    """`backups, restores and schedules`."""
    plurals = [noun if noun.endswith("s") else f"{noun}s" for noun in nouns]
    return f"{', '.join(plurals[:-1])} and {plurals[-1]}"


_BACKUP = "pinnace.cli.backup.commands"
_RESTORE = "pinnace.cli.restore.commands"
_SCHEDULE = "pinnace.cli.schedule.commands"
_LOCATION = "pinnace.cli.location"
_BACKUP_LOCATION = "pinnace.cli.location.backup_commands"
_SNAPSHOT_LOCATION = "pinnace.cli.location.snapshot_commands"

create = Verb(
    "create",
    "Create backups, restores, schedules and locations.",
    {
        "backup": "pinnace.cli.backup.create:create",
        "restore": "pinnace.cli.restore.create:create",
        "schedule": "pinnace.cli.schedule.create:create",
        "backup-location": f"{_LOCATION}.backup_create:create",
        "snapshot-location": f"{_LOCATION}.snapshot_create:create",
    },
)
get = Verb(
    "get",
    "List backups, restores, schedules, locations and plugins.",
    {
        "backups": f"{_BACKUP}:get",
        "restores": f"{_RESTORE}:get",
        "schedules": f"{_SCHEDULE}:get",
        "backup-locations": f"{_LOCATION}.backup_get:get",
        "snapshot-locations": f"{_SNAPSHOT_LOCATION}:get",
        "plugins": "pinnace.cli.plugin.get:get",
        "repos": "pinnace.cli.process.restic:get",
    },
    does="List",
)
describe = Verb(
    "describe",
    "Describe backups, restores and schedules.",
    {
        "backups": f"{_BACKUP}:describe",
        "restores": f"{_RESTORE}:describe",
        "schedules": f"{_SCHEDULE}:describe",
        "backup-locations": f"{_BACKUP_LOCATION}:describe",
        "snapshot-locations": f"{_SNAPSHOT_LOCATION}:describe",
    },
)
delete = Verb(
    "delete",
    "Delete backups, restores, schedules and locations.",
    {
        "backup": "pinnace.cli.backup.delete:delete",
        "restore": f"{_RESTORE}:delete",
        "schedule": f"{_SCHEDULE}:delete",
        "backup-location": f"{_BACKUP_LOCATION}:delete",
    },
)
