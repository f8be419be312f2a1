"""The order of the steps of one item, from its bytes in the archive to the object in the cluster.

What a kind needs beyond them, its handler does. (docs/spec: RST 10, 14, 15; docs/adr/120)
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from pinnace.aio.cancelling import pass_cancellation
from pinnace.api.objects import JSONObject, same_json
from pinnace.api.restore_outcomes import Outcome
from pinnace.archive.errors import MissingItem
from pinnace.notices.codes import Code
from pinnace.notices.notice import notice_of
from pinnace.plugins.builtin.pod_classes import OFTEN_MISSING
from pinnace.plugins.protocols import ResourceIdentifier
from pinnace.restore.errors import ItemError, LeftOut, NamespaceError, ResourceError
from pinnace.restore.item.acting import ODD_CONTENT, run_actions
from pinnace.restore.item.applying import Prepared
from pinnace.restore.item.claims import Chain
from pinnace.restore.item.context import RestoreRun
from pinnace.restore.item.handlers.handler import ItemVisit, RestoreHandler
from pinnace.restore.item.handlers.table import handlers_of
from pinnace.restore.item.known_kinds import kind_of
from pinnace.restore.item.managed_fields import ownership_of
from pinnace.restore.metadata import drop_empty_leftovers, put_labels, reset_metadata
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef, decode

_MAX_NESTING: Final = 50
"""The limit for additional items of additional items; real chains are three deep."""


async def restore_item(run: RestoreRun, ref: ItemRef, results: Results) -> bool:
    """Restore a selected item and, before it, the additional items that its actions name.

    Each item is restored once, many at the same time. Failures are not raised but added to the results.

    Returns:
        Whether the item counts as processed (its file was readable and its namespace available).
    """
    try:
        raw = run.reader.read(ref.group_resource, ref.original_namespace, ref.name)
        item = decode(ref, raw)
    except (MissingItem, ItemError) as error:
        notice = notice_of(error, Code.ITEM_UNREADABLE, str(error), object=ref.id)
        results.errors.add(ref.target_namespace, notice)
        run.outcomes.record(ref.group_resource, ref.key, Outcome.FAILED, str(error))
        return False
    return await _restore_decoded(ItemVisit(run, ref, raw, results, Chain()), item)


async def _restore_decoded(visit: ItemVisit, item: JSONObject) -> bool:
    """Restore an item, and record its outcome; return whether it counts as processed."""
    run, ref, results, kind = visit.run, visit.ref, visit.results, kind_of(item)
    failure, is_processed = "", True
    try:
        await _restore_admitted(visit, item)
    except LeftOut as left:
        run.outcomes.record(kind, ref.key, left.outcome, left.reason)
        if left.outcome is Outcome.SKIPPED:
            _log_skip(run, ref, left.reason)
        if left.warning is not None:
            results.warnings.add(ref.target_namespace, left.warning)
    except ItemError as error:
        failure = str(error)
        results.errors.add(ref.target_namespace, error.notice)
    except (NamespaceError, ResourceError) as error:
        failure, is_processed = str(error), isinstance(error, ResourceError)
        results.errors.add_velero(error.notice)
    except ODD_CONTENT as error:
        pass_cancellation(error)
        # JSON that no API server would have stored: any failure on it is the item's fault.
        said = f"its content is not that of a {ref.group_resource} object ({type(error).__name__}: {error})"
        notice = ref.error(Code.ITEM_UNREADABLE, said).notice
        failure = str(notice)
        results.errors.add(ref.target_namespace, notice)
    if failure:  # without the item's name, so that equal reasons are kept once
        for prefix in ("error restoring", "error preparing"):
            failure = failure.removeprefix(f"{prefix} {ref.id}: ")
        run.outcomes.record(kind, ref.key, Outcome.FAILED, failure)
    return is_processed


async def _restore_admitted(visit: ItemVisit, item: JSONObject) -> None:
    """Restore an item once that no rule leaves out, in a namespace that exists."""
    run, ref = visit.run, visit.ref
    run.admission.check(ref, is_forced=visit.is_forced)
    if ref.target_namespace:
        await run.namespaces.ensure(ref.original_namespace, ref.target_namespace, visit.results)
    handlers = handlers_of(visit)
    for handler in handlers:
        handler.check(item)
    if not run.claims.claim(ref.key, visit.chain):
        _log_skip(run, ref, "it has already been restored")
        await run.claims.wait(ref.key, visit.chain)
        return
    try:
        await _restore_claimed(visit, item, handlers)
    finally:
        run.claims.finish(ref.key)


async def _restore_claimed(visit: ItemVisit, item: JSONObject, handlers: Sequence[RestoreHandler]) -> None:
    run, ref, raw = visit.run, visit.ref, visit.raw
    resource = run.kinds.resource_for(ref, item)
    ownership, saved_status = ownership_of(item), item.get("status")
    for handler in handlers:
        item = await handler.before(item)
    for handler in handlers:
        for needed in await handler.needed_first(item):
            # As with actions: a tenant's limits are filters, too.
            await _restore_additional(visit, needed, is_forced=run.request.limits is None)
    reset_metadata(item)
    acted = await run_actions(visit, item, partial(_restore_additional, visit))
    for handler in handlers:
        await handler.prepared(acted)
    if acted.get("apiVersion") != item["apiVersion"]:
        # An action may have converted an old item to a version that this cluster serves.
        resource = run.kinds.resource_for(ref, acted)
    prepared = run.modifying.modified(ref, acted, visit.results)
    is_modified = prepared is not acted and not same_json(prepared, acted)
    if ref.target_namespace:
        prepared["metadata"]["namespace"] = ref.target_namespace
    drop_empty_leftovers(prepared)
    put_labels(prepared, run.labels)
    status = run.kinds.statuses.status_of(ref.group_resource, raw)
    has_subresource = run.kinds.discovery.has_status(resource)
    if status is not None and has_subresource is False:
        prepared["status"], status = status, None  # a field like others
    plain = saved_status if isinstance(saved_status, dict) and "status" not in prepared else None
    sent = Prepared(
        ref=ref,
        resource=resource,
        item=prepared,
        raw=raw,
        status=status,
        plain_status=None if has_subresource else plain,
        ownership=ownership,
        is_modified=is_modified,
        others=partial(run.versions.of, ref, raw, prepared, run.kinds.discovery),
    )
    applied = await run.applier.apply(sent, visit.results)
    created_as = applied.resource or resource
    kind = f"{created_as.api_version}/{created_as.kind}"
    run.outcomes.record(kind, ref.key, applied.outcome, applied.reason)
    run.old_names.look_at(sent, applied)
    for handler in handlers:
        await handler.after(sent, applied)


async def _restore_additional(parent: ItemVisit, identifier: ResourceIdentifier, *, is_forced: bool) -> None:
    """Restore an item that another one or an action of it names; `is_forced` as of `ItemVisit`."""
    run, results, chain = parent.run, parent.results, parent.chain
    namespace = run.kinds.filters.target_namespace(identifier.namespace)
    ref = ItemRef(identifier.group_resource, identifier.namespace, namespace, identifier.name)
    try:
        raw = run.reader.read(ref.group_resource, ref.original_namespace, ref.name)
        item = decode(ref, raw)
    except MissingItem as error:
        if ref.group_resource in OFTEN_MISSING:
            _log_skip(run, ref, "it is not in the backup")
            return
        message = (
            f"additional item {ref.id} of {parent.ref.id} is not in the backup: {error.path}: no such file"
        )
        results.warnings.add(ref.original_namespace, ref.notice(Code.ADDITIONAL_ITEM_MISSING, message))
        return
    except ItemError as error:
        message = f"error restoring additional item {ref.id}: {error}"
        notice = notice_of(error, Code.ITEM_UNREADABLE, message, object=ref.id)
        results.errors.add(ref.target_namespace, notice)
        return
    if chain.nesting >= _MAX_NESTING:
        message = f"error restoring additional item {ref.id}: additional items nest too deeply"
        raise ItemError(ref.notice(Code.ADDITIONAL_ITEMS_TOO_DEEP, message))
    chain.nesting += 1
    try:
        await _restore_decoded(ItemVisit(run, ref, raw, results, chain, is_forced), item)
    finally:
        chain.nesting -= 1


def _log_skip(run: RestoreRun, ref: ItemRef, reason: str) -> None:
    run.log.info("Not restoring item", reason=reason, **ref.fields)
