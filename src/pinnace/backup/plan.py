"""The ordered list of resources that a backup collects, and their list calls. Pure. (docs/spec: BKP 4, 5)"""

from collections.abc import Callable, Iterable, Mapping
from typing import Self

import msgspec

from pinnace.api.kinds import NAMESPACES
from pinnace.api.selection.filter_policies import NO_POLICIES, ResolvedPolicies
from pinnace.api.selection.label_choice import LabelChoice
from pinnace.api.selection.names import EVERYTHING, IncludesExcludes, is_glob
from pinnace.api.selection.resource_filters import ResourceFilter
from pinnace.api.velero.backup import BackupSpec
from pinnace.backup.namespaces import NamespaceFacts
from pinnace.kube.resources import APIResource

_COHABITATING: Mapping[str, frozenset[str]] = {
    "deployments": frozenset({"extensions", "apps"}),
    "daemonsets": frozenset({"extensions", "apps"}),
    "replicasets": frozenset({"extensions", "apps"}),
    "networkpolicies": frozenset({"extensions", "networking.k8s.io"}),
    "events": frozenset({"", "events.k8s.io"}),
}
"""Plurals whose objects are served by two groups at once. (docs/spec: BKP 5.6)"""

_ALL_NAMESPACES = ("",)


class Listing(msgspec.Struct, frozen=True):
    """The list calls that together return every chosen object of a kind in a namespace.

    Attributes:
        queries: label selectors, one for each call.
        is_chosen_here: whether the lists have more than what is chosen, so that `BackupFilter.takes` decides.
    """

    queries: tuple[str, ...]
    is_chosen_here: bool


class BackupFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of a backup, with names resolved.

    Attributes:
        namespaces: the lists of the spec; `admits_namespace` also applies labels.
        listed_namespaces: the namespaces to list one by one, or None for one call across all.
        left_out_namespaces: those that their label leaves out, and those that are being deleted.
        missing_namespaces: included names that do not exist.
        named: the same as `listed_namespaces`, as a set.
        policies: decide in place of `labels` where a policy is for the namespace or the cluster-scoped kind.
    """

    namespaces: IncludesExcludes
    resources: ResourceFilter
    labels: LabelChoice
    listed_namespaces: tuple[str, ...] | None
    ordered: Mapping[str, tuple[str, ...]]
    left_out_namespaces: frozenset[str] = frozenset()
    missing_namespaces: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    policies: ResolvedPolicies = NO_POLICIES

    @classmethod
    def of(
        cls,
        spec: BackupSpec,
        *,
        resources: ResourceFilter,
        facts: NamespaceFacts,
        policies: ResolvedPolicies = NO_POLICIES,
    ) -> Self:
        """Read a spec.

        Args:
            spec: of a prepared Backup.
            resources: the filter of the spec's resource lists.
            facts: of the namespaces that the spec names.
            policies: the filter policies of the resource policies that the spec names.

        Raises:
            ValueError: the label selector is not valid.
        """
        namespaces = IncludesExcludes(spec.included_namespaces, spec.excluded_namespaces)
        listed = _listed_namespaces(namespaces, facts)
        return cls(
            namespaces=namespaces,
            resources=resources,
            labels=LabelChoice.of(spec.label_selector, spec.or_label_selectors),
            listed_namespaces=listed,
            named=frozenset(listed or ()),
            ordered={kind: tuple(names.split(",")) for kind, names in spec.ordered_resources.items()},
            left_out_namespaces=facts.left_out,
            missing_namespaces=facts.missing,
            policies=policies,
        )

    def admits_namespace(self, name: str) -> bool:
        """Whether a namespace and what it contains may be in the backup."""
        return name not in self.left_out_namespaces and self.namespaces.matches(name)

    def takes_from(self, namespace: str) -> bool:
        """Whether objects of a namespace may be in the backup that a list of all namespaces has.

        Only a namespace that was there when the backup looked is listed, and so it is here.
        """
        if self.listed_namespaces is not None:
            return namespace in self.named
        return self.admits_namespace(namespace)

    def admits(self, group_resource: str, namespace: str, name: str) -> bool:
        """Whether an item may be in the backup, also for another one. (docs/spec: BKP 6.1, rules 2-4)"""
        if namespace and not self.admits_namespace(namespace):
            return False
        if not self.resources.admits(group_resource, namespaced=bool(namespace)):
            return False
        return not self.policies or self.policies.admits_needed(group_resource, namespace, name)

    def listing(self, resource: APIResource, namespace: str) -> Listing | None:
        """How the objects of a kind are listed; None if a policy leaves out all of them.

        Args:
            namespace: empty for cluster-scoped objects, and for the objects of all namespaces at once.
        """
        usual = Listing(self.labels.queries, self.labels.chooses_locally)
        if not self.policies:
            return usual
        if resource.group_resource == NAMESPACES.group_resource:
            return Listing(usual.queries, is_chosen_here=True)  # a policy chooses them by name
        if resource.namespaced and not namespace:
            return Listing(("",), is_chosen_here=True) if self.policies.has_namespaces else usual
        ruling = self.policies.ruling(resource.group_resource, namespace)
        if ruling is None:
            return usual
        return None if ruling.filter is None else Listing(ruling.filter.labels.queries, is_chosen_here=True)

    def takes(self, group_resource: str, namespace: str, name: str, labels: Mapping[str, str] | None) -> bool:
        """Whether the name and the labels of an object choose it, by its policy or by the spec."""
        ruling = self.policies.ruling(group_resource, namespace) if self.policies else None
        if group_resource == NAMESPACES.group_resource:
            # A restore needs the namespaces of what it creates, so that the labels of a policy do not count.
            is_named = ruling is None or ruling.filter is None or ruling.filter.names.matches(name)
            return is_named and self.labels.matches(labels)
        return self.labels.matches(labels) if ruling is None else ruling.takes(name, labels)

    def takes_related(
        self, group_resource: str, namespace: str, name: str, labels: Mapping[str, str] | None
    ) -> bool:
        """As `takes`, for an object that an action groups with another; unlisted kinds come along, too."""
        ruling = self.policies.ruling(group_resource, namespace) if self.policies else None
        return (ruling is not None and ruling.filter is None) or self.takes(
            group_resource, namespace, name, labels
        )


def _listed_namespaces(namespaces: IncludesExcludes, facts: NamespaceFacts) -> tuple[str, ...] | None:
    """The namespaces to list one by one; None for all at once. (docs/spec: BKP 4.3)"""
    if namespaces.matches(EVERYTHING):
        return None
    literal = {name for name in namespaces.includes if not is_glob(name)}
    candidates = (literal | facts.existing) - facts.left_out
    return tuple(sorted(name for name in candidates if namespaces.matches(name)))


class PlannedResource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource to collect.

    Attributes:
        resource: what to collect, in the version to collect.
        namespaces: one list call each; `("",)` is one call for everything.
        names: instead of listing, fetch these by name (namespaces only).
        order: names to collect first, as the spec has them.
    """

    resource: APIResource
    namespaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    order: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The resources in the order of collection, and those that could not be resolved."""

    resources: tuple[PlannedResource, ...]
    unresolved: tuple[APIResource, ...] = ()


def plan_collection(
    resources: Iterable[APIResource], scope: BackupFilter, preferred: Callable[[str], APIResource | None]
) -> Plan:
    """Decide what to collect. (docs/spec: BKP 5.1, 5.2)

    Args:
        resources: what discovery found, in the order of collection.
        scope: what the backup admits.
        preferred: gives the preferred version of a group-resource.
    """
    planned: list[PlannedResource] = []
    unresolved: list[APIResource] = []
    met: dict[str, str] = {}
    for resource in resources:
        if preferred(resource.group_resource) is None:
            unresolved.append(resource)
        elif _is_wanted(resource, scope) and _is_first_of_cohabitants(resource, met):
            planned.append(_planned(resource, scope))
    return Plan(resources=tuple(planned), unresolved=tuple(unresolved))


def _is_wanted(resource: APIResource, scope: BackupFilter) -> bool:
    return scope.resources.collects(
        resource.group_resource,
        namespaced=resource.namespaced,
        all_namespaces=scope.namespaces.includes_everything,
    )


def _is_first_of_cohabitants(resource: APIResource, met: dict[str, str]) -> bool:
    """Whether the resource's objects have not been met under another group; remembers the group in `met`."""
    if resource.group not in _COHABITATING.get(resource.name, ()):
        return True
    return met.setdefault(resource.name, resource.group) == resource.group


def _planned(resource: APIResource, scope: BackupFilter) -> PlannedResource:
    if resource.group_resource == NAMESPACES.group_resource and scope.listed_namespaces is not None:
        names = tuple(name for name in scope.listed_namespaces if name not in scope.missing_namespaces)
        return PlannedResource(resource=resource, names=names)
    namespaces = scope.listed_namespaces if resource.namespaced else None
    return PlannedResource(
        resource=resource,
        namespaces=_ALL_NAMESPACES if namespaces is None else namespaces,
        order=scope.ordered.get(resource.name, ()),
    )
