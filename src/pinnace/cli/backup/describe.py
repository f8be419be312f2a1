"""`backup describe` as text. (docs/spec: CLI 4.3)"""

from collections.abc import Iterator, Sequence
from typing import Final

from pinnace.api.objects import JSONObject
from pinnace.api.values.shell_words import as_name
from pinnace.cli.backup.description import (
    BackupDescription,
    BackupTemplate,
    Deletion,
    DescribedBackup,
    DescribedHook,
    described,
)
from pinnace.cli.common.describing import View
from pinnace.cli.output import cells, later, parts, volume_infos
from pinnace.cli.output.description import Head
from pinnace.cli.output.findings import result_block
from pinnace.cli.output.layout import Sheet
from pinnace.cli.output.operations import item_operations
from pinnace.cli.output.volumes import pod_volumes
from pinnace.cli.progress import activity

_HINT: Final = "(specify --details for more information)"


def describe_backup(backup: JSONObject, found: DescribedBackup, view: View) -> str:
    """The description as aligned text, without a newline at its end."""
    sheet, made = Sheet(colour=view.colour), described(backup, found)
    parts.metadata(sheet, made.head.metadata)
    sheet.line()
    parts.phase(
        sheet, made.head, f"`{view.command_line('backup', 'logs', *as_name(made.head.metadata['name']))}`"
    )
    later.fields(sheet, made.status, later.QUEUE)
    parts.waits_for(sheet, found.waits_for)
    parts.failure_reason(sheet, made.head)
    parts.validation_errors(sheet, made.head)
    sheet.line()
    if cells.hides_details(backup):
        sheet.field("Details", "encrypted; give an identity (--identity-file FILE) to see them")
        sheet.line()
        sheet.field("Storage Location", made.template.storage_location)
        sheet.line()
        sheet.field("TTL", made.template.ttl)
    else:
        _results(sheet, made.head, found.results or {}, exact=view.details)
        sheet.line()
        template_block(sheet, made.template)
    sheet.line()
    _status(sheet, made)
    if view.details:
        _resource_list(sheet, found.resource_list)
    _snapshots(sheet, made, view)
    _deletion_attempts(sheet, made.deletions)
    if made.csi_infos:
        volume_infos.csi_snapshots(sheet, found.volume_infos, "CSI Snapshots")
    elif view.csi:
        _csi(sheet, found, view)
    pod_volumes(sheet, found.pod_volume_backups, view.details, what="Backups")
    volume_infos.skipped_volumes(sheet, made.skipped)
    later.backup_status(sheet, made.status)
    item_operations(sheet, found.operations, "Backup")
    return sheet.render()


def _results(sheet: Sheet, head: Head, results: JSONObject, *, exact: bool) -> None:
    """The stored messages, or their numbers if they are not stored."""
    numbers = {"Errors": head.errors, "Warnings": head.warnings}
    blocks = {
        title: kept
        for title, number in numbers.items()
        if number and isinstance(kept := results.get(title.lower()), dict)
    }
    for title, number in numbers.items():
        if title in blocks:
            result_block(sheet, title, blocks[title], exact=exact)
        elif blocks:
            sheet.line(f"{title}:  {number}")  # without a tab: a column of its own would widen the block's
        else:
            sheet.field(title, number)


def template_block(sheet: Sheet, template: BackupTemplate) -> None:
    """Write the spec of a backup, or of the template of a schedule."""
    parts.included_excluded(sheet, "Namespaces", template.filters.namespaces)
    sheet.line()
    later.resources(sheet, template.filters, template.raw)
    sheet.line()
    parts.selectors(sheet, template.filters)
    sheet.line()
    sheet.field("Storage Location", template.storage_location)
    sheet.line()
    sheet.field("Velero-Native Snapshot PVs", template.snapshot_volumes)
    sheet.line()
    sheet.field("TTL", template.ttl)
    sheet.line()
    _hooks(sheet, template.hooks)
    if template.ordered_resources:
        sheet.line()
        sheet.line("OrderedResources:")
        for resource, order in sorted(template.ordered_resources.items()):
            sheet.line(f"\t{resource}: {order}")
    later.fields(sheet, template.raw, later.BACKUP_SPEC)


