"""The verb-first forms: `create backup`, `get backups`, ... (docs/spec: CLI 3)

Each is the command of the noun-first form under another name, so that the two can never differ.
"""

import click

from pinnace.cli.common.commands import CONTEXT
from pinnace.cli.declaring.commands import Group


class Verb(Group):
    """A verb's group: nouns that are loaded when called, and other words for them that no list shows."""

    def __init__(self, name: str, nouns: dict[str, tuple[str, str]], *, does: str = "") -> None:
        """`nouns` is as `lazy` of Group, `does` is for the help."""
        super().__init__(
            name=name,
            help=f"{does or name.capitalize()} {_enumerated(nouns)}.",
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


def _enumerated(nouns: dict[str, tuple[str, str]]) -> str:
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
    {
        "backup": ("pinnace.cli.backup.create:create", "Create a backup."),
        "restore": ("pinnace.cli.restore.create:create", "Create a restore."),
        "schedule": ("pinnace.cli.schedule.create:create", "Create a schedule."),
        "backup-location": (f"{_LOCATION}.backup_create:create", "Create a backup location."),
        "snapshot-location": (f"{_LOCATION}.snapshot_create:create", "Create a snapshot location."),
    },
)
get = Verb(
    "get",
    {
        "backups": (f"{_BACKUP}:get", "List backups."),
        "restores": (f"{_RESTORE}:get", "List restores."),
        "schedules": (f"{_SCHEDULE}:get", "List schedules."),
        "backup-locations": (f"{_LOCATION}.backup_get:get", "List backup locations."),
        "snapshot-locations": (f"{_SNAPSHOT_LOCATION}:get", "List snapshot locations."),
        "plugins": ("pinnace.cli.plugin.get:get", "List the plugins of the server."),
        "repos": ("pinnace.cli.process.restic:get", "List repositories of volume data."),
    },
    does="List",
)
describe = Verb(
    "describe",
    {
        "backups": (f"{_BACKUP}:describe", "Describe backups."),
        "restores": (f"{_RESTORE}:describe", "Describe restores."),
        "schedules": (f"{_SCHEDULE}:describe", "Describe schedules."),
        "backup-locations": (f"{_BACKUP_LOCATION}:describe", "Describe backup locations."),
        "snapshot-locations": (f"{_SNAPSHOT_LOCATION}:describe", "Describe snapshot locations."),
    },
)
delete = Verb(
    "delete",
    {
        "backup": ("pinnace.cli.backup.delete:delete", "Delete backups and everything that belongs to them."),
        "restore": (f"{_RESTORE}:delete", "Delete restores."),
        "schedule": (f"{_SCHEDULE}:delete", "Delete schedules; their backups stay."),
        "backup-location": (
            f"{_BACKUP_LOCATION}:delete",
            "Delete backup locations; the stored backups stay.",
        ),
    },
)
