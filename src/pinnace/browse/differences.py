"""The differences between two backups, or between a backup and a cluster, object by object.

Indexes say which objects may differ; only those are read and compared by their values.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from pinnace.api.kinds import NAMESPACES
from pinnace.api.objects import JSONObject
from pinnace.api.selection.names import IncludesExcludes
from pinnace.archive.content import checksum_of
from pinnace.archive.item_index import IndexedItem
from pinnace.browse.choosing import Choice
from pinnace.browse.comparing import Change, changes, without_server_fields
from pinnace.browse.errors import BrowseError
from pinnace.browse.filter_check import FilterCheck
from pinnace.browse.joining import Identity, join
from pinnace.browse.masking import is_secret, masked, masked_change, masked_pair
from pinnace.browse.stored import StoredBackup, decoded
from pinnace.kube.errors import Forbidden, KubeError, UnknownResource
from pinnace.kube.lists.pages import Item, Page
from pinnace.kube.resources import APIResource

if TYPE_CHECKING:  # two backups are compared without a cluster
    from pinnace.kube.client import KubeClient
    from pinnace.kube.discovery import Discovery

_PAIRS_AT_ONCE: Final = 1000


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How objects are compared.

    Attributes:
        all_fields: the status and what the API server sets in the metadata count too.
        show_secrets: values of Secrets are not hidden.
        read_whole: objects that are only on one side are read too.
    """

    all_fields: bool = False
    show_secrets: bool = False
    read_whole: bool = False


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """An object that was added, removed or changed.

    Attributes:
        old, new: the object; None where it is absent or was not read. Values of Secrets are hidden.
        changes: the fields that differ, if it is on both sides.
    """

    resource: str
    namespace: str
    name: str
    what: str
    old: JSONObject | None = None
    new: JSONObject | None = None
    changes: Sequence[Change] = ()


ADDED, REMOVED, CHANGED = "added", "removed", "changed"


class LiveCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that a backup is compared with.

    Attributes:
        spec: the spec of the backup, whose filters decide which other live objects count as added.
    """

    client: "KubeClient"
    discovery: "Discovery"
    spec: JSONObject


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The differences, by namespace, type and name, and what the filters matched in the backups."""

    differences: Sequence[Difference]
    filters: FilterCheck


async def differences(
    backup: StoredBackup, other: StoredBackup | LiveCluster, choice: Choice, rules: Rules
) -> Comparison:
    """Compare the selected objects of a backup with those of another one, or of a cluster.

    Each index is read once. Of a cluster only those types are listed that the backup has objects of.

    Raises:
        IndexUnusable: what was found may be wrong; call again after `leave_index_aside`.
        BrowseError: a backup cannot be read, or a list of the cluster.
    """
    check = FilterCheck(choice)
    if isinstance(other, LiveCluster):
        compared_objects = _with_cluster(backup, other, check, rules)
    else:
        compared_objects = _between_backups(backup, other, check, rules)
    async with aclosing(compared_objects):
        found = [difference async for difference in compared_objects]
    found.sort(key=lambda one: (one.namespace, one.resource, one.name))
    return Comparison(differences=found, filters=check)


async def _between_backups(
    old: StoredBackup, new: StoredBackup, check: FilterCheck, rules: Rules
) -> AsyncGenerator[Difference, None]:
    joined = await join(old, new, check.choice, check)
    for what, backup, entries in ((REMOVED, old, joined.removed), (ADDED, new, joined.added)):
        async with aclosing(_one_sided(backup, entries, what, rules)) as found:
            async for difference in found:
                yield difference
    pairs = iter(joined.differing)
    while some := list(islice(pairs, _PAIRS_AT_ONCE)):
        before = await _objects(old, [pair[0] for pair in some])
        after = await _objects(new, [pair[1] for pair in some])
        for entry, _ in some:
            pair = before[entry.identity], after[entry.identity]
            if (changed := compared(entry.identity, *pair, rules)) is not None:
                yield changed


async def _one_sided(
    backup: StoredBackup, entries: Sequence[IndexedItem], what: str, rules: Rules
) -> AsyncGenerator[Difference, None]:
    for at in range(0, len(entries), _PAIRS_AT_ONCE):
        some = entries[at : at + _PAIRS_AT_ONCE]
        objects = await _objects(backup, some) if rules.read_whole else {}
        for entry in some:
            yield one_sided(entry.identity, objects.get(entry.identity), what, rules)


def one_sided(identity: Identity, obj: JSONObject | None, what: str, rules: Rules) -> Difference:
    """The difference that an object is on one side only."""
    resource, namespace, name = identity
    if obj is not None:
        obj = obj if rules.all_fields else without_server_fields(obj)
        obj = obj if rules.show_secrets else masked(obj, resource)
    return Difference(
        resource=resource,
        namespace=namespace,
        name=name,
        what=what,
        old=obj if what == REMOVED else None,
        new=obj if what == ADDED else None,
    )


def compared(identity: Identity, old: JSONObject, new: JSONObject, rules: Rules) -> Difference | None:
    """The difference of an object's two versions, None if nothing that counts differs."""
    if not rules.all_fields:
        old, new = without_server_fields(old), without_server_fields(new)
    found = changes(old, new)
    if not found:
        return None
    resource, namespace, name = identity
    if (is_secret(old, resource) or is_secret(new, resource)) and not rules.show_secrets:
        found = [masked_change(change) for change in found]
        old, new = masked_pair(old, new, resource)
    return Difference(
        resource=resource, namespace=namespace, name=name, what=CHANGED, old=old, new=new, changes=found
    )


