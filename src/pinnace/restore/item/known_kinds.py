"""The kinds of a restore: those that the cluster serves, its filters, actions and statuses."""

import re
from collections.abc import Collection
from typing import Final

import msgspec
from msgspec.structs import replace

from pinnace.api.objects import JSONObject
from pinnace.api.selection.filter_policies import FilterPolicies
from pinnace.api.velero.restore import RestoreSpec
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.restore.actions import RestoreActions
from pinnace.restore.errors import ResourceError
from pinnace.restore.item.statuses import StatusFilter
from pinnace.restore.selection.collect import RestoreFilter
from pinnace.restore.selection.left_out import canonical_names
from pinnace.restore.selection.reading import ItemRef

_VERSION: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


class KnownKinds(msgspec.Struct, kw_only=True):
    """The kinds of one restore, resolved by what the cluster serves.

    Attributes:
        archived: the kinds of the backup.
    """

    spec: RestoreSpec
    policies: FilterPolicies
    archived: Collection[str]
    discovery: Discovery
    filters: RestoreFilter
    actions: RestoreActions
    statuses: StatusFilter

    def renew(self, discovery: Discovery) -> None:
        """Resolve everything again by a newer discovery, which has the kinds of restored definitions."""
        canonical = canonical_names(discovery, self.archived)
        filters = RestoreFilter.from_spec(self.spec, canonical, self.policies)
        self.discovery = discovery
        self.filters = replace(filters, objects=self.filters.objects)
        self.actions = self.actions.with_discovery(discovery.canonical)
        self.statuses = StatusFilter.from_spec(self.spec, discovery.canonical, allowed=self.statuses.allowed)

    def resource_for(self, ref: ItemRef, item: JSONObject) -> APIResource:
        """The API resource to create the item with.

        Raises:
            ResourceError: there is no such resource.
            ItemError: the resource is of another kind than the item.
        """
        version = item["apiVersion"].rpartition("/")[2]
        resource = self.discovery.served(ref.group_resource, version)
        if resource is None:
            preferred = self.discovery.preferred(ref.group_resource)
            if preferred is None or not _VERSION.fullmatch(version):
                raise ResourceError(
                    ref.notice(
                        Code.KIND_NOT_SERVED,
                        f'error getting resource client for namespace "{ref.target_namespace}", '
                        f'resource "{ref.group_resource}": the server does not serve it in version'
                        f' "{version}"',
                    )
                )
            # Discovery may know preferred versions only; the create call decides.
            resource = replace(preferred, version=version)
        if resource.kind != item["kind"]:
            raise ref.error(Code.KIND_DIFFERS, f'its kind is "{item["kind"]}", not {resource.kind}')
        if resource.namespaced != bool(ref.target_namespace):
            scope = "namespaced" if resource.namespaced else "cluster-scoped"
            raise ref.error(Code.KIND_DIFFERS, f"{resource.kind} is {scope} in this cluster")
        return resource


def kind_of(item: JSONObject) -> str:
    """`apps/v1/Deployment`: how the resource list names the kind of an object."""
    return f"{item['apiVersion']}/{item['kind']}"
