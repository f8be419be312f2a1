"""The options of `restore create`. Pure."""

from collections.abc import Mapping, Sequence

from pinnace.cli.common.options import FilterOptions, RestoreContentOptions, WaitOptions
from pinnace.cli.output.printing import OutputOptions


class RestoreCreateOptions(FilterOptions, RestoreContentOptions, WaitOptions, OutputOptions):
    """`restore create`."""

    names: Sequence[str]
    from_schedule: str
    namespace_mappings: Mapping[str, str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    without_volume_data: bool
    status_include_resources: Sequence[str]
    status_exclude_resources: Sequence[str]
    resource_modifier_configmap: str
    objects: Sequence[str]
    object_with_owners: bool
    with_dependencies: bool
    confirm: bool
    allow_partially_failed: bool | None
    allow_failed: bool
