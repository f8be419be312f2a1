"""Which kinds a backup includes: by one pair of lists for all kinds, or by a pair for each scope. Pure.

Up to Velero 1.10 a spec has includedResources, excludedResources and includeClusterResources. Since 1.11 it
can have a pair of lists for cluster-scoped kinds and one for namespaced kinds instead. The two ways must not
be mixed. (docs/spec: BKP 4, 5, BEY 4.4, 4.8)
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, Self

import msgspec
from msgspec.structs import replace

from pinnace.api import kinds
from pinnace.api.selection.names import EVERYTHING, IncludesExcludes, is_glob
from pinnace.api.selection.validation import pair_errors, scoped_pair_errors
from pinnace.api.velero.backup import BackupSpec

EXCLUDED_BY_SERVERS: Final = frozenset(
    kinds.group_resources(kinds.VOLUME_SNAPSHOTS, kinds.VOLUME_SNAPSHOT_CONTENTS)
)
"""Kinds that servers of Velero 1.17 and later exclude from every Backup, without the user's choice."""

Canonical = Callable[[str], str]
"""Returns `pods` for `po`, and unknown names unchanged."""

IsNamespaced = Callable[[str], bool | None]
"""Whether a kind is namespaced, by its canonical name; None if the cluster does not serve it."""


class ResourceFilter(Protocol):
    """The kinds that a backup includes."""

    @property
    def adds_definitions(self) -> bool:
        """Whether the definitions of custom resources in the backup are added to it."""
        ...

    def collects(self, kind: str, *, namespaced: bool, all_namespaces: bool) -> bool:
        """Whether all objects of a kind belong to the backup, rather than only those that others need.

        Args:
            kind: as `plural.group`.
            all_namespaces: whether the backup includes every namespace.
        """
        ...

    def admits(self, kind: str, *, namespaced: bool) -> bool:
        """Whether an object of a kind may be in the backup, for instance because another one needs it."""
        ...

    def lines(self) -> Iterable[str]:
        """The filter as lines for the log."""
        ...


class CommonFilter(msgspec.Struct, frozen=True, kw_only=True):
    """One pair of lists for all kinds, and a switch for the cluster-scoped ones."""

    resources: IncludesExcludes
    include_cluster: bool | None

    @property
    def adds_definitions(self) -> bool:
        """True only without a switch: with `true` the backup has all of them anyway, with `false` none."""
        return self.include_cluster is None

    def collects(self, kind: str, *, namespaced: bool, all_namespaces: bool) -> bool:
        """See `ResourceFilter`."""
        if not namespaced and kind != kinds.NAMESPACES.group_resource:
            wanted = all_namespaces if self.include_cluster is None else self.include_cluster
            if not wanted:
                return False
        return self.resources.matches(kind)

    def admits(self, kind: str, *, namespaced: bool) -> bool:
        """See `ResourceFilter`."""
        if not namespaced and kind != kinds.NAMESPACES.group_resource and self.include_cluster is False:
            return False
        return self.resources.matches(kind)

    def lines(self) -> Iterable[str]:
        """See `ResourceFilter`."""
        yield f"Including resources: {self.resources.include_list}"
        yield f"Excluding resources: {self.resources.exclude_list}"


class ScopedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A pair of lists for cluster-scoped kinds, and one for namespaced kinds.

    Attributes:
        not_excluded: the excludes for cluster-scoped kinds alone.
    """

    cluster: IncludesExcludes
    not_excluded: IncludesExcludes
    namespaced: IncludesExcludes

    @property
    def adds_definitions(self) -> bool:
        """True unless definitions are excluded."""
        return self.admits(kinds.CUSTOM_RESOURCE_DEFINITIONS.group_resource, namespaced=False)

    def collects(self, kind: str, *, namespaced: bool, all_namespaces: bool) -> bool:
        """See `ResourceFilter`."""
        if not self.admits(kind, namespaced=namespaced):
            return False
        if namespaced or kind == kinds.NAMESPACES.group_resource:
            return True
        if self.cluster.includes:
            return self.cluster.matches(kind)
        all_kinds = not self.namespaced.includes or EVERYTHING in self.namespaced.includes
        return all_namespaces and all_kinds and not self._excludes_by_choice

    def admits(self, kind: str, *, namespaced: bool) -> bool:
        """See `ResourceFilter`: of cluster-scoped kinds, what is not excluded may come with other objects."""
        return (self.namespaced if namespaced else self.not_excluded).matches(kind)

    @property
    def _excludes_by_choice(self) -> bool:
        return bool({*self.cluster.excludes, *self.namespaced.excludes} - EXCLUDED_BY_SERVERS)

    def lines(self) -> Iterable[str]:
        """See `ResourceFilter`."""
        yield f"Including cluster-scoped resources: {_shown(self.cluster.includes)}"
        yield f"Excluding cluster-scoped resources: {_shown(self.cluster.excludes)}"
        yield f"Including namespaced resources: {self.namespaced.include_list}"
        yield f"Excluding namespaced resources: {self.namespaced.exclude_list}"


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names) or "<none>"


class ScopedLists(msgspec.Struct, frozen=True, kw_only=True):
    """The four lists of a spec, or of an include/exclude policy."""

    included_cluster: tuple[str, ...] = ()
    excluded_cluster: tuple[str, ...] = ()
    included_namespaced: tuple[str, ...] = ()
    excluded_namespaced: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: BackupSpec) -> Self:
        """The lists of a spec."""
        return cls(
            included_cluster=tuple(spec.included_cluster_scoped_resources),
            excluded_cluster=tuple(spec.excluded_cluster_scoped_resources),
            included_namespaced=tuple(spec.included_namespace_scoped_resources),
            excluded_namespaced=tuple(spec.excluded_namespace_scoped_resources),
        )

    def __bool__(self) -> bool:
        """Whether any of the lists has a name."""
        return bool(
            self.included_cluster
            or self.excluded_cluster
            or self.included_namespaced
            or self.excluded_namespaced
        )

    def resolved(self, canonical: Canonical) -> Self:
        """The same with canonical names."""

        def names(given: Iterable[str]) -> tuple[str, ...]:
            return tuple(name if name == EVERYTHING else canonical(name) for name in given if name)

        return replace(
            self,
            included_cluster=names(self.included_cluster),
            excluded_cluster=names(self.excluded_cluster),
            included_namespaced=names(self.included_namespaced),
            excluded_namespaced=names(self.excluded_namespaced),
        )

    def with_policy(self, policy: "ScopedLists") -> Self:
        """The lists, and those names of a policy that no list has.

        Both must be resolved. Excludes are added first, so that they win over includes of the same policy.
        """
        excluded_cluster = _added(self.excluded_cluster, policy.excluded_cluster, self.included_cluster)
        excluded_namespaced = _added(
            self.excluded_namespaced, policy.excluded_namespaced, self.included_namespaced
        )
        return replace(
            self,
            excluded_cluster=excluded_cluster,
            excluded_namespaced=excluded_namespaced,
            included_cluster=_added(self.included_cluster, policy.included_cluster, excluded_cluster),
            included_namespaced=_added(
                self.included_namespaced, policy.included_namespaced, excluded_namespaced
            ),
        )

    def misplaced(self, is_namespaced: IsNamespaced) -> dict[str, str]:
        """The names in a list of the other scope, each with the field that it is in. Patterns are in none."""
        found = {}
        for fld, names, wanted in (
            ("includedClusterScopedResources", self.included_cluster, False),
            ("excludedClusterScopedResources", self.excluded_cluster, False),
            ("includedNamespaceScopedResources", self.included_namespaced, True),
            ("excludedNamespaceScopedResources", self.excluded_namespaced, True),
        ):
            for name in names:
                if not is_glob(name) and is_namespaced(name) not in (None, wanted):
                    found[name] = fld
        return found

    def without(self, names: Iterable[str]) -> Self:
        """The lists without some names."""
        gone = frozenset(names)

        def kept(given: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in given if name not in gone)

        return replace(
            self,
            included_cluster=kept(self.included_cluster),
            excluded_cluster=kept(self.excluded_cluster),
            included_namespaced=kept(self.included_namespaced),
            excluded_namespaced=kept(self.excluded_namespaced),
        )

    def filter(self) -> ScopedFilter:
        """The filter of resolved lists."""
        return ScopedFilter(
            cluster=IncludesExcludes(self.included_cluster, self.excluded_cluster),
            not_excluded=IncludesExcludes((), self.excluded_cluster),
            namespaced=IncludesExcludes(self.included_namespaced, self.excluded_namespaced),
        )


NO_LISTS: Final = ScopedLists()


def _added(own: tuple[str, ...], more: Iterable[str], opposite: Iterable[str]) -> tuple[str, ...]:
    """A list with those names of a policy that neither it nor the opposite list matches."""
    if not (known := [*own, *opposite]):
        return tuple(more)
    matched = IncludesExcludes(known)
    return (*own, *(name for name in more if not matched.matches(name)))


class FilterOfSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The filter that a spec asks for.

    Attributes:
        warnings: names that have no effect, as texts.
    """

    filter: ResourceFilter
    warnings: Sequence[str] = ()