async def _objects(backup: StoredBackup, entries: Iterable[IndexedItem]) -> dict[Identity, JSONObject]:
    found: dict[Identity, JSONObject] = {}
    async with aclosing(backup.contents(entries)) as contents:
        async for entry, content in contents:
            found[entry.identity] = decoded(content, backup.name, entry)
    return found


_MOST_LISTS: Final = 20
"""Up to this number of namespaces a type is listed in each of them, instead of in the whole cluster."""


class Selected:
    """Admits the live objects that a backup with the same filters would have, judged by its namespaces.

    Args:
        spec: the spec of the backup. A backup that is limited to namespaces has only those cluster-scoped
            objects that an object in it needs, so that others do not count as added.
        namespaces: the namespaces of the objects in the backup.
    """

    def __init__(self, spec: JSONObject, namespaces: frozenset[str], choice: Choice) -> None:
        self._named = IncludesExcludes(
            spec.get("includedNamespaces") or (), spec.get("excludedNamespaces") or ()
        )
        self._has_all_cluster_scoped = bool(
            spec.get("includeClusterResources")
            or spec.get("includedClusterScopedResources")
            or self._named.includes_everything
        )
        self._namespaces = namespaces
        self._choice = choice

    def listed_namespaces(self, *, namespaced: bool) -> Sequence[str | None]:
        """The namespaces to list a type in; None is one list of the whole cluster.

        Where only some namespaces count, others are not listed: the user may have no right to, and they may
        be large.
        """
        chosen = sorted(each for each in self._namespaces if each and self._choice.namespaces.matches(each))
        is_limited = not (self._named.includes_everything and self._choice.namespaces.includes_everything)
        return chosen if namespaced and is_limited and len(chosen) <= _MOST_LISTS else [None]

    def __call__(self, item: Item, entry: IndexedItem) -> bool:
        """Whether a live object, described by `entry`, counts as added."""
        if item.namespace:
            in_scope = item.namespace in self._namespaces
        elif entry.resource == NAMESPACES.group_resource:
            in_scope = self._named.matches(item.name)
        else:
            in_scope = self._has_all_cluster_scoped
        return in_scope and not item.deleting and self._choice.admits(entry)


async def _with_cluster(
    backup: StoredBackup, cluster: LiveCluster, check: FilterCheck, rules: Rules
) -> AsyncGenerator[Difference, None]:
    by_resource: dict[str, dict[Identity, IndexedItem]] = {}
    namespaces: set[str] = set()
    async for batch in backup.entries():
        check.look(batch)
        for entry in batch:
            namespaces.add(entry.namespace)
            if check.choice.admits(entry):
                by_resource.setdefault(entry.resource, {})[entry.identity] = entry
    live = _Live(cluster, Selected(cluster.spec, frozenset(namespaces), check.choice))
    for resource, entries in sorted(by_resource.items()):
        async with aclosing(_with_resource(backup, live, resource, entries, rules)) as found:
            async for difference in found:
                yield difference


class _Live(NamedTuple):
    """The cluster, and which of its objects count."""

    cluster: LiveCluster
    is_selected: Selected


async def _with_resource(
    backup: StoredBackup, live: _Live, resource: str, entries: dict[Identity, IndexedItem], rules: Rules
) -> AsyncGenerator[Difference, None]:
    try:
        served = live.cluster.discovery.resolve(resource)
    except UnknownResource:
        for identity in sorted(entries):
            yield one_sided(identity, None, REMOVED, rules)
        return
    seen: set[Identity] = set()  # a list that had to be started again has objects twice
    try:
        async with aclosing(_pages(live, served)) as pages:
            async for page in pages:
                differing: dict[Identity, tuple[IndexedItem, JSONObject]] = {}
                for item in page.items:
                    identity = (resource, item.namespace, item.name)
                    if identity in seen:
                        continue
                    seen.add(identity)
                    entry = entries.pop(identity, None)
                    if entry is None:
                        if live.is_selected(item, _live_entry(resource, item)):
                            yield one_sided(identity, item.view() if rules.read_whole else None, ADDED, rules)
                    elif checksum_of(item.json()) != entry.checksum:
                        differing[identity] = entry, item.view()
                before = await _objects(backup, [entry for entry, _ in differing.values()])
                for identity, (_, now) in differing.items():
                    if (difference := compared(identity, before[identity], now, rules)) is not None:
                        yield difference
    except Forbidden as error:
        advice = f"--exclude-resources {resource} leaves them out"
        raise BrowseError(f"cannot list {resource} in the cluster: {error}; {advice}") from error
    except KubeError as error:
        raise BrowseError(f"cannot list {resource} in the cluster: {error}") from error
    left = list(entries.values())
    async with aclosing(_one_sided(backup, left, REMOVED, rules)) as removed:
        async for difference in removed:
            yield difference


async def _pages(live: _Live, resource: APIResource) -> AsyncGenerator[Page, None]:
    for namespace in live.is_selected.listed_namespaces(namespaced=resource.namespaced):
        async with aclosing(live.cluster.client.list_pages(resource, namespace)) as pages:
            async for page in pages:
                yield page


def _live_entry(resource: str, item: Item) -> IndexedItem:
    labels: Mapping[str, str] = item.labels or {}
    return IndexedItem(
        resource=resource,
        version_directory="",
        namespace=item.namespace,
        name=item.name,
        api_version=item.api_version,
        kind=item.kind,
        uid="",
        resource_version="",
        labels=dict(labels),
        size_bytes=0,
        checksum="",
        offset=0,
    )
