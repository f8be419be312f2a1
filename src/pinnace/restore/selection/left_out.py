"""Warnings and errors for all objects that a restore leaves out. Pure. (docs/spec: RST 8, 22)

A kind that the cluster does not serve, a filter that matches nothing in the backup and an empty selection
must not end as `Completed` with only a line in the log.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from pinnace.api.kinds import NAMESPACES
from pinnace.api.nonadmin.exclusions import SNAPSHOT_KINDS, UNTRUSTED_EXCLUDED
from pinnace.api.selection.filter_policies import FilterPolicies
from pinnace.api.selection.label_choice import LabelChoice
from pinnace.api.selection.names import EVERYTHING, IncludesExcludes, KnownNames, is_glob
from pinnace.api.values.near import Advice, did_you_mean
from pinnace.api.velero.restore import RestoreSpec
from pinnace.archive.reader import ArchiveIndex
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import UnknownResource
from pinnace.kube.unserved import unserved_names
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.results import Results
from pinnace.restore.selection.collect import SelectedResource
from pinnace.restore.selection.validation import NON_RESTORABLE

ONE_BY_ONE: Final = 20
"""Up to this many items of a kind in a namespace get an error each; more share errors that name them all."""
NAMES_IN_A_LINE: Final = 100

_EXCLUDED_BY_RULE: Final = frozenset((*NON_RESTORABLE, *UNTRUSTED_EXCLUDED, *SNAPSHOT_KINDS))
"""Names that Pinnace adds to the lists of Restores, and which need no check of their spelling."""


def canonical_names(discovery: Discovery, archived: Iterable[str]) -> Callable[[str], str]:
    """Return a function from a name to its `plural.group`: by what the cluster serves, else by the archive.

    The archive is needed for a filter that names a kind which the cluster does not serve by its plural.
    """
    kinds = ArchivedKinds(archived)

    def canonical(name: str) -> str:
        try:
            return discovery.resolve(name).group_resource
        except UnknownResource:
            return kinds.called(name) or name

    return canonical


class ArchivedKinds:
    """The kinds of a backup by their plurals. An archive and a filter may each have many thousands."""

    def __init__(self, archived: Iterable[str]) -> None:
        kinds = sorted(archived)
        self._known = KnownNames(kinds)
        self._by_plural: dict[str, list[str]] = {}
        for kind in kinds:
            self._by_plural.setdefault(kind.partition(".")[0], []).append(kind)

    def called(self, name: str) -> str | None:
        """The first kind of that plural whose group begins like the group of the name; None without one."""
        plural, _, group = name.partition(".")
        same = self._by_plural.get(plural.lower(), ())
        return next((kind for kind in same if kind.partition(".")[2].startswith(group)), None)

    def has(self, name: str) -> bool:
        """Whether a name or pattern stands for any of the kinds."""
        return self.called(name) is not None or self._known.has(name)


def not_served(resource: SelectedResource, discovery: Discovery, remedy: str = "") -> Results:
    """The errors for the selected items of a kind that the cluster does not serve; each item is named.

    Args:
        remedy: the end of each error: what to do; may be empty.
    """
    results, facts = Results(), {"kind": resource.group_resource}
    reason = f"the cluster does not serve {resource.group_resource}{_failure(resource, discovery)}{remedy}"
    for namespace in resource.namespaces:
        prefix = f"{resource.group_resource}/{namespace.target}/" if namespace.target else ""
        prefix = prefix or f"{resource.group_resource}/"
        if len(namespace.names) <= ONE_BY_ONE:
            for name in namespace.names:
                text = f"error restoring {prefix}{name}: {reason}"
                results.errors.add(namespace.target, Notice(Code.KIND_NOT_SERVED, text, **facts))
            continue
        for line in _in_lines(namespace.names):
            what = f"{len(namespace.names)} {resource.group_resource}"
            # The reason comes before the names, as a summary cuts long lines.
            text = f"error restoring {what}: {reason} ({line})"
            results.errors.add(namespace.target, Notice(Code.KIND_NOT_SERVED, text, **facts))
    return results


def _failure(resource: SelectedResource, discovery: Discovery) -> str:
    """The failure of discovery for the kind's group, if a broken aggregated API is the reason."""
    group = resource.group_resource.partition(".")[2]
    problems = [warning for warning in discovery.warnings if group and f" {group}/" in warning]
    return f" ({'; '.join(problems)})" if problems else ""