def filter_of(
    spec: BackupSpec, *, canonical: Canonical, is_namespaced: IsNamespaced, policy: ScopedLists = NO_LISTS
) -> FilterOfSpec:
    """The filter of a spec that passed `filter_errors`; `policy` is the include/exclude policy."""
    if uses_common_lists(spec):
        resources = IncludesExcludes.resolved(spec.included_resources, spec.excluded_resources, canonical)
        return FilterOfSpec(
            filter=CommonFilter(resources=resources, include_cluster=spec.include_cluster_resources)
        )
    lists = ScopedLists.of(spec).resolved(canonical).with_policy(policy.resolved(canonical))
    misplaced = lists.misplaced(is_namespaced)
    warnings = [
        f"{name} in {where} has no effect: the kind is"
        f" {'cluster-scoped' if 'Namespace' in where else 'namespaced'}"
        for name, where in misplaced.items()
    ]
    return FilterOfSpec(filter=lists.without(misplaced).filter(), warnings=warnings)


def uses_common_lists(spec: BackupSpec) -> bool:
    """Whether a spec has any of the filters of Velero up to 1.10."""
    return bool(
        spec.included_resources or spec.excluded_resources or spec.include_cluster_resources is not None
    )


def filter_errors(spec: BackupSpec, policy: ScopedLists = NO_LISTS) -> list[str]:
    """The mistakes in the resource filters of a spec."""
    common = pair_errors("resource", spec.included_resources, spec.excluded_resources)
    lists = ScopedLists.of(spec)
    errors = [
        *common,
        *scoped_pair_errors("cluster-scoped resource", lists.included_cluster, lists.excluded_cluster),
        *scoped_pair_errors(
            "namespace-scoped resource", lists.included_namespaced, lists.excluded_namespaced
        ),
    ]
    if uses_common_lists(spec) and lists:
        errors.append(
            f"{_all(_set_common(spec))} cannot be used together with {_all(_set_scoped(spec))}: filter either"
            " all resources by one pair of lists, or each scope by its own"
        )
    if uses_common_lists(spec) and policy:
        errors.append(
            f"{_all(_set_common(spec))} cannot be used together with the includeExcludePolicy of the resource"
            " policies: filter by includedClusterScopedResources, excludedClusterScopedResources,"
            " includedNamespaceScopedResources and excludedNamespaceScopedResources"
        )
    return errors


OLD_WITH_POLICIES: Final = (
    "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\n"
    "They cannot be used with namespace-scoped or fine-grained global filter policies."
)
"""Why a spec with the filters of Velero up to 1.10 cannot name filter policies, in Velero's words."""


def _all(names: Iterable[str]) -> str:
    return " and ".join(names)


def _set_common(spec: BackupSpec) -> Iterable[str]:
    if spec.included_resources:
        yield "includedResources"
    if spec.excluded_resources:
        yield "excludedResources"
    if spec.include_cluster_resources is not None:
        yield "includeClusterResources"


def _set_scoped(spec: BackupSpec) -> Iterable[str]:
    if spec.included_cluster_scoped_resources:
        yield "includedClusterScopedResources"
    if spec.excluded_cluster_scoped_resources:
        yield "excludedClusterScopedResources"
    if spec.included_namespace_scoped_resources:
        yield "includedNamespaceScopedResources"
    if spec.excluded_namespace_scoped_resources:
        yield "excludedNamespaceScopedResources"
