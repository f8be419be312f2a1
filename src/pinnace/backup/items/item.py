"""The item pipeline: hooks, actions with their additional items, volumes, archive.

The order of the steps and the effect of each failure guarantee that additional items are complete before
their parent, and that an item is in the archive only if everything that belongs to it was saved. A pod is in
it nevertheless if only a post hook or the content of volumes failed: it is written as soon as its node agent
has been asked for them, and the next pod does not wait. (docs/spec: BKP 6, 8, 9.2, 10, ADR 081)
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

import orjson

from pinnace.api.kinds import PERSISTENT_VOLUMES, PODS
from pinnace.api.labels import (
    EXCLUDE_FROM_BACKUP,
    EXCLUDE_FROM_BACKUP_VALUE,
    MUST_INCLUDE_ADDITIONAL_ITEMS,
    SKIP_FROM_BACKUP,
)
from pinnace.api.objects import JSONObject, dump_json, mapping, text
from pinnace.api.resource_policies import VolumeAction
from pinnace.archive.errors import ArchiveError
from pinnace.archive.paths import item_file, item_scope
from pinnace.archive.tarformat import MemberDirectory
from pinnace.backup.conversion import get_in_any_version
from pinnace.backup.errors import BackupError, ItemFailed
from pinnace.backup.items.context import BackupRun, item_heads
from pinnace.backup.items.pod_work import PodWork
from pinnace.backup.items.tracking import item_key, kind_key
from pinnace.backup.progress import trace_item
from pinnace.hooks.backup_selection import HookPhase
from pinnace.kube.errors import Forbidden, KubeError, NotFound, UnknownResource
from pinnace.kube.lists.pages import Item
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of
from pinnace.plugins.asynchronous import AnyBackupItemAction, BackupItemOutput, ItemBlockAction
from pinnace.plugins.item_operations import ItemOperation
from pinnace.plugins.logs import plugin_lines_to
from pinnace.plugins.protocols import ResourceIdentifier
from pinnace.volumes.pods.in_flight import VolumesInFlight

Identity = tuple[str, str]


class ItemBackupper:
    """Backs up single items that are known as dicts."""

    def __init__(self, run: BackupRun) -> None:
        self._run = run
        self._pods = PodWork(run)
        self._hooked = asyncio.Lock()
        self._renamed_from: set[str] = set()
        self._renamed_to: set[str] = set()

    def split(self, items: list[Item], resource: APIResource) -> tuple[list[Item], list[Item]]:
        """Split a page into the items that only need to be stored, and those that need the pipeline."""
        group_resource = resource.group_resource
        actions = self._run.actions.ignoring(group_resource)
        if actions is None or group_resource == PERSISTENT_VOLUMES.group_resource:
            return [], items
        is_pods = group_resource == PODS.group_resource
        if not actions and not is_pods:
            return items, []
        plain: list[Item] = []
        others: list[Item] = []
        for item in items:
            raw = bytes(item.raw)
            is_ignored = all(action.ignores(item.namespace, item.name, raw) for action in actions)
            (plain if is_ignored and not (is_pods and self._pods.wants(raw)) else others).append(item)
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
            self._run.tracker.leave_out(kind, key)
        return is_taken

    async def _take(
        self, item: JSONObject, resource: APIResource, following: asyncio.TaskGroup | None
    ) -> bool:
        """Back up an item; False if an action left it out. Raises ItemFailed."""
        if resource.group_resource == PODS.group_resource:
            return await self._take_pod(item, resource, following)
        identity, api_version = identity_of(item), item.get("apiVersion", "")
        changed = await self._run_actions(item, resource)
        if changed is None:
            return False
        is_volume = resource.group_resource == PERSISTENT_VOLUMES.group_resource
        if is_volume and (errors := await self._snapshot(changed)):
            raise ItemFailed(errors)
        await self._write(changed, identity, resource, api_version)
        return True

    async def _take_pod(
        self, pod: JSONObject, resource: APIResource, following: asyncio.TaskGroup | None
    ) -> bool:
        """Back up a pod: it is in the archive before its volumes are saved, which may take hours.

        Pods with hooks freeze and thaw, so that one of them is complete before the next one is frozen. A pod
        that another item names does not wait for its turn: that item may have it.
        """
        async with AsyncExitStack() as held:
            if following is not None and self._pods.has_hooks(pod):
                await held.enter_async_context(self._hooked)
            self._pods.warn_of_undone_work(pod)
            await self._pods.run_hooks(HookPhase.PRE, pod)
            volumes = await self._pods.choose_volumes(pod)
            # Actions may change the dict they are given; volumes are saved from the cluster's pod.
            original = orjson.loads(dump_json(pod)) if volumes else pod
            identity, api_version = identity_of(pod), pod.get("apiVersion", "")
            try:
                changed = await self._run_actions(pod, resource)
            except ItemFailed as failure:
                self._pods.release_volumes(original, volumes)
                raise ItemFailed([*failure.errors, *await self._post_hooks(pod)]) from failure
            if changed is None:
                self._pods.release_volumes(original, volumes)
                if errors := await self._post_hooks(pod):
                    raise ItemFailed(errors)
                return False
            await self._pods.report_unsaved_volumes(changed)
            in_flight = await self._pods.request_volumes(original, volumes)
            if in_flight is not None and in_flight.errors:
                await self._pods.volumes_saved(original, in_flight)
                raise ItemFailed([*in_flight.errors, *await self._post_hooks(changed)])
            await self._write(changed, identity, resource, api_version)
            rest = self._rest_of_pod(changed, in_flight, held.pop_all())
        if following is None or in_flight is None:
            await rest
        else:
            following.create_task(rest)
        return True

    async def _rest_of_pod(
        self, pod: JSONObject, in_flight: VolumesInFlight | None, held: AsyncExitStack
    ) -> None:
        """What is left to do for a pod in the archive; `held` ends with it."""
        async with held:
            await self._pods.volumes_saved(pod, in_flight)
            for error in await self._post_hooks(pod):
                self._pods.report_post_hook(error, pod)

    async def _post_hooks(self, pod: JSONObject) -> Sequence[BaseException]:
        try:
            await self._pods.run_hooks(HookPhase.POST, pod)
        except ItemFailed as failure:
            return failure.errors
        return ()

    async def _run_actions(self, item: JSONObject, resource: APIResource) -> JSONObject | None:
        """Run the actions that apply, each followed by its additional items. (docs/spec: BKP 8.2)

        Returns:
            The item as it is to be saved; None if an action left it out, which ends its actions.
        """
        namespace, name = identity_of(item)
        labels = (item.get("metadata") or {}).get("labels") or {}
        applicable = [
            resolved.action
            for resolved in self._run.actions.for_resource(resource.group_resource)
            if resolved.wants(namespace, labels)
        ]
        for action in applicable:
            # Only an action can say either: a user could put any object into a backup by an annotation, and
            # one that an application copies into its objects would take them out of every backup.
            users = set(mapping(item, "metadata", "annotations"))
            # Claims that a later Velero restored have this one, which must not hide what the action says.
            of_user = mapping(item, "metadata", "annotations").pop(MUST_INCLUDE_ADDITIONAL_ITEMS, None)
            item, additional = await self._execute(action, item, resource, namespace, name)
            if SKIP_FROM_BACKUP not in users and is_to_be_skipped(item):
                self._run.log.info(
                    f"Leaving out the item, as action {action.name} says",
                    resource=resource.group_resource,
                    namespace=namespace,
                    name=name,
                )
                return None
            forced = must_include(item)
            if of_user is not None:
                item["metadata"].setdefault("annotations", {})[MUST_INCLUDE_ADDITIONAL_ITEMS] = of_user
            for identifier in additional:
                await self._back_up_additional(identifier, forced=forced)
        for resolved in self._run.actions.blocks_for(resource.group_resource):
            if resolved.wants(namespace, labels):
                for identifier in await self._related(resolved.action, item, resource):
                    await self._back_up_additional(identifier, selected_only=True)
        return item

    async def _related(
        self, action: ItemBlockAction, item: JSONObject, resource: APIResource
    ) -> Sequence[ResourceIdentifier]:
        """The items that an item block action groups with an item. Raises ItemFailed if the action fails."""
        try:
            with plugin_lines_to(self._run.log, action.name):
                return await action.get_related_items(item, self._run.backup)
        except Exception as error:  # an action is foreign code: whatever it raises fails this item only
            namespace, name = identity_of(item)
            text = (
                f"error getting related items of action {action.name} (groupResource="
                f"{resource.group_resource}, namespace={namespace}, name={name}): {error}"
            )
            raise ItemFailed([BackupError(notice_of(error, Code.ACTION_FAILED, text))]) from error

    async def _execute(
        self, action: AnyBackupItemAction, item: JSONObject, resource: APIResource, namespace: str, name: str
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        try:
            # Built-in actions log as plugins do; those of another process bring their lines themselves.
            with plugin_lines_to(self._run.log, action.name):
                answer = await action.execute(item, self._run.backup)
        except Exception as error:  # an action is foreign code: whatever it raises fails this item only
            text = (
                f"error executing custom action (groupResource={resource.group_resource},"
                f" namespace={namespace}, name={name}): {error}"
            )
            raise ItemFailed([BackupError(notice_of(error, Code.ACTION_FAILED, text))]) from error
        if not isinstance(answer, BackupItemOutput):
            return answer
        if answer.operation_id:
            self._run.operations.append(
                ItemOperation(
                    action=action.name,
                    operation_id=answer.operation_id,
                    item=ResourceIdentifier(
                        group=resource.group, resource=resource.name, namespace=namespace, name=name
                    ),
                    created=self._run.clock(),
                    post_items=tuple(answer.post_operation_items),
                )
            )
        return answer.item, answer.additional_items

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
                resource=wanted.group_resource,
                namespace=wanted.namespace,
                name=wanted.name,
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
                resource=wanted.group_resource,
                namespace=wanted.namespace,
                name=wanted.name,
            )
            return
        try:
            await self.back_up(item, resource, forced=forced)
        except ItemFailed as failure:
            # Errors of an additional item reach the outermost item as one. (docs/spec: BKP 3.4)
            raise ItemFailed([failure]) from failure

    async def _snapshot(self, volume: JSONObject) -> Sequence[BaseException]:
        """Snapshot a persistent volume, unless the backup or its claim says otherwise. (docs/spec: BKP 10)"""
        run = self._run
        name = identity_of(volume)[1]
        log = run.log.child(resource=PERSISTENT_VOLUMES.group_resource, namespace="", name=name)
        try:
            reason = await self._reason_against_snapshot(volume)
        except KubeError as error:
            return [error]
        run.volumes.seen(volume, reason)
        if reason or not run.backup.spec.volume_snapshot_locations:
            return ()
        if run.collaborators.snapshots is None:
            log.warning(
                Notice(
                    Code.SNAPSHOT_NOT_TAKEN,
                    "No snapshot of this volume is taken: no volume snapshotter is set up",
                )
            )
            return ()
        return await run.collaborators.snapshots.snapshot(volume, log)

    async def _reason_against_snapshot(self, volume: JSONObject) -> str:
        """Why no snapshot of a persistent volume is wanted; empty if one is. Raises KubeError. (BEY 4.7)"""
        run = self._run
        claim = mapping(volume, "spec", "claimRef")
        policies = run.collaborators.policies
        rule = await policies.of_persistent(volume) if policies is not None else None
        if rule is not None:
            return "" if rule.action is VolumeAction.SNAPSHOT else f"any: {rule.reason}"
        if run.backup.spec.snapshot_volumes is False:
            return "volumeSnapshot: the backup has snapshotVolumes: false"
        if run.claims.has(text(claim, "namespace"), text(claim, "name")):
            return "podvolume: the volume was to be saved from its pod"
        return ""

    async def _write(
        self, item: JSONObject, original: Identity, resource: APIResource, api_version: str
    ) -> None:
        """Archive the item under its new name and its original version. (docs/spec: BKP 6.3)"""
        run = self._run
        identity = identity_of(item)
        try:
            scope, file = item_scope(identity[0]), item_file(identity[1])
            data = dump_json(item, sort_keys=True)
        except (ArchiveError, orjson.JSONEncodeError) as error:
            raise ItemFailed([error]) from error
        heads = item_heads(run.discovery, resource, api_version)
        if identity != original:
            is_known = run.tracker.has(kind_of(item), item_key(*identity))
            self._rename(
                heads[0] + item_scope(original[0]) + item_file(original[1]), heads[0] + scope + file, is_known
            )
        elif heads[0] + scope + file in self._renamed_to:
            text = f"an action gave the name {item_key(*identity)} to another item"
            raise ItemFailed([BackupError(Notice(Code.ACTION_FAILED, text))])
        run.writer.add_copies([MemberDirectory(head + scope) for head in heads], file, b"", data)
        await run.writer.flush_if_full()

    def _rename(self, old_path: str, new_path: str, is_known: bool) -> None:
        """Refuse a new name that another item has: the archive may hold each path once."""
        if new_path in self._renamed_to or (is_known and new_path not in self._renamed_from):
            text = f"an action gave the item the path of another item: {new_path}"
            raise ItemFailed([BackupError(Notice(Code.ACTION_FAILED, text))])
        self._renamed_to.add(new_path)
        self._renamed_from.add(old_path)


def must_include(item: JSONObject) -> bool:
    """Whether an action's additional items are taken even if the filters leave them out.

    The action says so by an annotation, which is removed from the item.

    (docs/spec: BEY 4.12)
    """
    annotations = mapping(item, "metadata", "annotations")
    return bool(annotations.pop(MUST_INCLUDE_ADDITIONAL_ITEMS, "") == "true")


def is_to_be_skipped(item: JSONObject) -> bool:
    """Whether an action said that its item is not to be in the backup. (docs/spec: BEY 4.12)"""
    return mapping(item, "metadata", "annotations").get(SKIP_FROM_BACKUP, "false") not in ("", "false")


def identity_of(item: JSONObject) -> Identity:
    """Namespace ("" for cluster-scoped) and name."""
    metadata = item.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


def kind_of(item: JSONObject) -> str:
    """The tracker's key of an item's kind."""
    return kind_key(item.get("apiVersion", ""), item.get("kind", ""))


def _is_excluded(item: JSONObject) -> bool:
    """Rules 1 and 5: the label that excludes, and what is being deleted. (docs/spec: BKP 6.1)"""
    metadata = item.get("metadata") or {}
    return _has_exclusion_label(metadata.get("labels")) or bool(metadata.get("deletionTimestamp"))


def _has_exclusion_label(labels: Mapping[str, str] | None) -> bool:
    """Whether an object with these labels is left out of every backup."""
    return labels is not None and labels.get(EXCLUDE_FROM_BACKUP) == EXCLUDE_FROM_BACKUP_VALUE
