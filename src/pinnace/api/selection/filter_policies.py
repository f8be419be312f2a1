"""Filters by namespace and kind, from the resource policies of a backup or a restore. Pure.

A namespace that a policy names has only the kinds that the policy lists, each with selectors and names of
its own; other namespaces obey the lists and labels of the spec. One policy does the same for cluster-scoped
kinds, where an unlisted kind obeys the spec. The lists of the spec are always a gate before: a policy never
adds a namespace or a kind that they exclude. (docs/spec/after-1.18.md, section 2)
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Self

import msgspec
from msgspec import Struct

from pinnace.api.meta import LabelSelector, LabelSelectorRequirement
from pinnace.api.selection.globs import Glob, GlobError, Text
from pinnace.api.selection.label_choice import LabelChoice
from pinnace.api.selection.names import EVERYTHING, MAX_PATTERN_CHARACTERS, IncludesExcludes
from pinnace.api.selection.selectors import Selector

NAMESPACED: Final = "namespacedFilterPolicies"
CLUSTER: Final = "clusterScopedFilterPolicy"

_UNSUPPORTED: Final = "|()!{},"
_PATTERN: Final = re.compile(r"[*?\[]")
"""A text with one of these characters is a pattern of namespaces; any other is a name."""


class FilterPolicyError(ValueError):
    """A filter policy is not valid; the text begins with its place in the document."""


class AmbiguousKind(ValueError):
    """Two filters of one policy name the same resource in different words.

    Attributes:
        resource: as `plural.group`.
    """

    def __init__(self, place: str, resource: str, first: str, second: str) -> None:
        super().__init__(
            f'{place}: kind "{resource}" appears in both {first} and {second}, in different words:'
            " name it once"
        )
        self.resource = resource


class _Strict(Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A part of the document: an unknown key is an error."""


class _Expression(_Strict):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Selector(_Strict):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None

    def read(self) -> Selector:
        """Raises ValueError for a selector that Kubernetes would refuse."""
        expressions = [
            LabelSelectorRequirement(key=each.key, operator=each.operator, values=each.values or [])
            for each in self.match_expressions or ()
        ]
        labels = self.match_labels or {}
        return Selector.from_label_selector(LabelSelector(match_labels=labels, match_expressions=expressions))

    @property
    def is_empty(self) -> bool:
        """Whether the selector counts as absent."""
        return not self.match_labels and not self.match_expressions


class FilterDocument(_Strict):
    """One entry of `resourceFilters`."""

    kinds: list[str] | None = None
    label_selector: _Selector | None = None
    or_label_selectors: list[_Selector] | None = None
    names: list[str] | None = None
    excluded_names: list[str] | None = None


class ClusterPolicyDocument(_Strict):
    """The value of `clusterScopedFilterPolicy`."""

    resource_filters: list[FilterDocument] | None = None


class NamespacePolicyDocument(_Strict):
    """One entry of `namespacedFilterPolicies`."""

    namespaces: list[str] | None = None
    resource_filters: list[FilterDocument] | None = None


class KindFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of some kinds that a policy takes.

    Attributes:
        place: in the document, such as `namespacedFilterPolicies[0].resourceFilters[1]`.
        kinds: as the user wrote them; none for every kind that no other filter of the policy names.
        labels: in place of the selectors of the spec.
        names: the objects, by `metadata.name`.
    """

    place: str
    kinds: tuple[str, ...]
    labels: LabelChoice
    names: IncludesExcludes

    @property
    def is_catch_all(self) -> bool:
        """Whether the filter stands for every kind that no other filter of its policy names."""
        return not self.kinds


class _Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of one policy, and the namespaces that it is for: none for the cluster-scoped kinds."""

    place: str
    filters: Sequence[KindFilter]
    namespaces: Sequence[str] = ()


class FilterPolicies(msgspec.Struct, frozen=True, kw_only=True):
    """The filter policies of a document. Without any, every question is left to the spec."""

    namespaced: Sequence[_Policy] = ()
    cluster: _Policy | None = None

    def __bool__(self) -> bool:
        return bool(self.namespaced) or self.cluster is not None

    @classmethod
    def read(
        cls, cluster: ClusterPolicyDocument | None, namespaced: Sequence[NamespacePolicyDocument]
    ) -> Self:
        """Take over the two keys of a document.

        Raises:
            FilterPolicyError: for the first rule that is broken. (section 2.2)
        """
        of_cluster = None if cluster is None else _cluster_policy(cluster)
        policies = [_namespace_policy(number, policy) for number, policy in enumerate(namespaced)]
        _refuse_repeated_namespaces(policies)
        _refuse_long_patterns(policies)
        return cls(namespaced=policies, cluster=of_cluster)

    def resolved(self, canonical: Callable[[str], str]) -> "ResolvedPolicies":
        """The same with kinds as `plural.group`.

        Args:
            canonical: returns `pods` for `po` and `Pod`, and unknown names unchanged.

        Raises:
            AmbiguousKind: two filters of one policy name the same resource.
        """
        return ResolvedPolicies(
            [_ResolvedPolicy(policy, canonical) for policy in self.namespaced],
            None if self.cluster is None else _ResolvedPolicy(self.cluster, canonical),
        )

    def kinds(self) -> Iterable[tuple[str, str]]:
        """Each kind that a filter names, as the user wrote it, with the place of the filter."""
        policies = [*self.namespaced, *([] if self.cluster is None else [self.cluster])]
        for policy in policies:
            for each in policy.filters:
                for kind in each.kinds:
                    yield kind, each.place


