"""The order of the steps of one item: what its kind needs, its actions, the archive.

The order of the steps and the effect of each failure guarantee that additional items are complete before
their parent, and that an item is in the archive only if everything that belongs to it was saved. A pod is in
it nevertheless if only a post hook or the content of volumes failed: it is written as soon as its node agent
has been asked for them, and the next pod does not wait. (docs/spec: BKP 6, 8, 9.2, 10, ADR 081, ADR 120)
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack

from pinnace.api.labels import EXCLUDE_FROM_BACKUP, EXCLUDE_FROM_BACKUP_VALUE
from pinnace.api.objects import JSONObject
from pinnace.backup.conversion import get_in_any_version
from pinnace.backup.errors import ItemFailed
from pinnace.backup.item.acting import run_actions
from pinnace.backup.item.archiving import ItemArchive
from pinnace.backup.item.context import BackupRun
from pinnace.backup.item.handlers.handler import BackupVisit
from pinnace.backup.item.handlers.table import HANDLERS, handlers_of
from pinnace.backup.item.tracking import identity_of, item_key, kind_key, kind_of
from pinnace.backup.progress import item_fields, trace_item
from pinnace.kube.errors import Forbidden, KubeError, NotFound, UnknownResource
from pinnace.kube.lists.pages import Item
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.protocols import ResourceIdentifier


class ItemBackupper:
    """Backs up single items that are known as dicts."""

    def __init__(self, run: BackupRun) -> None:
        self._run = run
        self._archive = ItemArchive(run)

    def split(self, items: list[Item], resource: APIResource) -> tuple[list[Item], list[Item]]:
        """Split a page into the items that only need to be stored, and those that need the pipeline."""
        actions = self._run.actions.ignoring(resource.group_resource)
        handler = HANDLERS.get(resource.group_resource)
        if actions is None:
            return [], items
        if not actions and handler is None:
            return items, []
        plain: list[Item] = []
        others: list[Item] = []
        for item in items:
            raw = bytes(item.raw)
            is_wanted = handler is not None and handler.wants(self._run, raw)
            is_ignored = all(action.ignores(item.namespace, item.name, raw) for action in actions)
            (plain if is_ignored and not is_wanted else others).append(item)
        return plain, others

    async def back_up(
        self,
        item: JSONObject,
        resource: APIResource,
        *,
        forced: bool = False,
        following: asyncio.TaskGroup | None = None,
    ) -> bool:
        """Pass an item through the pipeline, unless a rule leaves it out. (docs/spec: BKP 6.1, 6.3)

        Args:
            forced: whether the item is taken although the filters leave it out.
            following: takes over the rest of a pod, its volumes and then its post hooks, while the caller
                goes on to the next one. Without it the rest is awaited here, as an item is complete before
                the one that names it.

        Returns:
            Whether it is in the backup, now or already.

        Raises:
            ItemFailed: it is not in the backup, with every reason; nothing is logged yet.
            ArchiveWriteError: the archive itself is broken.
        """
        namespace, name = identity_of(item)
        scope = self._run.scope
        is_admitted = not _is_excluded(item) and scope.admits(resource.group_resource, namespace, name)
        if not (forced or is_admitted):
            return False
        kind, key = kind_of(item), item_key(namespace, name)
        if not self._run.tracker.begin(kind, key):
            return True
        if self._run.log.writes_debug:
            trace_item(self._run.log, resource.group_resource, namespace, name)
        try:
            is_taken = await self._take(item, resource, following)
        except ItemFailed:
            self._run.tracker.leave_out(kind, key)
            raise
        if not is_taken:
            self._run.tracker.skip(kind, key)
        return is_taken

    async def _take(
        self, item: JSONObject, resource: APIResource, following: asyncio.TaskGroup | None
    ) -> bool:
        """Back up an item; False if an action left it out. Raises ItemFailed."""
        async with AsyncExitStack() as held:
            visit = BackupVisit(self._run, resource, following, held)
            handlers = handlers_of(visit)
            for handler in handlers:
                item = await handler.before(item)
            identity, api_version = identity_of(item), item.get("apiVersion", "")
            errors: list[BaseException] = []
            try:
                changed = await run_actions(visit, item, self._back_up_additional)
            except ItemFailed as failure:
                changed, errors = None, [*failure.errors]
            if changed is None:
                for handler in handlers:
                    errors += await handler.given_up(item)
                if errors:
                    raise ItemFailed(errors)
                return False
            for handler in handlers:
                await handler.prepared(changed)
            await self._archive.write(changed, identity, resource, api_version)
            for handler in handlers:
                await handler.after(changed)
        return True

    async def _back_up_additional(
        self, wanted: ResourceIdentifier, *, forced: bool = False, selected_only: bool = False
    ) -> None:
        """Fetch an item that an action named and back it up completely. (docs/spec: BKP 8.2, BEY 4.12)

        Args:
            forced: whether the item is taken although the filters leave it out.
            selected_only: leave it out if the label selector of the backup does not match it.
        """
        run = self._run
        try:
            resource = run.discovery.resolve(wanted.group_resource)
        except UnknownResource as error:
            raise ItemFailed([error]) from error
        kind = kind_key(resource.api_version, resource.kind)
        # Both questions are asked again with the object at hand; asking now saves a request for most items.
        if run.tracker.has(kind, item_key(wanted.namespace, wanted.name)):
            return
        if not forced and not run.scope.admits(resource.group_resource, wanted.namespace, wanted.name):
            run.excluded.add(wanted.group_resource, item_key(wanted.namespace, wanted.name))
            return
        try:
            item = await get_in_any_version(
                run.client, run.discovery, resource, wanted.name, wanted.namespace or None
            )
        except NotFound as error:
            run.log.warning(
                Notice(
                    Code.ADDITIONAL_ITEM_MISSING,
                    "Additional item was not found in Kubernetes API, can't back it up",
                ),
                error=error,
                **item_fields(wanted.group_resource, wanted.namespace, wanted.name),
            )
            return
        except Forbidden as error:
            # A user who may read only some namespaces gets what they may read: this object is lost, but
            # not those that refer to it. (docs/spec: ADR 023)
            failure = ItemFailed([error])
            run.report(failure, wanted.group_resource, wanted.namespace, wanted.name)
            return
        except KubeError as error:
            raise ItemFailed([error]) from error
        labels = (item.get("metadata") or {}).get("labels")
        if selected_only and not run.scope.takes_related(
            resource.group_resource, wanted.namespace, wanted.name, labels
        ):
            return
        if not forced and _has_exclusion_label(labels):
            run.log.info(
                f"An object that another refers to is left out, as it has the label {EXCLUDE_FROM_BACKUP}",
                **item_fields(wanted.group_resource, wanted.namespace, wanted.name),
            )
            return
        try:
            await self.back_up(item, resource, forced=forced)
        except ItemFailed as failure:
            # Errors of an additional item reach the outermost item as one. (docs/spec: BKP 3.4)
            raise ItemFailed([failure]) from failure


def _is_excluded(item: JSONObject) -> bool:
    """Rules 1 and 5: the label that excludes, and what is being deleted. (docs/spec: BKP 6.1)"""
    metadata = item.get("metadata") or {}
    return _has_exclusion_label(metadata.get("labels")) or bool(metadata.get("deletionTimestamp"))


def _has_exclusion_label(labels: Mapping[str, str] | None) -> bool:
    """Whether an object with these labels is left out of every backup."""
    return labels is not None and labels.get(EXCLUDE_FROM_BACKUP) == EXCLUDE_FROM_BACKUP_VALUE