def _hooks(sheet: Sheet, hooks: Sequence[DescribedHook]) -> None:
    if not hooks:
        sheet.field("Hooks", "<none>")
        return
    sheet.line("Hooks:")
    sheet.line("\tResources:")
    for hook in hooks:
        sheet.line(f"\t\t{hook.name}:")
        parts.included_excluded(sheet, "Namespaces", hook.namespaces, indent=3)
        sheet.line()
        parts.included_excluded(sheet, "Resources", hook.resources, indent=3)
        sheet.line()
        sheet.field("Label selector", hook.selector, indent=3)
        for title, commands in (("Pre", hook.before), ("Post", hook.after)):
            for command in commands:
                sheet.line()
                sheet.line(f"\t\t\t{title} Exec Hook:")
                sheet.field("Container", command.container, indent=4)
                sheet.field("Command", command.command, indent=4)
                sheet.field("On Error", command.on_error, indent=4)
                sheet.field("Timeout", command.timeout, indent=4)


def _status(sheet: Sheet, made: BackupDescription) -> None:
    size, progress = made.found.tarball_bytes, made.head.progress
    sheet.field("Backup Format Version", made.format_version)
    sheet.line()
    sheet.field("Started", made.head.started)
    sheet.field("Completed", made.head.completed)
    sheet.line()
    sheet.field("Expiration", made.expiration)
    if made.found.hold is not None:
        sheet.field("Hold", made.found.hold or "held, without a reason")
    if made.found.retention:
        sheet.field("Retention", made.found.retention)
    sheet.line()
    if progress is not None:
        parts.progress(sheet, progress, "backed up", "backed up", activity.described(made.status))
    if size is not None:
        sheet.field("Size of the tarball", cells.size(size))
    if progress is not None or size is not None:
        sheet.line()


def _resource_list(sheet: Sheet, resources: JSONObject | str | None) -> None:
    if isinstance(resources, str):
        sheet.field("Resource List", resources)
    else:
        sheet.line("Resource List:")
        sheet.outline(_outlined(resources or {}))
    sheet.line()


def _outlined(resources: JSONObject) -> Iterator[tuple[int, str]]:
    for kind in sorted(resources):
        yield 1, f"{kind}:"
        for name in resources[kind] or ():
            yield 2, f"- {name}"


def _snapshots(sheet: Sheet, made: BackupDescription, view: View) -> None:
    title = "Velero-Native Snapshots"
    if not made.native_attempted:
        sheet.line(f"{title}: <none included>")
    elif not view.details:
        counts = f"{made.native_completed} of {made.native_attempted} snapshots completed successfully"
        sheet.field(title, f"{counts} {_HINT}")
    elif isinstance(made.native, str):
        sheet.field(title, made.native)
    else:
        sheet.line(f"{title}:")
        for snapshot in made.native or ():
            sheet.line(f"\t{snapshot.volume}:")
            sheet.field("Snapshot ID", snapshot.identifier, indent=2)
            sheet.field("Type", snapshot.kind, indent=2)
            sheet.field("Availability Zone", snapshot.zone, indent=2)
            sheet.field("IOPS", snapshot.iops, indent=2)


def _deletion_attempts(sheet: Sheet, deletions: Sequence[Deletion]) -> None:
    if not deletions:
        return
    failed = sum(deletion.failed for deletion in deletions)
    sheet.line()
    sheet.line("Deletion Attempts" + (f" ({failed} failed)" if failed else "") + ":")
    for position, deletion in enumerate(deletions):
        if position:
            sheet.line()
        sheet.line(f"\t{deletion.when}: {deletion.phase}")
        if deletion.errors:
            sheet.line("\tErrors:")
            for error in deletion.errors:
                sheet.line(f"\t\t{error}")


def _csi(sheet: Sheet, found: DescribedBackup, view: View) -> None:
    sheet.line()
    if not found.csi_contents:
        sheet.line("CSI Volume Snapshots: <none included>")
        return
    if not view.details:
        sheet.field("CSI Volume Snapshots", f"{len(found.csi_contents)} included {_HINT}")
        return
    sheet.line("CSI Volume Snapshots:")
    for content in found.csi_contents:
        name, status = content["metadata"]["name"], content.get("status")
        if status is None:
            sheet.line(f"Volume Snapshot Content {name} cannot be described because its status is nil")
            continue
        sheet.line(f"Snapshot Content Name: {name}")
        for title, key in (
            ("Storage Snapshot ID", "snapshotHandle"),
            ("Snapshot Size (bytes)", "restoreSize"),
            ("Ready to use", "readyToUse"),
        ):
            value = status.get(key)
            if value is not None:
                sheet.line(f"\t{title}: {str(value).lower() if isinstance(value, bool) else value}")
