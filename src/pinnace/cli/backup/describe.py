"""`backup describe`. (docs/spec: CLI 4.3)"""

from collections.abc import Iterator, Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedBackup:
    """The objects and files that a description shows beside the Backup itself.

    `resource_list`, `snapshots`, `volume_infos` and `operations` are set only with details; a str is an error
    that is shown in place of the content. Without `results` only the counts are shown. `tarball_bytes` is
    None if the size is unknown. `records_volumes` is false for versions that keep no `volume_infos`.
    """

    delete_requests: Sequence[JSONObject] = ()
    pod_volume_backups: Sequence[JSONObject] = ()
    resource_list: JSONObject | str | None = None
    snapshots: Sequence[JSONObject] | str | None = None
    csi_contents: Sequence[JSONObject] = ()
    results: JSONObject | None = None
    volume_infos: Sequence[JSONObject] = ()
    records_volumes: bool = False
    operations: Sequence[JSONObject] = ()
    tarball_bytes: int | None = None
    waits_for: str = ""


def describe_backup(backup: JSONObject, facts: DescribedBackup, view: View) -> str:
    """The description as aligned text, without a newline at its end."""
    sheet = Sheet(colour=view.colour)
    spec, status = cells.spec(backup), cells.status(backup)
    parts.metadata(sheet, backup)
    sheet.line()
    parts.phase(
        sheet, backup, f"`{view.command_line('backup', 'logs', *as_name(backup['metadata']['name']))}`"
    )
    later.fields(sheet, status, later.QUEUE)
    parts.waits_for(sheet, facts.waits_for)
    parts.failure_reason(sheet, backup)
    parts.validation_errors(sheet, backup)
    sheet.line()
    _results(sheet, status, facts.results or {}, exact=view.details)
    sheet.line()
    spec_block(sheet, spec)
    sheet.line()
    _status(sheet, backup, status, facts.tarball_bytes)
    if view.details:
        _resource_list(sheet, facts.resource_list)
    _snapshots(sheet, status, facts, view)
    _deletion_attempts(sheet, facts.delete_requests)
    if volume_infos.of_csi(facts.volume_infos):
        volume_infos.csi_snapshots(sheet, facts.volume_infos, "CSI Snapshots")
    elif view.csi:
        _csi(sheet, facts, view)
    pod_volumes(sheet, facts.pod_volume_backups, view.details, what="Backups")
    volume_infos.skipped_volumes(sheet, facts.volume_infos)
    later.backup_status(sheet, status)
    item_operations(sheet, facts.operations, "Backup")
    return sheet.render()


def _results(sheet: Sheet, status: JSONObject, results: JSONObject, *, exact: bool) -> None:
    """The stored messages, or their numbers if they are not stored."""
    numbers = {title: status.get(title.lower()) or 0 for title in ("Errors", "Warnings")}
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


def spec_block(sheet: Sheet, spec: JSONObject) -> None:
    """Show the spec of a backup, or of the template of a schedule."""
    parts.included_excluded(sheet, "Namespaces", spec, "Namespaces")
    sheet.line()
    later.resources(sheet, spec)
    sheet.line()
    sheet.field("Label selector", cells.selector(spec.get("labelSelector")))
    later.selectors(sheet, spec)
    sheet.line()
    sheet.field("Storage Location", spec.get("storageLocation") or "")
    sheet.line()
    sheet.field("Velero-Native Snapshot PVs", cells.tristate(spec.get("snapshotVolumes")))
    sheet.line()
    sheet.field("TTL", cells.duration(spec.get("ttl")))
    sheet.line()
    _hooks(sheet, (spec.get("hooks") or {}).get("resources") or [])
    ordered = spec.get("orderedResources")
    if ordered:
        sheet.line()
        sheet.line("OrderedResources:")
        for resource in sorted(ordered):
            sheet.line(f"\t{resource}: {ordered[resource]}")
    later.fields(sheet, spec, later.BACKUP_SPEC)


def _hooks(sheet: Sheet, hooks: Sequence[JSONObject]) -> None:
    if not hooks:
        sheet.field("Hooks", "<none>")
        return
    sheet.line("Hooks:")
    sheet.line("\tResources:")
    for hook in hooks:
        sheet.line(f"\t\t{hook.get('name', '')}:")
        parts.included_excluded(sheet, "Namespaces", hook, "Namespaces", indent=3)
        sheet.line()
        parts.included_excluded(sheet, "Resources", hook, "Resources", indent=3)
        sheet.line()
        sheet.field("Label selector", cells.selector(hook.get("labelSelector")), indent=3)
        for key, title in (("pre", "Pre"), ("post", "Post")):
            for entry in hook.get(key) or []:
                _exec_hook(sheet, title, entry.get("exec") or {})


