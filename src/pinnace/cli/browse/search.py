"""`backup search`."""

from collections.abc import Sequence

from pinnace.cli.browse.options import ObjectsOptions, SecretsOptions, output_format
from pinnace.cli.common.content_options import FilterOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import arguments, switch


class SearchOptions(FilterOptions, SecretsOptions, ObjectsOptions, verb="search"):
    """Search a text in the names and labels of a backup's objects, in upper or lower case.

    The exit code is 1 if it is not found. Hidden values of Secrets are only found with --show-secrets.
    """

    names: Sequence[str] = arguments("[NAME] TEXT")
    all: bool = switch(before="show_secrets", help="Search all backups.")
    content: bool = switch(
        before="show_secrets", help="Search all values and keys, not only names and labels."
    )
    output_format: str | None = output_format("table", "json", "yaml", "name")


search = lazy_command(
    "search",
    SearchOptions,
    "pinnace.cli.browse.searching:search",
    noun="backup",
    short_help="Search a text in backups.",
    paged=True,
    examples=(
        ("Which objects have a name or label with this text", "pinnace backup search shop redis"),
        ("In all backups", "pinnace backup search --all redis"),
        ("In all values, too", "pinnace backup search shop registry.example.com --content"),
    ),
)
