"""`restore describe`. (docs/spec: CLI 5.3)"""

from collections.abc import Sequence
from dataclasses import dataclass

from pinnace.api.objects import JSONObject
from pinnace.api.values.shell_words import as_name
from pinnace.cli.common.describing import View
from pinnace.cli.output import cells, later, parts, volume_infos
from pinnace.cli.output.findings import result_block
from pinnace.cli.output.layout import Sheet
from pinnace.cli.output.operations import item_operations
from pinnace.cli.output.volumes import pod_volumes
from pinnace.cli.progress.activity import described
from pinnace.cli.restore.objects import RestoredObjects, resource_list


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedRestore:
    """What a description shows beside the Restore. A str is the error of reading the file.

    Attributes:
        objects, volume_infos, operations: set only with details.
    """

    results: JSONObject | str | None = None
    undecodable_results: bool = False
    pod_volume_restores: Sequence[JSONObject] = ()
    objects: RestoredObjects | str | None = None
    volume_infos: Sequence[JSONObject] = ()
    operations: Sequence[JSONObject] = ()
    waits_for: str = ""


def describe_restore(restore: JSONObject, facts: DescribedRestore, view: View) -> str:
    """The description as aligned text, without a newline at its end."""
    sheet = Sheet(colour=view.colour)
    spec, status = cells.spec(restore), cells.status(restore)
    parts.metadata(sheet, restore)
    sheet.line()
    parts.phase(
        sheet, restore, f"'{view.command_line('restore', 'logs', *as_name(restore['metadata']['name']))}'"
    )
    parts.waits_for(sheet, facts.waits_for)
    progress = status.get("progress")
    if progress:
        running = cells.phase(restore) == "InProgress"
        total, done = progress.get("totalItems") or 0, progress.get("itemsRestored") or 0
        sheet.field(
            "Estimated total items to be restored" if running else "Total items to be restored", total
        )
        sheet.field("Items restored so far" if running else "Items restored", done)
        parts.activity(sheet, described(status) if running else ())
    parts.failure_reason(sheet, restore)
    sheet.line()
    sheet.field("Started", cells.local_time(status.get("startTimestamp"), "<n/a>"))
    sheet.field("Completed", cells.local_time(status.get("completionTimestamp"), "<n/a>"))
    parts.validation_errors(sheet, restore)
    _results(sheet, status, facts, exact=view.details)
    sheet.line()
    sheet.field("Backup", spec.get("backupName") or "")
    sheet.line()
    _spec(sheet, spec)
    pod_volumes(sheet, facts.pod_volume_restores, view.details, what="Restores")
    sheet.line()
    sheet.field("Preserve Service NodePorts", cells.tristate(spec.get("preserveNodePorts")))
    later.fields(sheet, spec, later.RESTORE_SPEC)
    volume_infos.csi_snapshots(sheet, facts.volume_infos, "CSI Snapshot Restores", "restoreMethod")
    volume_infos.native_snapshots(sheet, facts.volume_infos, "Velero-Native Snapshot Restores")
    later.restore_status(sheet, status)
    item_operations(sheet, facts.operations, "Restore")
    if facts.objects is not None:
        resource_list(sheet, facts.objects)
    return sheet.render()


def _spec(sheet: Sheet, spec: JSONObject) -> None:
    everything = "all namespaces found in the backup"
    parts.included_excluded(sheet, "Namespaces", spec, "Namespaces", everything=everything)
    sheet.line()
    parts.included_excluded(sheet, "Resources", spec, "Resources")
    parts.cluster_scoped(sheet, spec)
    sheet.line()
    sheet.mapping("Namespace mappings", spec.get("namespaceMapping"))
    sheet.line()
    sheet.field("Label selector", cells.selector(spec.get("labelSelector")))
    later.selectors(sheet, spec)
    sheet.line()
    sheet.field("Restore PVs", cells.tristate(spec.get("restorePVs")))


def _results(sheet: Sheet, status: JSONObject, facts: DescribedRestore, *, exact: bool) -> None:
    warnings, errors = status.get("warnings") or 0, status.get("errors") or 0
    if not warnings and not errors:
        return
    if isinstance(facts.results, str):
        verb = "decoding" if facts.undecodable_results else "getting"
        sheet.field("Warnings", f"<error {verb} warnings: {facts.results}>")
        sheet.line()
        sheet.field("Errors", f"<error {verb} errors: {facts.results}>")
        return
    results = facts.results or {}
    if warnings:
        sheet.line()
        result_block(sheet, "Warnings", results.get("warnings") or {}, exact=exact)
    if errors:
        sheet.line()
        result_block(sheet, "Errors", results.get("errors") or {}, exact=exact)
