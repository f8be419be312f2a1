"""The pass over all planned resources, and the definitions at its end. (docs/spec: BKP 5, 12, 13)"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from pinnace.api.objects import JSONObject, mapping
from pinnace.backup.breadth import is_wide
from pinnace.backup.conversion import CANNOT_ANSWER, MixedLists, versions_by_storage
from pinnace.backup.counting import COUNT_AFTER_SECONDS, count_resources, countable
from pinnace.backup.errors import BackupError, FatalBackupError, ItemFailed, list_failure
from pinnace.backup.item.context import BackupRun
from pinnace.backup.item.crds import back_up_definitions
from pinnace.backup.item.handlers.table import HANDLERS
from pinnace.backup.item.life import ItemBackupper
from pinnace.backup.item.raw_items import RawItems
from pinnace.backup.item.tracking import identity_of, item_key, kind_key
from pinnace.backup.listing import CompleteLists
from pinnace.backup.plan import (
    PlannedResource,
    plan_collection,
)
from pinnace.backup.progress import PROGRESS_MESSAGE, item_fields
from pinnace.backup.request import is_of_tenant
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.lists.pages import Item, Page
from pinnace.kube.resources import NAMESPACES, APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of

LISTS_AT_ONCE = 5
"""How many other lists are read at the same time as one whose items are decoded. Each holds up to three
pages in memory."""
ITEMS_AT_ONCE = 16
"""How many items with actions are processed at once. Each waits for one request at a time."""
_pause = asyncio.sleep


class Collection:
    """One pass; it keeps count of the items that are known to come."""

    def __init__(self, run: BackupRun) -> None:
        self._run = run
        self._items = ItemBackupper(run)
        self._lists = CompleteLists(run.client, run.log)
        self._mixed: dict[str, CompleteLists] = {}
        self._failed: dict[str, KubeError] = {}
        self._has_read_a_list = False
        self._unlistable: set[APIResource] = set()
        self._taken: set[str] = set()
        self._following = asyncio.TaskGroup()
        self._to_come: dict[object, int] = {}
        self._occupied: set[str] = set()
        self._begun: set[str] = set()

    async def run(self) -> None:
        """Collect everything, and wait for the volumes that node agents still save then."""
        try:
            async with self._following:
                await self._collect_all()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from failures

    def check_not_vain(self) -> None:
        """Raise FatalBackupError if every list failed, so that at most namespaces are in the backup.

        That is an account without rights, or an API server that is away: no partial success.
        """
        if not self._failed or self._has_read_a_list:
            return
        if set(self._run.tracker.resource_list()) <= {"v1/Namespace"}:
            first = next(iter(self._failed.values()))
            number = len(self._failed)
            which = (
                f"none of {number} kinds could be listed; the first error"
                if number > 1
                else "nothing could be listed"
            )
            notice = notice_of(first, Code.LIST_FAILED, f"{which}: {first}")
            raise FatalBackupError(notice) from first

    async def _collect_all(self) -> None:
        run = self._run
        plan = plan_collection(run.discovery.resources, run.scope, run.discovery.preferred)
        for resource in plan.unresolved:
            run.log.error(
                Notice(Code.KIND_NOT_SERVED, "Error getting the preferred version"),
                resource=resource.group_resource,
            )
        kinds = _by_kind(plan.resources, run.discovery)
        last = [kind for kind in kinds if self._depends_on_items(kind[0])]
        in_order = [kind for kind in kinds if kind not in last and any(map(self._may_need_work, kind))]
        rest = iter([kind for kind in kinds if kind not in last and kind not in in_order])
        run.activity.plan(planned.resource.group_resource for planned in plan.resources)
        lanes = (self._lane(iter(in_order)), *(self._lane(rest) for _ in range(LISTS_AT_ONCE)))
        counting = asyncio.create_task(self._count(plan.resources), name="count objects")
        try:
            await _all_of(*lanes)
            if last:
                self._occupied = run.tracker.namespaces()
                await self._lane(iter(last))
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
        await back_up_definitions(run, self._items, self._taken)

    async def _count(self, resources: Sequence[PlannedResource]) -> None:
        """Count the objects that are not listed yet, if the progress is shown and no label selects them.

        The API server does not count the objects that match a label selector.
        """
        run = self._run
        if not run.progress.is_watched or not run.scope.labels.empty or run.scope.policies:
            return
        await _pause(COUNT_AFTER_SECONDS)

        def is_wanted(planned: PlannedResource) -> bool:
            return planned.resource.group_resource not in self._begun

        def counted(planned: PlannedResource, number: int) -> None:
            name = planned.resource.group_resource
            self._to_come[name] = number
            run.activity.counted(name)

        wanted = [planned for planned in resources if is_wanted(planned)]
        await count_resources(
            run.client, countable(wanted), is_wanted=is_wanted, counted=counted, log=run.log
        )

    def _depends_on_items(self, planned: PlannedResource) -> bool:
        """Whether a resource comes after all others: namespaces, where labels select what is in them.

        A namespace is then in the backup if its own labels are selected, or if anything in it is: a restore
        needs its labels and annotations. (docs/spec: BEY 4.12)
        """
        return planned.resource.group_resource == NAMESPACES.name and not self._run.scope.labels.empty

    def _may_need_work(self, planned: PlannedResource) -> bool:
        """Whether the items of a resource may need more than being stored.

        Those resources are collected in the order of the plan, as the work for one may depend on the work for
        another. The order of all others does not matter.
        """
        group_resource = planned.resource.group_resource
        is_special = group_resource in HANDLERS or planned.order
        return bool(is_special or self._run.actions.for_resource(group_resource))

    async def _lane(self, kinds: Iterator[list[PlannedResource]]) -> None:
        """Collect one resource after the other, as long as there are any."""
        for versions in kinds:
            for planned in versions:
                await self._collect(planned)

    async def _collect(self, planned: PlannedResource) -> None:
        activity, name = self._run.activity, planned.resource.group_resource
        self._begun.add(name)
        activity.begin(name, self._to_come.get(name))
        try:
            await self._collect_items(planned)
        finally:
            self._to_come.pop(name, None)
            self._mixed.pop(name, None)
            activity.end(name)

    async def _collect_items(self, planned: PlannedResource) -> None:
        await self._fetch_namespaces(planned)
        await self._fetch_ordered(planned)
        raw = RawItems(self._run, planned.resource)
        run = self._run
        if await is_wide(run.client, planned, run.log, is_confined=is_of_tenant(run.backup)):
            failure = await self._list_everywhere(planned, raw)
            if failure is None:
                return
            run.log.info(
                "Listing namespace by namespace, as the list of all failed",
                resource=planned.resource.group_resource,
                error=str(failure),
            )
        for number, namespace in enumerate(planned.namespaces):
            listing = run.scope.listing(planned.resource, namespace)
            if listing is None:
                self._note_kind(planned.resource, namespace)
                continue
            run.activity.listing(planned.resource.group_resource, number, len(planned.namespaces))
            queries = ("",) if self._depends_on_items(planned) else listing.queries
            for query in queries:
                await self._list(planned.resource, namespace, query, raw)

    async def _list_everywhere(self, planned: PlannedResource, raw: RawItems) -> KubeError | None:
        """Back up the items of named namespaces from a list of all; the failure if that is not possible.

        What came before it is in the backup, and not taken a second time.
        """
        listing = self._run.scope.listing(planned.resource, "")
        assert listing is not None  # no policy is for all namespaces at once
        for query in listing.queries:
            failed = await self._read_list(planned.resource, "", query, raw)
            if failed is not None:
                return failed
        return None

    async def _list(self, resource: APIResource, namespace: str, query: str, raw: RawItems) -> None:
        """Back up the items of one list; a list that fails counts as an error. (docs/spec: BKP 5.3)

        If a conversion webhook does not answer, the list is read again, in the versions that are stored.
        """
        run, name = self._run, resource.group_resource
        if resource in self._unlistable:
            return
        error = await self._read_list(resource, namespace, query, raw)
        if error is None:
            return
        if name not in self._mixed:
            versions = await versions_by_storage(run.client, run.discovery, resource, error)
            if versions and run.discovery.preferred(name) is not resource and name not in self._failed:
                self._unlistable.add(resource)
                run.log.warning(
                    Notice(
                        Code.VERSION_NOT_SAVED,
                        f"The objects are not saved in version {resource.version}, too, as it cannot be"
                        " listed",
                    ),
                    error=error,
                    resource=name,
                )
                return
            if versions and run.discovery.preferred(name) is resource:
                lists = MixedLists(run.client, versions)
                self._mixed[name] = CompleteLists(lists, run.log)
                if await self._read_list(resource, namespace, query, raw) is None:
                    self._note_versions(resource, lists.used, error)
                    return
        self._failed.setdefault(name, error)
        run.log.error(
            list_failure(error, Code.LIST_FORBIDDEN, "Error listing items"),
            error=error,
            resource=name,
            namespace=namespace,
        )
        if isinstance(error, CANNOT_ANSWER):
            self._taken.add(name)  # its objects may be there: at least their definition is in the backup

    def _note_versions(self, resource: APIResource, used: list[str], error: KubeError) -> None:
        if used == [resource.version]:
            return  # the list could be read when it was read again
        several, alone = ("s", " alone") if resource.version in used else ("", "")
        self._run.log.warning(
            Notice(
                Code.LISTED_IN_ANOTHER_VERSION,
                f"Listed in version{several} {' and '.join(used)}, as version {resource.version}{alone}"
                " cannot be listed",
            ),
            error=error,
            resource=resource.group_resource,
        )

    async def _read_list(
        self, resource: APIResource, namespace: str, query: str, raw: RawItems
    ) -> KubeError | None:
        """Back up the items of one list. An item that several label selectors match is in the backup once."""
        run = self._run
        log = run.log
        log.info("Listing items", resource=resource.group_resource, namespace=namespace)
        lists = self._mixed.get(resource.group_resource, self._lists)
        pages = lists.pages(resource, namespace or None, label_selector=query)
        listing = run.scope.listing(resource, namespace)
        is_namespaces = resource.group_resource == NAMESPACES.name
        is_chosen_here = (listing is not None and listing.is_chosen_here) or (
            is_namespaces and not run.scope.labels.empty
        )
        lane = object()
        try:
            async with aclosing(pages):  # a full disk ends this in the middle, with pages in flight
                async for page in pages:
                    self._arrived(resource, lane, page, is_only_list=not namespace)
                    items = page.items
                    if not namespace and resource.namespaced:
                        items = [item for item in items if run.scope.takes_from(item.namespace)]
                    if resource.group_resource in self._mixed:
                        items = [item for item in items if not self._is_in_another_version(item, resource)]
                    if is_chosen_here:
                        items = [
                            item
                            for item in items
                            if self._is_selected(resource, item.namespace, item.name, item.labels)
                        ]
                    if items:
                        await run.actions.prepare(resource.group_resource)
                    plain, others = self._items.split(items, resource)
                    after = self._expected() - len(plain)
                    if plain and await raw.back_up(plain, after):
                        self._taken.add(resource.group_resource)
                    self._to_come[lane] -= len(page.items) - len(others)
                    run.activity.processed(resource.group_resource, len(page.items) - len(others))
                    await self._back_up_items(others, resource, lane)
        except KubeError as error:
            return error
        finally:
            self._to_come.pop(lane, None)
        self._has_read_a_list = True
        return None

    def _is_in_another_version(self, item: Item, resource: APIResource) -> bool:
        """Whether an object of a mixed list is in the backup already, from a list in another version."""
        run, key = self._run, item_key(item.namespace, item.name)
        return any(
            run.tracker.has(kind_key(f"{resource.group}/{version}", item.kind), key)
            for version in run.discovery.group_versions(resource.group)
            if f"{resource.group}/{version}" != item.api_version
        )

    def _arrived(self, resource: APIResource, lane: object, page: Page, *, is_only_list: bool) -> None:
        """Note how much follows a page: what its list says replaces what was counted before it."""
        name, remaining, size = resource.group_resource, page.remaining, len(page.items)
        if remaining is None and not page.continue_token:
            remaining = 0
        counted = self._to_come.get(name)
        if counted is not None and lane not in self._to_come:
            self._to_come[name] = 0 if is_only_list else max(0, counted - size - (remaining or 0))
        self._to_come[lane] = size + (remaining or 0)
        self._run.activity.page(name, size, remaining, is_only_list=is_only_list)

    def _expected(self) -> int:
        """How many items are known to come, those of the pages in memory included."""
        return sum(self._to_come.values())

    async def _back_up_items(self, items: Sequence[Item], resource: APIResource, lane: object) -> None:
        """Pass the items of a page through the item pipeline, several at once where their order does not
        matter.

        An item waits for the objects that its actions name; processed one after the other, thousands of
        accounts and claims would spend most of the time waiting.
        """
        is_namespaces, scope = resource.group_resource == NAMESPACES.name, self._run.scope
        waiting = deque(items)

        async def work() -> None:
            while waiting:
                item = waiting.popleft()
                if is_namespaces and not scope.admits_namespace(item.name):
                    self._to_come[lane] -= 1
                    continue
                try:
                    decoded = item.decode()
                except ValueError as error:
                    # Nested too deeply to be decoded, which its actions need.
                    failure = ItemFailed(
                        [BackupError(Notice(Code.ITEM_NOT_SAVED, f"the object cannot be decoded: {error}"))]
                    )
                    self._run.report(failure, resource.group_resource, item.namespace, item.name)
                    self._to_come[lane] -= 1
                    continue
                await self._back_up_item(decoded, resource, lane)

        lanes = min(self._lanes(resource), len(waiting))
        if not lanes:
            return
        await _all_of(*(work() for _ in range(lanes)))

    def _lanes(self, resource: APIResource) -> int:
        """How many items are processed at once: one for pods, whose claims are taken in their order."""
        in_order = resource.group_resource in HANDLERS and self._run.collaborators.volumes
        return 1 if in_order else ITEMS_AT_ONCE

    async def _back_up_item(self, item: JSONObject, resource: APIResource, lane: object) -> None:
        """Pass an item through the item pipeline, log the outcome, and update the progress.

        Args:
            lane: the list, page or series of requests that the item belongs to.
        """
        run = self._run
        namespace, name = identity_of(item)
        try:
            if await self._items.back_up(item, resource, following=self._following):
                self._taken.add(resource.group_resource)
        except ItemFailed as failure:
            run.report(failure, resource.group_resource, namespace, name)
        self._to_come[lane] -= 1
        done = run.tracker.count
        total = done + self._expected()
        run.log.info(
            PROGRESS_MESSAGE % (done, total),
            progress="",
            **item_fields(resource.group_resource, namespace, name),
        )
        run.progress.update(done, total)
        run.activity.processed(resource.group_resource)

    async def _fetch_namespaces(self, planned: PlannedResource) -> None:
        """Back up the namespaces that the filters include by name. (docs/spec: BKP 5.4)"""
        lane = object()
        for index, name in enumerate(planned.names):
            self._to_come[lane] = len(planned.names) - index
            try:
                item = await self._run.client.get(planned.resource, name)
            except KubeError as error:
                self._run.log.error(
                    notice_of(error, Code.LIST_FAILED, "Error getting namespace"), error=error, namespace=name
                )
                continue
            if self._is_selected(planned.resource, "", name, mapping(item, "metadata", "labels")):
                await self._back_up_item(item, planned.resource, lane)
        self._to_come.pop(lane, None)

    async def _fetch_ordered(self, planned: PlannedResource) -> None:
        """Back up the items that `orderedResources` names before the list, which skips them later.

        (docs/spec: BKP 5.7) Fetching them saves keeping the whole list in memory to sort it.
        """
        fetched: set[str] = set()
        lane = object()
        for index, key in enumerate(planned.order):
            self._to_come[lane] = len(planned.order) - index
            item = None if key in fetched else await self._fetch_listed(planned, key)
            if item is None:
                group_resource = planned.resource.group_resource
                self._run.log.warning(
                    Notice(Code.ITEM_GONE, f"Cannot find resource '{key}'."), resource=group_resource
                )
                continue
            fetched.add(key)
            await self._back_up_item(item, planned.resource, lane)
        self._to_come.pop(lane, None)

    async def _fetch_listed(self, planned: PlannedResource, key: str) -> JSONObject | None:
        """An item by `namespace/name` or `name`, if the lists of its resource would contain it."""
        namespace, slash, name = key.rpartition("/")
        if bool(slash) != planned.resource.namespaced or not name:
            return None
        if planned.resource.namespaced and not {"", namespace} & set(planned.namespaces):
            return None
        try:
            item = await self._run.client.get(planned.resource, name, namespace or None)
        except NotFound:
            return None
        except KubeError as error:
            # The list will return it, or fail and count itself; only its position in the order is lost.
            self._run.log.warning(
                Notice(Code.ITEM_GONE, f"Error getting '{key}' ahead of the others"), error=error
            )
            return None
        labels = mapping(item, "metadata", "labels")
        return item if self._is_selected(planned.resource, namespace, name, labels) else None

    def _is_selected(
        self, resource: APIResource, namespace: str, name: str, labels: Mapping[str, str] | None
    ) -> bool:
        """Whether name and labels choose an object, or it is a namespace with items in the backup."""
        scope, kind = self._run.scope, resource.group_resource
        if name in self._occupied or scope.takes(kind, namespace, name, labels):
            return True
        if scope.policies and (ruling := scope.policies.ruling(kind, namespace)) is not None:
            self._run.left_out.object(ruling.place, kind)
        return False

    def _note_kind(self, resource: APIResource, namespace: str) -> None:
        ruling = self._run.scope.policies.ruling(resource.group_resource, namespace)
        if ruling is not None:
            self._run.left_out.kind(ruling.place, resource.group_resource, namespace)


def _by_kind(resources: Sequence[PlannedResource], discovery: Discovery) -> list[list[PlannedResource]]:
    """The resources in their order, those of one kind together, the preferred version first."""
    kinds: dict[str, list[PlannedResource]] = {}
    for planned in resources:
        versions = kinds.setdefault(planned.resource.group_resource, [])
        is_preferred = discovery.preferred(planned.resource.group_resource) is planned.resource
        versions.insert(0 if is_preferred else len(versions), planned)
    return list(kinds.values())


async def _all_of(*work: Coroutine[Any, Any, None]) -> None:
    """Run everything at once.

    The first failure cancels the rest and is raised unchanged: a broken archive, or a defect, ends the run,
    and later failures only follow from it.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures
