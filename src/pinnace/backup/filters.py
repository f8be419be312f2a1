"""Warns in the log of a backup about filters that are probably mistakes. (docs/spec: BKP 4.2, ADR 023)"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from pinnace.api.nonadmin.exclusions import ALWAYS_EXCLUDED
from pinnace.api.selection.filter_policies import CLUSTER, NAMESPACED, FilterPolicies
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.resource_filters import EXCLUDED_BY_SERVERS, ResourceFilter, ScopedLists
from pinnace.api.values.counts import counted, first_names
from pinnace.api.velero.backup import BackupSpec
from pinnace.archive.runlog import RunLog
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import UnknownResource
from pinnace.kube.unserved import unserved_names
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice

NOTHING_SELECTED: Final = (
    "The backup is empty: its filters select no object that exists. Compare included namespaces, included"
    " resources and label selector with what the cluster has"
)

_MOST_EXAMPLES: Final = 3


def included_kinds(spec: BackupSpec) -> list[str]:
    """The names in all lists of included resources."""
    return [
        *spec.included_resources,
        *spec.included_cluster_scoped_resources,
        *spec.included_namespace_scoped_resources,
    ]


def warn_of_unserved_names(spec: BackupSpec, discovery: Discovery, log: RunLog) -> None:
    """Log every kind named in a filter that the cluster does not serve.

    An included one is an error: what the backup was asked for is not in it. An excluded one, one of a hook
    or of an order, and a pattern are warnings: the kind may rightly be absent here. What self-service
    excludes from every backup of a tenant, and a server of Velero from every backup, is no reason for one.
    """
    excluded = [
        *spec.excluded_resources,
        *spec.excluded_cluster_scoped_resources,
        *spec.excluded_namespace_scoped_resources,
    ]
    for found in unserved_names(included_kinds(spec), discovery):
        write = log.warning if found.is_pattern else log.error
        write(Notice(Code.FILTER_MATCHES_NOTHING, f"Cannot back up an included resource: {found.text}"))
    chosen = [name for name in excluded if name not in ALWAYS_EXCLUDED and name not in EXCLUDED_BY_SERVERS]
    for found in unserved_names(chosen, discovery):
        log.warning(
            Notice(Code.FILTER_MATCHES_NOTHING, f"An excluded resource excludes nothing: {found.text}")
        )
    for found in unserved_names(spec.ordered_resources, discovery):
        log.warning(
            Notice(Code.FILTER_MATCHES_NOTHING, f"The order of a resource has no effect: {found.text}")
        )
    for entry in spec.hooks.resources:
        for found in unserved_names([*entry.included_resources, *entry.excluded_resources], discovery):
            log.warning(
                Notice(
                    Code.FILTER_MATCHES_NOTHING,
                    f"A resource filter of the hooks {entry.name!r} has no effect: {found.text}",
                )
            )


def warn_of_filter_policies(
    policies: FilterPolicies, resources: ResourceFilter, discovery: Discovery, log: RunLog
) -> None:
    """Warn of each kind in a filter policy that has no effect. (docs/spec/after-1.18.md, 2.4)"""
    for kind, place in policies.kinds():
        try:
            found = discovery.resolve(kind)
        except UnknownResource as error:
            log.warning(
                Notice(
                    Code.FILTER_MATCHES_NOTHING,
                    f"Cannot resolve kind via discovery, using as-is: {place}: {error}",
                )
            )
            continue
        is_for_cluster = place.startswith(CLUSTER)
        if found.namespaced == is_for_cluster:
            scope = "namespaced" if found.namespaced else "cluster-scoped"
            reason = f"{kind} is {scope}; the filter entry has no effect on it"
        elif resources.admits(found.group_resource, namespaced=found.namespaced):
            continue
        elif is_for_cluster:
            reason = f"the filters of the backup exclude {kind}; the filter entry has no effect"
        else:
            reason = (
                f"{NAMESPACED} entry lists a kind that is globally excluded by includeExcludePolicy; the"
                f" per-namespace filter entry has no effect: {kind}"
            )
        log.warning(Notice(Code.FILTER_MATCHES_NOTHING, f"{place}: {reason}"))


def warn_of_cluster_scoped_objects(
    spec: BackupSpec, resources: ResourceFilter, discovery: Discovery, log: RunLog
) -> None:
    """Warn if cluster-scoped objects are left out for no other reason than an excluded namespace.

    A backup without filters has all of them. One excluded namespace takes away those that no saved object
    needs, as in Velero, and a cluster that is made from the backup lacks classes, roles and definitions.
    """
    if not spec.excluded_namespaces or not IncludesExcludes(spec.included_namespaces).includes_everything:
        return
    kinds = [
        kind.group_resource
        for kind in discovery.resources
        if not kind.namespaced
        and resources.collects(kind.group_resource, namespaced=False, all_namespaces=True)
        and not resources.collects(kind.group_resource, namespaced=False, all_namespaces=False)
    ]
    if not kinds:
        return
    wanted, unwanted = "--include-cluster-resources", "--include-cluster-resources=false"
    if ScopedLists.of(spec):
        wanted = "--include-cluster-scoped-resources '*'"
        unwanted = "--exclude-cluster-scoped-resources '*'"
    log.warning(
        Notice(
            Code.CLUSTER_OBJECTS_LEFT_OUT,
            "As a namespace is excluded, cluster-scoped objects are saved only if others need them:"
            f" {counted(len(kinds), 'kind')}, such as {', '.join(kinds[:_MOST_EXAMPLES])}. {wanted} saves"
            f" all, {unwanted} says that they are not wanted",
        )
    )


class LeftOutByPolicy:
    """What the filter policies of a backup leave out, by the place of the policy or filter that does."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, set[str]]] = {}
        self._objects: dict[str, Counter[str]] = {}

    def kind(self, place: str, group_resource: str, namespace: str) -> None:
        """Remember a kind that a policy does not list, so that its objects in the namespace are not read."""
        self._kinds.setdefault(place, {}).setdefault(namespace, set()).add(group_resource)

    def object(self, place: str, group_resource: str) -> None:
        """Remember an object that was read and not chosen."""
        self._objects.setdefault(place, Counter())[group_resource] += 1

    def lines(self) -> list[str]:
        """A sentence for each policy or filter that leaves something out."""
        lines = []
        for place in sorted({*self._kinds, *self._objects}):
            parts = [
                f"{counted(len(kinds), 'kind')} of namespace {namespace}, such as {_some(kinds)}"
                for namespace, kinds in sorted(self._kinds.get(place, {}).items())
            ]
            parts += [
                f"{counted(number, 'object')} of {group_resource}"
                for group_resource, number in sorted(self._objects.get(place, {}).items())
            ]
            lines.append(f"{place} leaves out {'; '.join(parts)}")
        return lines


class ExcludedItems:
    """Objects that others in the backup need and that its filters leave out: one warning for each kind."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def add(self, group_resource: str, key: str) -> None:
        """Remember one; `key` is `namespace/name` or `name`."""
        self._names.setdefault(group_resource, set()).add(key)

    def warn(self, log: RunLog, *, of_tenant: bool) -> None:
        """Log what was left out.

        What self-service leaves out of every backup of a tenant is no warning: the tenant cannot change that.
        """
        for group_resource, names in sorted(self._names.items()):
            expected = of_tenant and group_resource.partition(".")[0] in ALWAYS_EXCLUDED
            write = log.info if expected else log.warning
            write(
                Notice(
                    Code.RELATED_ITEMS_LEFT_OUT,
                    f"{len(names)} object(s) that others in this backup refer to are left out by its filters:"
                    f" {_some(_shown(group_resource, name) for name in names)}",
                ),
                resource=group_resource,
            )


def _shown(group_resource: str, key: str) -> str:
    """Return `namespace/name` or `kind/name`: the forms that are hidden in the log of a tenant."""
    return key if "/" in key else f"{group_resource.partition('.')[0]}/{key}"


def _some(names: Iterable[str]) -> str:
    return first_names(sorted(names), _MOST_EXAMPLES)