def _exec_hook(sheet: Sheet, title: str, hook: JSONObject) -> None:
    sheet.line()
    sheet.line(f"\t\t\t{title} Exec Hook:")
    sheet.field("Container", hook.get("container") or "", indent=4)
    sheet.field("Command", " ".join(hook.get("command") or []), indent=4)
    sheet.field("On Error", hook.get("onError") or "", indent=4)
    sheet.field("Timeout", hook.get("timeout") or "0s", indent=4)


def _status(sheet: Sheet, backup: JSONObject, status: JSONObject, tarball_bytes: int | None) -> None:
    sheet.field("Backup Format Version", status.get("formatVersion") or "")
    sheet.line()
    sheet.field("Started", cells.local_time(status.get("startTimestamp"), "<n/a>"))
    sheet.field("Completed", cells.local_time(status.get("completionTimestamp"), "<n/a>"))
    sheet.line()
    sheet.field("Expiration", cells.local_time(status.get("expiration"), "<nil>"))
    sheet.line()
    progress = status.get("progress")
    if progress is not None:
        running = cells.phase(backup) == "InProgress"
        total, done = progress.get("totalItems") or 0, progress.get("itemsBackedUp") or 0
        sheet.field(
            "Estimated total items to be backed up" if running else "Total items to be backed up", total
        )
        sheet.field("Items backed up so far" if running else "Items backed up", done)
        parts.activity(sheet, described(status) if running else ())
    if tarball_bytes is not None:
        sheet.field("Size of the tarball", cells.size(tarball_bytes))
    if progress is not None or tarball_bytes is not None:
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


def _snapshots(sheet: Sheet, status: JSONObject, facts: DescribedBackup, view: View) -> None:
    attempted = status.get("volumeSnapshotsAttempted") or 0
    title = "Velero-Native Snapshots"
    if not attempted:
        sheet.line(f"{title}: <none included>")
        return
    if not view.details:
        done = status.get("volumeSnapshotsCompleted") or 0
        hint = "(specify --details for more information)"
        sheet.field(title, f"{done} of {attempted} snapshots completed successfully {hint}")
        return
    if isinstance(facts.snapshots, str):
        sheet.field(title, facts.snapshots)
        return
    sheet.line(f"{title}:")
    for snapshot in facts.snapshots or ():
        given = {key.lower(): value for key, value in (snapshot.get("spec") or {}).items()}
        iops = given.get("volumeiops")
        sheet.line(f"\t{given.get('persistentvolumename', '')}:")
        sheet.field("Snapshot ID", cells.status(snapshot).get("providerSnapshotID") or "", indent=2)
        sheet.field("Type", given.get("volumetype") or "", indent=2)
        sheet.field("Availability Zone", given.get("volumeaz") or "", indent=2)
        sheet.field("IOPS", "<N/A>" if iops is None else iops, indent=2)


def _deletion_attempts(sheet: Sheet, requests: Sequence[JSONObject]) -> None:
    if not requests:
        return
    failed = sum(1 for r in requests if cells.phase(r) == "Processed" and cells.status(r).get("errors"))
    sheet.line()
    sheet.line("Deletion Attempts" + (f" ({failed} failed)" if failed else "") + ":")
    for position, request in enumerate(requests):
        if position:
            sheet.line()
        when = cells.local_time(request["metadata"].get("creationTimestamp"), "<n/a>")
        sheet.line(f"\t{when}: {cells.status(request).get('phase') or ''}")
        errors = cells.status(request).get("errors") or []
        if errors:
            sheet.line("\tErrors:")
            for error in errors:
                sheet.line(f"\t\t{error}")


def _csi(sheet: Sheet, facts: DescribedBackup, view: View) -> None:
    sheet.line()
    if not facts.csi_contents:
        sheet.line("CSI Volume Snapshots: <none included>")
        return
    if not view.details:
        hint = "(specify --details for more information)"
        sheet.field("CSI Volume Snapshots", f"{len(facts.csi_contents)} included {hint}")
        return
    sheet.line("CSI Volume Snapshots:")
    for content in facts.csi_contents:
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
