"""`backup ls`."""

from collections.abc import Sequence

from pinnace.cli.browse.options import ObjectsOptions, output_format
from pinnace.cli.common.content_options import FilterOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import arguments, switch
from pinnace.cli.declaring.values import BACKUP_NAME, CompletionSource, Value


class ListOptions(FilterOptions, ObjectsOptions, verb="list"):
    """List the objects in a backup.

    KIND is a resource (deployments.apps), its plural, its kind or its short name. The backup's index is read,
    or, where it has none, its tarball.
    """

    names: Sequence[str] = arguments(
        "NAME [KIND[/NAME]]", BACKUP_NAME, Value("KIND", CompletionSource.STORED), most=4
    )
    summary: bool = switch(
        before="of_namespace",
        help="Show how many items there are of each kind in each namespace, and their size.",
    )
    output_format: str | None = output_format("table", "wide", "json", "yaml", "name")


ls = lazy_command(
    "ls",
    ListOptions,
    "pinnace.cli.browse.listing:list_items",
    noun="backup",
    short_help="List what is in a backup.",
    paged=True,
    examples=(
        ("List what is in a backup", "pinnace backup ls shop"),
        ("Only the Deployments of one namespace", "pinnace backup ls everything deployments -n shop"),
        ("How much there is of each kind", "pinnace backup ls shop --summary"),
    ),
)
