"""`restore describe` as text. (docs/spec: CLI 5.3)"""

from pinnace.api.objects import JSONObject
from pinnace.api.resuming import why_not_resumable
from pinnace.api.values.shell_words import as_name
from pinnace.cli.common.describing import View
from pinnace.cli.output import later, parts, volume_infos
from pinnace.cli.output.findings import result_block
from pinnace.cli.output.layout import Sheet
from pinnace.cli.output.operations import item_operations
from pinnace.cli.output.volumes import pod_volumes
from pinnace.cli.progress import activity
from pinnace.cli.restore.description import EVERYTHING, DescribedRestore, RestoreDescription, described
from pinnace.cli.restore.objects import resource_list


def describe_restore(restore: JSONObject, facts: DescribedRestore, view: View) -> str:
    """The description as aligned text, without a newline at its end."""
    sheet, made = Sheet(colour=view.colour), described(restore, facts)
    head = made.head
    parts.metadata(sheet, head.metadata)
    sheet.line()
    parts.phase(sheet, head, f"'{view.command_line('restore', 'logs', *as_name(head.metadata['name']))}'")
    parts.waits_for(sheet, facts.waits_for)
    if head.progress is not None and head.progress.known:
        parts.progress(sheet, head.progress, "restored", "restored", activity.described(made.status))
    parts.failure_reason(sheet, head)
    if not why_not_resumable(restore):
        sheet.field("Continue with", view.command_line("restore", "resume", *as_name(head.metadata["name"])))
    sheet.line()
    sheet.field("Started", head.started)
    sheet.field("Completed", head.completed)
    parts.validation_errors(sheet, head)
    _results(sheet, made, exact=view.details)
    sheet.line()
    sheet.field("Backup", made.backup)
    sheet.line()
    _spec(sheet, made)
    pod_volumes(sheet, facts.pod_volume_restores, view.details, what="Restores")
    sheet.line()
    sheet.field("Preserve Service NodePorts", made.preserve_node_ports)
    later.fields(sheet, made.spec, later.RESTORE_SPEC)
    volume_infos.csi_snapshots(sheet, facts.volume_infos, "CSI Snapshot Restores", "restoreMethod")
    volume_infos.native_snapshots(sheet, facts.volume_infos, "Velero-Native Snapshot Restores")
    later.restore_status(sheet, made.status)
    item_operations(sheet, facts.operations, "Restore")
    if facts.objects is not None:
        resource_list(sheet, facts.objects)
    return sheet.render()


def _spec(sheet: Sheet, restore: RestoreDescription) -> None:
    filters = restore.filters
    parts.included_excluded(sheet, "Namespaces", filters.namespaces, everything=EVERYTHING)
    sheet.line()
    parts.included_excluded(sheet, "Resources", filters.resources)
    parts.cluster_scoped(sheet, filters)
    sheet.line()
    sheet.mapping("Namespace mappings", restore.spec.get("namespaceMapping"))
    sheet.line()
    parts.selectors(sheet, filters)
    sheet.line()
    sheet.field("Restore PVs", restore.restore_volumes)


def _results(sheet: Sheet, restore: RestoreDescription, *, exact: bool) -> None:
    facts, warnings, errors = restore.found, restore.head.warnings, restore.head.errors
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
