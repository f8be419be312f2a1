"""The flags that the requests of tenants share. (docs/spec: NAC)"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pinnace.cli.common.content_options import ObjectFilterOptions
from pinnace.cli.declaring.fields import Section, arguments, comma_list, flag, key_values, tristate
from pinnace.cli.declaring.types import OrSelectorFlag, SelectorFlag
from pinnace.cli.declaring.values import NEW, RESOURCES
from pinnace.cli.output.printing import OutputOptions

if TYPE_CHECKING:
    from pinnace.api.meta import LabelSelector


class RequestOptions(OutputOptions):
    """The options of every request of a tenant."""

    names: Sequence[str] = arguments("NAME", NEW)
    labels: Mapping[str, str] = key_values(help="Labels for the object: k=v,...")


class TenantFilterOptions(ObjectFilterOptions, section=Section.WHAT):
    """Which resources and objects of the namespace."""

    include_resources: Sequence[str] = comma_list(value=RESOURCES, help="Resource types, '*' for all.")
    exclude_resources: Sequence[str] = comma_list(value=RESOURCES, help="Resource types to leave out.")
    selector: "LabelSelector | None" = flag(
        "-l", "--selector", type=SelectorFlag(), help="Only objects that match this label selector."
    )
    or_selector: "Sequence[LabelSelector]" = flag(
        type=OrSelectorFlag(), default="", help="Only objects that match one of these: 'a=b or c=d'."
    )
    include_cluster_resources: bool | None = tristate(
        help="Only false is allowed: tenants have no cluster-scoped objects."
    )
