"""The options of `restore create`. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pinnace.cli.common.options import FilterOptions, WaitOptions
from pinnace.cli.output.printing import OutputOptions

if TYPE_CHECKING:
    from pinnace.api.values.durations import Duration


@dataclass(frozen=True, kw_only=True)
class RestoreCreateOptions(FilterOptions, WaitOptions, OutputOptions):
    """`restore create`."""

    names: Sequence[str]
    from_backup: str
    from_schedule: str
    namespace_mappings: Mapping[str, str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    restore_volumes: bool | None
    without_volume_data: bool
    preserve_nodeports: bool | None
    existing_resource_policy: str | None
    status_include_resources: Sequence[str]
    status_exclude_resources: Sequence[str]
    resource_modifier_configmap: str
    objects: Sequence[str]
    object_with_owners: bool
    with_dependencies: bool
    write_sparse_files: bool | None
    parallel_files_download: int
    confirm: bool
    allow_partially_failed: bool | None
    item_operation_timeout: "Duration | None"
