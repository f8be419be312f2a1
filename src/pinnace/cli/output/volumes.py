"""Describes the volumes of pods, by uploader and phase. (docs/spec: CLI 4.3, BEY 8.4)"""

from collections.abc import Sequence
from typing import Final

from pinnace.api.objects import JSONObject
from pinnace.api.velero.pod_volume import uploader_of_object
from pinnace.cli.output import cells
from pinnace.cli.output.layout import Sheet

_GROUPS: Final = {"Completed": "Completed", "Failed": "Failed", "InProgress": "In Progress", "New": "New"}
"""The phases in display order, and their titles. Those of later versions follow."""


def pod_volumes(sheet: Sheet, volumes: Sequence[JSONObject], details: bool, *, what: str) -> None:
    """Write `Restic Backups:` or `Restic Restores:`, and the like of other uploaders; nothing without any."""
    uploaders: dict[str, list[JSONObject]] = {}
    for volume in volumes:
        uploaders.setdefault(uploader_of_object(volume), []).append(volume)
    for uploader in sorted(uploaders, key=lambda name: (name != "restic", name)):
        hint = "" if details else " (specify --details for more information)"
        sheet.line()
        sheet.line(f"{_title(uploader, what)}{hint}:")
        _by_phase(sheet, uploaders[uploader], details)


def _title(uploader: str, what: str) -> str:
    if uploader == "restic":
        return f"Restic {what}"
    return f"Pod Volume Backups - {uploader}" if what == "Backups" else f"{uploader} {what}"


def _by_phase(sheet: Sheet, volumes: Sequence[JSONObject], details: bool) -> None:
    others = sorted({cells.phase(volume) for volume in volumes} - set(_GROUPS))
    for group in (*_GROUPS, *others):
        members = [volume for volume in volumes if cells.phase(volume) == group]
        if not members:
            continue
        title = _GROUPS.get(group, group)
        if details:
            sheet.line(f"\t{title}:")
            _by_pod(sheet, members)
        else:
            sheet.field(title, len(members), indent=1)


def _by_pod(sheet: Sheet, volumes: Sequence[JSONObject]) -> None:
    """Write the volumes of each pod, and below them the messages of those that failed or wait."""
    pods: dict[str, list[str]] = {}
    reasons: dict[str, list[str]] = {}
    for volume in volumes:
        spec = cells.spec(volume)
        pod = spec.get("pod") or {}
        shown = f"{spec.get('volume', '')}{_percentage(volume)}"
        name = f"{pod.get('namespace', '')}/{pod.get('name', '')}"
        pods.setdefault(name, []).append(shown)
        message = cells.status(volume).get("message")
        if message and cells.phase(volume) != "Completed":
            reasons.setdefault(name, []).append(f"{spec.get('volume', '')}: {message}")
    for pod_name in sorted(pods):
        sheet.line(f"\t\t{pod_name}: {', '.join(sorted(pods[pod_name]))}")
        for reason in sorted(reasons.get(pod_name, ())):
            sheet.line(f"\t\t\t{reason}")


def _percentage(volume: JSONObject) -> str:
    """The progress of a running one, as ` (42.00%)`; empty if it is not known. (docs/spec: CLI-021)"""
    if cells.phase(volume) != "InProgress":
        return ""
    progress = cells.status(volume).get("progress") or {}
    total, done = progress.get("totalBytes") or 0, progress.get("bytesDone") or 0
    return f" ({done / total * 100:.2f}%)" if total else ""
