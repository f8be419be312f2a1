"""Selects the items of an archive that a restore creates. (docs/spec: RST 5, 8, API 13.4)"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from pinnace.api.kinds import NAMESPACES
from pinnace.api.selection.filter_policies import (
    NO_FILTER_POLICIES,
    NO_POLICIES,
    AmbiguousKind,
    FilterPolicies,
    ResolvedPolicies,
)
from pinnace.api.selection.label_choice import LabelChoice
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.values.counts import counted
from pinnace.api.velero.restore import RestoreSpec
from pinnace.archive.eventlog import EventLog
from pinnace.archive.reader import ArchiveIndex
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import UnknownResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.errors import ItemError, SetupError
from pinnace.restore.selection.reading import ItemReader, ItemRef

_ITEMS_BETWEEN_YIELDS = 200
"""With label selectors every item is read; other tasks can run after this many items."""


class RestoreFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of a restore, with resource names resolved.

    Attributes:
        objects: the only items that are selected, by group-resource, original namespace and name; None if the
            restore is not limited to single objects.
        policies: decide in place of `labels` where a policy is for the original namespace or the
            cluster-scoped kind.
    """

    resources: IncludesExcludes
    namespaces: IncludesExcludes
    labels: LabelChoice
    include_cluster_resources: bool | None
    namespace_mapping: Mapping[str, str]
    objects: frozenset[tuple[str, str, str]] | None = None
    policies: ResolvedPolicies = NO_POLICIES

    @classmethod
    def from_spec(
        cls,
        spec: RestoreSpec,
        canonical: Callable[[str], str],
        policies: FilterPolicies = NO_FILTER_POLICIES,
    ) -> "RestoreFilter":
        """Read the filters of a restore.

        Args:
            canonical: returns `pods` for `po`, and unknown names unchanged.
            policies: the filter policies that the spec names.

        Raises:
            SetupError: a label selector is not valid, or a policy names a resource twice.
        """
        try:
            resolved = policies.resolved(lambda kind: canonical(kind.lower()))
        except AmbiguousKind as error:
            text = f'ambiguous policy: duplicate kind "{error.resource}" detected'
            raise SetupError(Notice(Code.FILTER_INVALID, text)) from error
        try:
            labels = LabelChoice.of(spec.label_selector, spec.or_label_selectors)
        except ValueError as error:
            raise SetupError(Notice(Code.FILTER_INVALID, f"error parsing label selector: {error}")) from error
        return cls(
            resources=IncludesExcludes.resolved(spec.included_resources, spec.excluded_resources, canonical),
            namespaces=IncludesExcludes(spec.included_namespaces, spec.excluded_namespaces),
            labels=labels,
            include_cluster_resources=spec.include_cluster_resources,
            namespace_mapping=spec.namespace_mapping,
            policies=resolved,
        )

    def target_namespace(self, original: str) -> str:
        """The target namespace of items in a namespace; empty for cluster-scoped items."""
        return self.namespace_mapping.get(original, original) if original else ""

    @property
    def selects_cluster_scoped(self) -> bool:
        """Whether cluster-scoped items are selected, not only restored as additional items."""
        if self.include_cluster_resources is None:
            return self.namespaces.includes_everything
        return self.include_cluster_resources

    @property
    def admits_cluster_scoped(self) -> bool:
        """Whether cluster-scoped items may be restored as additional items."""
        return self.include_cluster_resources is not False


class SelectedNamespace(msgspec.Struct, frozen=True):
    """The selected items of one kind in one namespace, in file name order."""

    original: str
    target: str
    names: Sequence[str]


class SelectedResource(msgspec.Struct, frozen=True):
    """The selected items of one kind, and whether the cluster serves it."""

    group_resource: str
    namespaces: tuple[SelectedNamespace, ...]
    is_served: bool = True

    @property
    def is_namespaced(self) -> bool:
        """Whether the items live in namespaces."""
        return all(namespace.target for namespace in self.namespaces)

    @property
    def count(self) -> int:
        """How many items there are."""
        return sum(len(namespace.names) for namespace in self.namespaces)

    def items(self) -> Iterable[ItemRef]:
        """All items, sorted by namespace."""
        for namespace in self.namespaces:
            for name in namespace.names:
                yield ItemRef(self.group_resource, namespace.original, namespace.target, name)


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    """The part of an item that a label selector needs."""

    metadata: _Metadata | None = None