def withheld(resource: SelectedResource, reason: str) -> Results:
    """The warnings for the selected items of a kind that must not be restored; each item is named."""
    results = Results()
    for namespace in resource.namespaces:
        count = len(namespace.names)
        for line in _in_lines(namespace.names):
            message = f"{count} {resource.group_resource} not restored ({line}): {reason}"
            results.warnings.add(namespace.target, Notice(Code.NOT_PERMITTED_TO_TENANT, message))
    return results


def _in_lines(names: Sequence[str]) -> Iterator[str]:
    """All names, in lines of readable length."""
    for start in range(0, len(names), NAMES_IN_A_LINE):
        part = names[start : start + NAMES_IN_A_LINE]
        span = f"{start + 1} to {start + len(part)}: " if len(names) > NAMES_IN_A_LINE else ""
        yield span + ", ".join(part)


def filter_problems(
    spec: RestoreSpec, policies: FilterPolicies, archive: ArchiveIndex, discovery: Discovery
) -> Results:
    """The warnings and errors for names in filters that neither the cluster nor the backup has.

    Call it after the definitions of the backup are restored, as their kinds and short names count.
    """
    results = Results()
    archived = archive.resources
    _check_resources(spec, archived, discovery, results)
    _check_policies(spec, policies, archived, discovery, results)
    namespaces = _namespaces_of(archive)
    known, advice = KnownNames(namespaces), Advice(sorted(namespaces))
    for name in spec.included_namespaces:
        if name not in ("", EVERYTHING) and not known.has(name):
            results.warnings.add_velero(_absent("includedNamespaces", name, advice.near(name)))
    for name in spec.excluded_namespaces:
        near_ones = [] if is_glob(name) or name in namespaces else advice.near(name)
        if near_ones:
            results.warnings.add_velero(_absent("excludedNamespaces", name, near_ones))
    for name in sorted(spec.namespace_mapping):
        if name not in namespaces:
            results.warnings.add_velero(_absent("namespaceMapping", name, advice.near(name)))
    results.warnings.add_velero(*_hooks_without_namespace(spec, namespaces))
    return results


def _check_policies(
    spec: RestoreSpec,
    policies: FilterPolicies,
    archived: Sequence[str],
    discovery: Discovery,
    results: Results,
) -> None:
    """Warn of kinds in filter policies without effect. (docs/spec/after-1.18.md, 2.5)"""
    canonical, kinds = canonical_names(discovery, archived), ArchivedKinds(archived)
    lists = IncludesExcludes.resolved(spec.included_resources, spec.excluded_resources, canonical)
    for kind, place in policies.kinds():
        name = canonical(kind.lower())
        if not lists.matches(name):
            text = f"{kind} is globally excluded by RestoreSpec.ExcludedResources"
            if name not in lists.excludes:
                text = f"spec.includedResources does not include {kind}"
            text = f"{place}: {text}; the per-namespace filter entry has no effect"
        elif not kinds.has(name):
            text = f"{place}: the backup has no object of the kind {kind}"
        else:
            continue
        results.warnings.add_velero(Notice(Code.FILTER_MATCHES_NOTHING, text))


def _hooks_without_namespace(spec: RestoreSpec, namespaces: set[str]) -> Iterator[Notice]:
    """The warnings for hooks that name a namespace which nothing is restored into."""
    targets = {spec.namespace_mapping.get(name, name) for name in namespaces}
    known, advice = KnownNames(targets), Advice(sorted(targets))
    for hooks in spec.hooks.resources:
        for name in hooks.included_namespaces:
            if name in ("", EVERYTHING) or known.has(name):
                continue
            new = spec.namespace_mapping.get(name)
            why = (
                f"it is restored as {new}, and hooks are chosen by the new namespace"
                if new is not None
                else f"nothing is restored into it{did_you_mean(advice.near(name))}"
            )
            text = f'the hooks "{hooks.name}" (spec.hooks) name the namespace {name}: {why}'
            yield Notice(Code.FILTER_MATCHES_NOTHING, text)


