"""The parts of `describe -o json` that backups and restores share. Pure. (docs/spec: BEY 8.3)"""

from collections.abc import Sequence
from typing import Any, Final

from pinnace.api.objects import JSONObject, listed, mapping, objects, text
from pinnace.api.velero.pod_volume import uploader_of_object
from pinnace.cli.output import cells
from pinnace.cli.output.description import Head, NameLists, RunState
from pinnace.notices.notice import OWN_PART


def metadata(found: JSONObject) -> JSONObject:
    """Name, namespace, labels and annotations."""
    return {key: found.get(key) or ("" if key in ("name", "namespace") else {}) for key in _METADATA}


_METADATA = ("name", "namespace", "labels", "annotations")


def joined(items: Any, empty: str) -> str:
    """A list as one text."""
    return ", ".join(map(str, items)) if isinstance(items, list) and items else empty


def included_excluded(choice: NameLists, *, everything: str = "*") -> JSONObject:
    """Two lists of names."""
    return {
        "included": joined(choice.included, everything),
        "excluded": joined(choice.excluded, "<none>"),
    }


def results(head: Head, kept: JSONObject | None) -> JSONObject:
    """Errors and warnings: the messages if they are stored, else their numbers.

    Like Velero: both are there, one of them perhaps empty, or none of them. Beside them stand the same
    messages with their codes, where the run has stored codes.
    """
    numbers = {"errors": head.errors, "warnings": head.warnings}
    if not any(numbers.values()):
        return {}
    found: JSONObject = {}
    for name, number in numbers.items():
        result = (kept or {}).get(name)
        if not number:
            found[name] = {}
        elif not isinstance(result, dict):
            found[name] = {"count": number}
        else:
            found[name] = {
                "velero": listed(result, "velero"),
                "cluster": listed(result, "cluster"),
                # The singular is Velero's, and so is the list where there is no namespace.
                "namespace": mapping(result, "namespaces") or [],
            }
    if notices := objects(kept or {}, OWN_PART, "notices"):
        found["notices"] = notices
    return found


def reasons(head: Head) -> JSONObject:
    """Why a run was refused or failed, if it was."""
    return {
        **({"validationErrors": head.validation_errors} if head.validation_errors else {}),
        **({"failureReason": head.failure_reason} if head.failure_reason else {}),
    }


def progress(found: RunState | None, to_be: str, done: str) -> JSONObject:
    """The numbers of items, and what a run is doing now; empty if they are not known."""
    if found is None or not found.known:
        return {}
    made: JSONObject = {
        f"{'estimatedTotal' if found.running else 'total'}ItemsToBe{to_be}": found.total,
        f"items{done}{'SoFar' if found.running else ''}": found.done,
    }
    if found.running and found.activity:
        made["activity"] = found.activity
    return made


def hooks(head: Head) -> JSONObject:
    """The numbers of hooks."""
    attempted, failed = head.hooks
    return {"hooksAttempted": attempted, "hooksFailed": failed}


_PHASE_KEYS: Final = {"InProgress": "In Progress"}
"""Keys of Velero's that are not the phase itself."""


def pod_volumes(volumes: Sequence[JSONObject], *, details: bool) -> Any:
    """Volumes of pods by uploader and phase: their numbers, or with details their pods and names."""
    if not volumes:
        return "<none included>"
    phases: dict[str, Any] = {}
    for volume in volumes:
        phase = _PHASE_KEYS.get(cells.phase(volume), cells.phase(volume)) or "New"
        spec = cells.spec(volume)
        if not details:
            phases[phase] = phases.get(phase, 0) + 1
            continue
        pod = f"{text(spec, 'pod', 'namespace')}/{text(spec, 'pod', 'name')}"
        of_pod = phases.setdefault(phase, {}).setdefault(pod, [])
        of_pod.append(text(spec, "volume"))
    uploaders = sorted({uploader_of_object(volume) for volume in volumes})
    uploader = ", ".join(uploaders)
    if details:
        phases = {
            phase: [{pod: ", ".join(sorted(names))} for pod, names in sorted(pods.items())]
            for phase, pods in phases.items()
        }
    messages = pod_volume_messages(volumes)
    return {
        # The misspelt key is Velero's; the right one stands beside it.
        "uploderType": uploader,
        "uploaderType": uploader,
        "podVolumeBackupsDetails": phases,
        **({"messages": messages} if messages else {}),
    }


def pod_volume_messages(volumes: Sequence[JSONObject]) -> dict[str, str]:
    """The messages about volumes of pods that failed or wait, by namespace, pod and volume."""
    return {
        "/".join((text(spec, "pod", "namespace"), text(spec, "pod", "name"), text(spec, "volume"))): message
        for spec, message in sorted(
            ((cells.spec(volume), text(cells.status(volume), "message")) for volume in volumes),
            key=lambda each: text(each[0], "volume"),
        )
        if message
    }