class ItemSelector:
    """Selects the items of resources by name; each resource is selected only once."""

    def __init__(
        self,
        *,
        archive: ArchiveIndex,
        reader: ItemReader,
        discovery: Discovery,
        filters: RestoreFilter,
        handled: set[str],
        log: EventLog,
    ) -> None:
        self._archive = archive
        self._reader = reader
        self._discovery = discovery
        self._filters = filters
        self._handled = handled
        self._log = log
        self._archived = set(archive.resources)

    async def collect(self, names: Iterable[str]) -> list[SelectedResource]:
        """Select in the order of the names; kinds without any selected item are left out."""
        selected = []
        for name in names:
            group_resource, is_served = self._resolve(name)
            if group_resource in self._handled:
                continue
            if self._admits(group_resource):
                resource = await self._select(group_resource, is_served=is_served)
                if resource.count:
                    selected.append(resource)
            self._handled.add(group_resource)
        return selected

    def _resolve(self, name: str) -> tuple[str, bool]:
        """The `plural.group` that a name stands for, and whether the cluster serves it."""
        try:
            found = self._discovery.resolve(name).group_resource
        except UnknownResource:
            return name, False
        # A kind of the archive has its full name: `widgets.sea` is not `widgets.sea.io`.
        return (name, False) if name in self._archived and name != found else (found, True)

    def _admits(self, group_resource: str) -> bool:
        if not self._filters.resources.matches(group_resource):
            self._log.info(
                "Skipping restore of resource because the restore spec excludes it", resource=group_resource
            )
            return False
        # Namespaces are created on demand, when an item needs them. (docs/spec: RST 9)
        return group_resource != NAMESPACES.group_resource and group_resource in self._archived

    async def _select(self, group_resource: str, *, is_served: bool) -> SelectedResource:
        namespaces = []
        for original in self._archive.namespaces(group_resource):
            if not self._admits_namespace(group_resource, original):
                continue
            names: Sequence[str] = self._archive.names(group_resource, original)
            chosen = self._filters.objects
            if chosen is not None:
                names = [name for name in names if (group_resource, original, name) in chosen]
            names = await self._by_policy(group_resource, original, names)
            if names:
                target = self._filters.target_namespace(original)
                namespaces.append(SelectedNamespace(original, target, names))
        return SelectedResource(group_resource, tuple(namespaces), is_served)

    def _admits_namespace(self, group_resource: str, original: str) -> bool:
        if original and not self._filters.namespaces.matches(original):
            self._log.info("Skipping namespace", namespace=original, resource=group_resource)
            return False
        by_name = self._filters.objects is not None
        if not original and not (self._filters.selects_cluster_scoped or by_name):
            self._log.info("Skipping cluster-scoped resource", resource=group_resource)
            return False
        return True

    async def _by_policy(self, group_resource: str, namespace: str, names: Sequence[str]) -> Sequence[str]:
        """The items that the policy of the namespace takes; else those with the labels of the spec."""
        labels = self._filters.labels
        ruling = self._filters.policies.ruling(group_resource, namespace)
        if ruling is not None:
            if ruling.filter is None:
                self._log.info(
                    f"Skipping resource, as {ruling.place} does not list it",
                    resource=group_resource,
                    namespace=namespace,
                )
                return ()
            labels, given = ruling.filter.labels, len(names)
            names = [name for name in names if ruling.filter.names.matches(name)]
            if len(names) < given:
                self._log.info(
                    f"Skipping {counted(given - len(names), 'object')} by name, as {ruling.place} says",
                    resource=group_resource,
                    namespace=namespace,
                )
        if labels.empty:
            return names
        return await self._labelled(group_resource, namespace, names, labels)

    async def _labelled(
        self, group_resource: str, namespace: str, names: Sequence[str], wanted: LabelChoice
    ) -> list[str]:
        """The items whose labels match; one that cannot be read is kept, so that its error is reported."""
        matching = []
        for position, name in enumerate(names, start=1):
            if position % _ITEMS_BETWEEN_YIELDS == 0:
                await asyncio.sleep(0)
            try:
                view = msgspec.json.decode(self._reader.read(group_resource, namespace, name), type=_Labelled)
            except (msgspec.DecodeError, RecursionError, ItemError):
                matching.append(name)
                continue
            labels = view.metadata.labels if view.metadata else None
            if wanted.matches(labels):
                matching.append(name)
        return matching
