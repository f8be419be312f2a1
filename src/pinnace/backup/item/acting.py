"""Runs the backup item actions of one item. (docs/spec: BKP 8.2)"""

from collections.abc import Awaitable, Callable, Sequence

from pinnace.api.labels import MUST_INCLUDE_ADDITIONAL_ITEMS, SKIP_FROM_BACKUP
from pinnace.api.objects import JSONObject, mapping
from pinnace.backup.errors import BackupError, ItemFailed
from pinnace.backup.item.handlers.handler import BackupVisit
from pinnace.backup.item.tracking import identity_of
from pinnace.backup.progress import item_fields
from pinnace.notices.codes import Code
from pinnace.notices.notice import notice_of
from pinnace.plugins.asynchronous import AnyBackupItemAction, BackupItemOutput, ItemBlockAction
from pinnace.plugins.item_operations import ItemOperation
from pinnace.plugins.logs import plugin_lines_to
from pinnace.plugins.protocols import ResourceIdentifier


async def run_actions(
    visit: BackupVisit, item: JSONObject, back_up_additional: Callable[..., Awaitable[None]]
) -> JSONObject | None:
    """Run the actions that apply, each followed by its additional items. (docs/spec: BKP 8.2)

    Returns:
        The item as it is to be saved; None if an action left it out, which ends its actions.
    """
    run, resource = visit.run, visit.resource
    namespace, name = identity_of(item)
    labels = (item.get("metadata") or {}).get("labels") or {}
    applicable = [
        resolved.action
        for resolved in run.actions.for_resource(resource.group_resource)
        if resolved.wants(namespace, labels)
    ]
    for action in applicable:
        # Only an action can say either: a user could put any object into a backup by an annotation, and
        # one that an application copies into its objects would take them out of every backup.
        users = set(mapping(item, "metadata", "annotations"))
        # Claims that a later Velero restored have this one, which must not hide what the action says.
        of_user = mapping(item, "metadata", "annotations").pop(MUST_INCLUDE_ADDITIONAL_ITEMS, None)
        item, additional = await _execute(visit, action, item, (namespace, name))
        if SKIP_FROM_BACKUP not in users and is_to_be_skipped(item):
            run.log.info(
                f"Leaving out the item, as action {action.name} says",
                **item_fields(resource.group_resource, namespace, name),
            )
            return None
        forced = must_include(item)
        if of_user is not None:
            item["metadata"].setdefault("annotations", {})[MUST_INCLUDE_ADDITIONAL_ITEMS] = of_user
        for identifier in additional:
            await back_up_additional(identifier, forced=forced)
    for resolved in run.actions.blocks_for(resource.group_resource):
        if resolved.wants(namespace, labels):
            for identifier in await _related(visit, resolved.action, item):
                await back_up_additional(identifier, selected_only=True)
    return item


async def _related(
    visit: BackupVisit, action: ItemBlockAction, item: JSONObject
) -> Sequence[ResourceIdentifier]:
    """The items that an item block action groups with an item. Raises ItemFailed if the action fails."""
    run, resource = visit.run, visit.resource
    try:
        with plugin_lines_to(run.log, action.name):
            return await action.get_related_items(item, run.backup)
    except Exception as error:  # an action is foreign code: whatever it raises fails this item only
        namespace, name = identity_of(item)
        text = (
            f"error getting related items of action {action.name} (groupResource="
            f"{resource.group_resource}, namespace={namespace}, name={name}): {error}"
        )
        raise ItemFailed([BackupError(notice_of(error, Code.ACTION_FAILED, text))]) from error


async def _execute(
    visit: BackupVisit, action: AnyBackupItemAction, item: JSONObject, identity: tuple[str, str]
) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
    run, resource, (namespace, name) = visit.run, visit.resource, identity
    try:
        # Built-in actions log as plugins do; those of another process bring their lines themselves.
        with plugin_lines_to(run.log, action.name):
            answer = await action.execute(item, run.backup)
    except Exception as error:  # an action is foreign code: whatever it raises fails this item only
        text = (
            f"error executing custom action (groupResource={resource.group_resource},"
            f" namespace={namespace}, name={name}): {error}"
        )
        raise ItemFailed([BackupError(notice_of(error, Code.ACTION_FAILED, text))]) from error
    if not isinstance(answer, BackupItemOutput):
        return answer
    if answer.operation_id:
        run.operations.append(
            ItemOperation(
                action=action.name,
                operation_id=answer.operation_id,
                item=ResourceIdentifier(
                    group=resource.group, resource=resource.name, namespace=namespace, name=name
                ),
                created=run.clock.now(),
                post_items=tuple(answer.post_operation_items),
            )
        )
    return answer.item, answer.additional_items


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