NO_FILTER_POLICIES: Final = FilterPolicies()


class Ruling(msgspec.Struct, frozen=True):
    """What a policy says about the objects of one kind in one namespace, or of one cluster-scoped kind.

    Attributes:
        place: of the filter that decides, or of the policy that does not list the kind.
        filter: None if the policy leaves the kind out.
    """

    place: str
    filter: KindFilter | None

    def takes(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with this name and these labels is chosen."""
        chosen = self.filter
        return chosen is not None and chosen.names.matches(name) and chosen.labels.matches(labels)


class _ResolvedPolicy:
    def __init__(self, policy: _Policy, canonical: Callable[[str], str]) -> None:
        self.policy = policy
        self._rulings: dict[str, Ruling] = {}
        catch_all = next((each for each in policy.filters if each.is_catch_all), None)
        self.others = Ruling(policy.place if catch_all is None else catch_all.place, catch_all)
        for each in policy.filters:
            for written in each.kinds:
                resource = canonical(written)
                if (known := self._rulings.get(resource)) is not None:
                    raise AmbiguousKind(policy.place, resource, _short(known.place), _short(each.place))
                self._rulings[resource] = Ruling(each.place, each)

    def listed(self, group_resource: str) -> Ruling | None:
        return self._rulings.get(group_resource)


class ResolvedPolicies:
    """Filter policies with kinds resolved. Answers are remembered, as engines ask for every item.

    A namespaced policy is never asked about cluster-scoped objects.
    """

    def __init__(self, namespaced: Sequence[_ResolvedPolicy], cluster: _ResolvedPolicy | None) -> None:
        self._cluster = cluster
        self._by_name = {
            name: policy
            for policy in namespaced
            for name in policy.policy.namespaces
            if not _PATTERN.search(name)
        }
        self._by_pattern = [
            (Glob(pattern), policy)
            for policy in namespaced
            for pattern in policy.policy.namespaces
            if _PATTERN.search(pattern)
        ]
        self._found: dict[str, _ResolvedPolicy | None] = {}

    def __bool__(self) -> bool:
        return self.has_namespaces or self._cluster is not None

    @property
    def has_namespaces(self) -> bool:
        """Whether there is a policy for any namespace."""
        return bool(self._by_name or self._by_pattern)

    def ruling(self, group_resource: str, namespace: str) -> Ruling | None:
        """What decides about the objects of a kind; None if the lists and labels of the spec do.

        Args:
            group_resource: as `plural.group`.
            namespace: the original one; empty for cluster-scoped objects.
        """
        if not namespace:
            return None if self._cluster is None else self._cluster.listed(group_resource)
        policy = self._policy_of(namespace)
        return None if policy is None else policy.listed(group_resource) or policy.others

    def admits_needed(self, group_resource: str, namespace: str, name: str) -> bool:
        """Whether an object that another one needs comes along: a filter of its kind may leave out its name.

        Its labels do not count, and a policy that does not list its kind has nothing against it.
        """
        ruling = self.ruling(group_resource, namespace)
        return ruling is None or ruling.filter is None or ruling.filter.names.matches(name)

    def _policy_of(self, namespace: str) -> _ResolvedPolicy | None:
        """The policy that names a namespace; else the first, in the order written, with a pattern for it."""
        if namespace in self._by_name:
            return self._by_name[namespace]
        if namespace not in self._found:
            text = Text(namespace)
            self._found[namespace] = next(
                (policy for glob, policy in self._by_pattern if glob.matches(text)), None
            )
        return self._found[namespace]


NO_POLICIES: Final = ResolvedPolicies((), None)


def _cluster_policy(document: ClusterPolicyDocument) -> _Policy:
    if not document.resource_filters:
        raise FilterPolicyError(
            f"{CLUSTER}: resourceFilters cannot be empty; remove the policy block entirely if it is not"
            " needed"
        )
    for number, each in enumerate(document.resource_filters):
        if _is_catch_all(each):
            raise FilterPolicyError(
                f"{CLUSTER}.resourceFilters[{number}]: kinds must be specified (catch-all is not supported)"
            )
    return _Policy(place=CLUSTER, filters=_filters(CLUSTER, document.resource_filters))


def _namespace_policy(number: int, document: NamespacePolicyDocument) -> _Policy:
    place = f"{NAMESPACED}[{number}]"
    if not document.namespaces:
        raise FilterPolicyError(f"{place}: at least one namespace must be specified")
    if not document.resource_filters:
        raise FilterPolicyError(f"{place}: at least one resourceFilter must be specified")
    for position, pattern in enumerate(document.namespaces):
        if problem := namespace_pattern_error(pattern):
            raise FilterPolicyError(f"{place}.namespaces[{position}]: {problem}")
    return _Policy(
        place=place,
        namespaces=tuple(document.namespaces),
        filters=_filters(place, document.resource_filters),
    )


def namespace_pattern_error(pattern: str) -> str:
    """The mistake in a name or pattern of namespaces; empty if it is valid. (section 2.2)"""
    if not pattern:
        return "a namespace must not be empty"
    if any(character in _UNSUPPORTED for character in pattern):
        return "wildcard pattern contains unsupported characters: |, (, ), !, {, }, ,"
    if ("*", "*") in pairwise(pattern):
        return "wildcard pattern contains consecutive asterisks (only single * allowed)"
    is_open, content = False, ""
    for character in pattern:
        if character == "[" and not is_open:
            is_open, content = True, ""
        elif character == "]":
            if not is_open:
                return "wildcard pattern contains unmatched closing bracket ']'"
            if not content:
                return "wildcard pattern contains empty bracket pattern '[]'"
            is_open = False
        elif is_open:
            content += character
    if is_open:
        return "wildcard pattern contains unclosed bracket '['"
    try:
        Glob(pattern)
    except GlobError as error:
        return f"wildcard pattern is not valid: {error.why}"
    return ""


def _filters(place: str, documents: Sequence[FilterDocument]) -> Sequence[KindFilter]:
    """The filters of one policy. Raises FilterPolicyError."""
    if sum(map(_is_catch_all, documents)) > 1:
        raise FilterPolicyError(f"{place}: only one catch-all resource filter is allowed")
    kinds: dict[str, str] = {}
    found = []
    for number, document in enumerate(documents):
        own = f"{place}.resourceFilters[{number}]"
        if _is_catch_all(document) and (document.names or document.excluded_names):
            raise FilterPolicyError(
                f"{own}: names or excludedNames cannot be specified for catch-all filters"
            )
        for kind in document.kinds or ():
            if kind in kinds:
                raise FilterPolicyError(
                    f'{place}: kind "{kind}" appears in both {kinds[kind]} and {_short(own)}'
                )
            kinds[kind] = _short(own)
        found.append(
            KindFilter(
                place=own,
                kinds=() if _is_catch_all(document) else tuple(document.kinds or ()),
                labels=_labels(own, document),
                names=_names(own, document),
            )
        )
    return found


def _is_catch_all(document: FilterDocument) -> bool:
    return not document.kinds or document.kinds == [EVERYTHING]


def _labels(place: str, document: FilterDocument) -> LabelChoice:
    one = document.label_selector
    if one is not None and one.is_empty:
        one = None
    several = document.or_label_selectors or []
    if one is not None and several:
        raise FilterPolicyError(f"{place}: labelSelector and orLabelSelectors cannot co-exist")
    named = [(place, one)] if one is not None else []
    named += [
        (f"{place}.orLabelSelectors[{number}]", each)
        for number, each in enumerate(several)
        if not each.is_empty
    ]
    selectors = []
    for where, each in named:
        try:
            selectors.append(each.read())
        except ValueError as error:
            raise FilterPolicyError(f"{where}: invalid label selector: {error}") from error
    return LabelChoice(selectors)


def _names(place: str, document: FilterDocument) -> IncludesExcludes:
    characters = sum(map(len, (*(document.names or ()), *(document.excluded_names or ()))))
    if characters > MAX_PATTERN_CHARACTERS:
        raise FilterPolicyError(
            f"{place}: names and excludedNames have {characters} characters together, at most"
            f" {MAX_PATTERN_CHARACTERS} are allowed"
        )
    for key, patterns in (("names", document.names), ("excludedNames", document.excluded_names)):
        for number, pattern in enumerate(patterns or ()):
            try:
                Glob(pattern)
            except GlobError as error:
                raise FilterPolicyError(
                    f'{place}.{key}[{number}]: invalid glob pattern "{pattern}": {error.why}'
                ) from error
    return IncludesExcludes(document.names or (), document.excluded_names or ())


def _refuse_repeated_namespaces(policies: Sequence[_Policy]) -> None:
    seen: dict[str, int] = {}
    for number, policy in enumerate(policies):
        for pattern in policy.namespaces:
            if pattern in seen:
                raise FilterPolicyError(
                    f"{NAMESPACED}: duplicate namespace pattern '{pattern}' found in policies"
                    f" [{seen[pattern]} {number}]"
                )
            seen[pattern] = number


def _refuse_long_patterns(policies: Sequence[_Policy]) -> None:
    """Raise FilterPolicyError for patterns that take too long, as each is compared with every namespace."""
    patterns = [pattern for policy in policies for pattern in policy.namespaces if _PATTERN.search(pattern)]
    if (characters := sum(map(len, patterns))) > MAX_PATTERN_CHARACTERS:
        raise FilterPolicyError(
            f"{NAMESPACED}: the patterns of namespaces have {characters} characters together, at most"
            f" {MAX_PATTERN_CHARACTERS} are allowed: name what is meant in full"
        )


def _short(place: str) -> str:
    """The place within its policy: `resourceFilters[1]`."""
    return place.rpartition(".")[2]
