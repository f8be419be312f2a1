"""Runs the restore item actions of one item. (docs/spec: RST 15)"""

from typing import Final, Protocol

import orjson

from pinnace.api.labels import RESTORE_MUST_INCLUDE
from pinnace.api.objects import JSONObject, mapping
from pinnace.archive.errors import ArchiveError
from pinnace.notices.codes import Code
from pinnace.notices.notice import notice_of
from pinnace.plugins.logs import plugin_lines_to
from pinnace.plugins.protocols import ResourceIdentifier, RestoreItemInput, RestoreItemOutput
from pinnace.restore.actions import ApplicableAction
from pinnace.restore.errors import ItemError, LeftOut
from pinnace.restore.item.handlers.handler import ItemVisit
from pinnace.restore.selection.reading import ItemRef

ODD_CONTENT: Final = (LookupError, TypeError, ValueError, AttributeError, RecursionError, ArchiveError)
"""The errors that code raises on an object that does not have the structure of its kind."""


class RestoreAdditional(Protocol):
    """Restores an item that an action names."""

    async def __call__(self, identifier: ResourceIdentifier, *, is_forced: bool) -> None:
        """Restore it; `is_forced` as of `ItemVisit`."""


async def run_actions(
    visit: ItemVisit, item: JSONObject, restore_additional: RestoreAdditional
) -> JSONObject:
    """Run the actions for the item, each followed by its additional items.

    An action may say by an annotation that the filters of the restore do not count for those that it names.
    Only an action can: the annotation of a stored object is dropped. (docs/spec/after-1.18.md, 4.2)

    Raises:
        LeftOut: an action says to skip the item.
        ItemError: an action failed.
    """
    run, ref = visit.run, visit.ref
    actions = run.kinds.actions.for_resource(ref.group_resource)
    if not actions:
        return item
    _must_include(item)
    from_backup = orjson.loads(visit.raw)
    for applicable in actions:
        if not applicable.wants(ref.target_namespace, item["metadata"].get("labels")):
            continue
        given = RestoreItemInput(item=item, item_from_backup=from_backup, restore=run.restore)
        with plugin_lines_to(run.log, applicable.action.name):
            output = await _execute(ref, applicable, given)
        if output.skip:
            raise LeftOut(f"left out by the action {applicable.action.name}")
        item = output.item
        # A tenant's limits are filters, too.
        is_forced = _must_include(item) and run.request.limits is None
        for identifier in output.additional_items:
            await restore_additional(identifier, is_forced=is_forced)
        if output.operation_id:
            group_resource, _, group = ref.group_resource.partition(".")
            identifier = ResourceIdentifier(
                group=group, resource=group_resource, namespace=ref.original_namespace, name=ref.name
            )
            run.request.started.add(applicable.action.name, output.operation_id, identifier)
        if output.wait_for_additional_items:
            problem = await run.additional.wait(applicable.action, output, run.kinds)
            if problem:
                ref.fail(visit.results, Code.ADDITIONAL_ITEMS_NOT_READY, problem)
    return item


def _must_include(item: JSONObject) -> bool:
    """Whether an action has set the annotation, which is taken off in any case."""
    return bool(mapping(item, "metadata", "annotations").pop(RESTORE_MUST_INCLUDE, "") == "true")


async def _execute(ref: ItemRef, applicable: ApplicableAction, given: RestoreItemInput) -> RestoreItemOutput:
    """Run one action.

    Raises:
        ItemError: it failed, or returned something else than an object.
    """
    name, prefix = applicable.action.name, f"error preparing {ref.id}"
    try:
        output = await applicable.action.execute(given)
    except Exception as error:
        # Foreign code: any error fails this item only.
        problem: object = error
        if isinstance(error, ODD_CONTENT) and type(error) is not ValueError:
            problem = f"{name} cannot deal with it ({type(error).__name__}: {error})"
        notice = notice_of(error, Code.ACTION_FAILED, f"{prefix}: {problem}", object=ref.id)
        raise ItemError(notice) from error
    if not output.skip and not isinstance(output.item.get("metadata"), dict):
        raise ItemError(ref.notice(Code.ACTION_FAILED, f"{prefix}: {name} returned no object"))
    return output
