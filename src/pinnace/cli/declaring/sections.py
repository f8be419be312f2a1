"""The section of the help for each flag, and the line about it."""

from typing import Final

import click

from pinnace.cli.declaring.fields import FlagOption
from pinnace.cli.declaring.tables import noun_first, value_of

_SECTIONS: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    (
        "What",
        frozenset(
            {"include_namespaces", "exclude_namespaces", "include_resources", "exclude_resources", "selector"}
            | {"or_selector", "include_cluster_resources", "include_cluster_scoped_resources"}
            | {"exclude_cluster_scoped_resources", "include_namespace_scoped_resources", "ordered_resources"}
            | {"exclude_namespace_scoped_resources", "resource_policies_configmap", "resource_policies"}
            | {"from_backup", "from_schedule"}
            | {"namespace_mappings", "existing_resource_policy", "status_include_resources"}
            | {"status_exclude_resources", "resource_modifier_configmap", "preserve_nodeports"}
        ),
    ),
    ("Where", frozenset({"storage_location", "bucket", "prefix", "provider", "config", "credential"})),
    (
        "Volumes",
        frozenset(
            {"snapshot_volumes", "default_volumes_to_restic", "csi_snapshot_timeout", "restore_volumes"}
            | {"volume_snapshot_locations", "without_volume_data", "snapshot_move_data", "data_mover"}
            | {"parallel_files_upload", "parallel_files_download", "write_sparse_files"}
        ),
    ),
    (
        "Output",
        frozenset(
            {"output_format", "label_columns", "show_labels", "dry_run", "wait", "exit_code", "progress"}
            | {"watch", "no_headers", "sort_by"}
        ),
    ),
)
"""The sections and their flags; all other flags belong to Options."""
_OTHERS: Final = "Options"
CONNECTION: Final = "Connection"
_ORDER: Final = (*(title for title, _ in _SECTIONS), _OTHERS, CONNECTION)


def flags_of(command: click.Command, context: click.Context) -> dict[str, list[tuple[str, str]]]:
    """The flags that are shown, by section: each with the word for its value, and its help.

    The flags of all commands come last.
    """
    sections: dict[str, list[tuple[str, str]]] = {title: [] for title in _ORDER}
    path = noun_first(context.command_path.split()[1:])
    for param in command.get_params(context):
        if isinstance(param, click.Option) and not param.hidden:
            sections[_section(param)].append(_line(param, path, context))
    return {title: lines for title, lines in sections.items() if lines}


def write_flags(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the flags in their sections."""
    for title, lines in flags_of(command, context).items():
        with formatter.section(title):
            formatter.write_dl(lines)


def _section(param: click.Option) -> str:
    if isinstance(param, FlagOption):
        return param.section
    name = param.name or ""
    return next((title for title, names in _SECTIONS if name in names), _OTHERS)


def _line(param: click.Option, path: str, context: click.Context) -> tuple[str, str]:
    """`--ttl DURATION`, and the sentence about it with an example of its value."""
    value = value_of(path, param)
    if param.metavar is None:
        param.metavar = value.word
    names, text = param.get_help_record(context) or ("", "")
    if getattr(param.type, "tristate", False) and param.metavar == "":
        names = f"{names.rstrip()}[=true|false]"
    text, bracket, extra = text.partition("  [")
    if value.like:
        text = f"{text.rstrip('.')} (such as {value.like})."
    return names.rstrip(), f"{text}{bracket}{extra}"
