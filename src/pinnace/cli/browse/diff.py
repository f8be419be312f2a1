"""`backup diff`."""

from collections.abc import Sequence

from pinnace.cli.browse.options import ObjectsOptions, SecretsOptions, output_format
from pinnace.cli.common.content_options import FilterOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import arguments, switch


class DiffOptions(FilterOptions, SecretsOptions, ObjectsOptions, verb="compare"):
    """Show which objects were added, removed or changed between two backups, with the changed fields.

    With --cluster, between a backup and the cluster; only types that the backup has objects of are compared.
    The exit code is 0 if nothing differs, 1 if something does, and 2 in case of trouble.
    """

    names: Sequence[str] = arguments("A [B]")
    cluster: bool = switch(before="show_secrets", help="Compare with the cluster as it is now.")
    full: bool = switch(before="show_secrets", help="Show whole objects as a unified difference of YAML.")
    name_only: bool = switch(before="show_secrets", help="Show only which objects differ.")
    all_fields: bool = switch(
        before="show_secrets", help="Compare the status, too, and what the API server sets in the metadata."
    )
    output_format: str | None = output_format("table", "json", "yaml", "name")


diff = lazy_command(
    "diff",
    DiffOptions,
    "pinnace.cli.browse.diffing:diff",
    noun="backup",
    short_help="Compare two backups, or a backup with the cluster.",
    paged=True,
    exits_like_diff=True,
    examples=(
        ("What changed between two backups", "pinnace backup diff monday tuesday"),
        ("What changed in the cluster since", "pinnace backup diff shop --cluster"),
        (
            "Whole objects of one kind",
            "pinnace backup diff monday tuesday --include-resources deployments --full",
        ),
    ),
)
