"""`history`."""

from collections.abc import Sequence

from pinnace.cli.browse.options import ObjectsOptions, SecretsOptions, output_format
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import arguments, switch
from pinnace.cli.declaring.values import STORED


class HistoryOptions(SecretsOptions, ObjectsOptions):
    """Show the backups where an object appeared, changed or disappeared, oldest first, with the fields."""

    names: Sequence[str] = arguments("KIND/NAME", STORED, most=3)
    all_fields: bool = switch(
        before="show_secrets", help="Count changes of the status, too, and of what the API server sets."
    )
    output_format: str | None = output_format("table", "wide", "json", "yaml", "name")


history = lazy_command(
    "history",
    HistoryOptions,
    "pinnace.cli.browse.tracing:history",
    short_help="Show the backups where an object changed.",
    paged=True,
    examples=(
        ("The backups where a Deployment changed", "pinnace history deployment/web -n shop"),
        ("With its status", "pinnace history deployment/web -n shop --all-fields"),
        ("For a program", "pinnace history configmap/settings -n shop -o json"),
    ),
)
