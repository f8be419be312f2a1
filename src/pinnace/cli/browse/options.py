"""The options of the commands that look into backups. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinnace.cli.common.options import FetchOptions, FilterOptions

if TYPE_CHECKING:
    from pinnace.api.values.durations import Duration


class BrowseOptions(FetchOptions):
    """The options of all of them. `of_namespace` is `-n`: the namespace of the objects, not the server's."""

    names: Sequence[str]
    of_namespace: str = ""
    output_format: str | None = None


class ListOptions(BrowseOptions, FilterOptions):
    """`backup ls`."""

    summary: bool


class ShowOptions(BrowseOptions):
    """`backup show`."""

    show_secrets: bool


class DiffOptions(BrowseOptions, FilterOptions):
    """`backup diff`."""

    cluster: bool
    full: bool
    name_only: bool
    all_fields: bool
    show_secrets: bool


class HistoryOptions(BrowseOptions):
    """`history`."""

    all_fields: bool
    show_secrets: bool


class SearchOptions(BrowseOptions, FilterOptions):
    """`backup search`."""

    all: bool
    content: bool
    show_secrets: bool


class BackupVerifyOptions(BrowseOptions):
    """`backup verify`."""

    all: bool
    restic_password_file: str
    read_data: str
    ask_drivers: bool
    restore: bool
    include_namespaces: Sequence[str]
    ready_timeout: "Duration"


class IndexOptions(BrowseOptions):
    """`backup index`."""