def _absent(field: str, namespace: str, near: Iterable[str]) -> Notice:
    what = f'spec.{field} names "{namespace}", but the backup has no object of that namespace'
    return Notice(Code.FILTER_MATCHES_NOTHING, what + did_you_mean(near))


def _check_resources(
    spec: RestoreSpec, archived: Sequence[str], discovery: Discovery, results: Results
) -> None:
    kinds = ArchivedKinds(archived)
    for unserved in unserved_names(spec.included_resources, discovery):
        if kinds.has(unserved.name):
            continue
        message = Notice(
            Code.FILTER_MATCHES_NOTHING,
            f"spec.includedResources names {unserved.name}, but the backup has no object of that kind:"
            f" {unserved.text}",
        )
        if unserved.is_pattern:
            results.warnings.add_velero(message)
        else:
            results.errors.add_velero(message)
    wanted = spec.restore_status.included_resources if spec.restore_status is not None else ()
    for unserved in unserved_names(wanted, discovery):
        if not kinds.has(unserved.name):
            text = f"spec.restoreStatus.includedResources: {unserved.text}"
            results.warnings.add_velero(Notice(Code.FILTER_MATCHES_NOTHING, text))
    written = [name for name in spec.excluded_resources if name not in _EXCLUDED_BY_RULE]
    of_statuses = spec.restore_status.excluded_resources if spec.restore_status is not None else ()
    advice = Advice([*archived, *(kind.partition(".")[0] for kind in archived)])
    for field, names in (("excludedResources", written), ("restoreStatus.excludedResources", of_statuses)):
        for unserved in unserved_names(names, discovery):
            # Excluding a missing resource is no mistake, unless an existing one may have been meant.
            if unserved.is_pattern or kinds.has(unserved.name):
                continue
            if near := advice.near(unserved.name):
                text = f"spec.{field} names {unserved.name}, but the backup has no object of that kind"
                results.warnings.add_velero(Notice(Code.FILTER_MATCHES_NOTHING, text + did_you_mean(near)))


def _namespaces_of(archive: ArchiveIndex) -> set[str]:
    found = set(archive.names(NAMESPACES.group_resource, ""))
    for group_resource in archive.resources:
        found.update(archive.namespaces(group_resource))
    return found - {""}


def empty_selection(spec: RestoreSpec, archive: ArchiveIndex) -> Notice:
    """The warning for a restore that selected no item at all."""
    held = sum(
        len(archive.names(group_resource, namespace))
        for group_resource in archive.resources
        for namespace in archive.namespaces(group_resource)
    )
    if not held:
        return Notice(Code.NOTHING_SELECTED, "nothing was restored: the backup holds no object")
    filters = "; ".join(_filters(spec))
    none = "the only object in the backup is not selected"
    if held != 1:
        none = f"none of the {held:,} objects in the backup is selected"
    text = f"nothing was restored: {none}{f' ({filters})' if filters else ''}"
    return Notice(Code.NOTHING_SELECTED, text)


def _filters(spec: RestoreSpec) -> Iterator[str]:
    """The filters that the author of a Restore wrote, as in its spec."""
    lists = {
        "includedNamespaces": spec.included_namespaces,
        "excludedNamespaces": spec.excluded_namespaces,
        "includedResources": spec.included_resources,
        "excludedResources": [name for name in spec.excluded_resources if name not in _EXCLUDED_BY_RULE],
    }
    for name, values in lists.items():
        if values:
            yield f"{name}: {', '.join(values)}"
    selector = spec.label_selector
    if selector is not None and (selector.match_labels or selector.match_expressions):
        terms = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
        terms += [
            f"{term.key} {term.operator} ({','.join(term.values)})" for term in selector.match_expressions
        ]
        yield f"labelSelector: {', '.join(terms)}"
    if spec.or_label_selectors:
        yield f"orLabelSelectors: {LabelChoice.of(None, spec.or_label_selectors)}"
    if spec.include_cluster_resources is not None:
        yield f"includeClusterResources: {str(spec.include_cluster_resources).lower()}"
