"""The parts of `describe -o json` that backups and restores share. Pure. (docs/spec: BEY 8.3)"""

from collections.abc import Sequence
from typing import Any, Final

from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.cli.output import cells


def metadata(obj: JSONObject) -> JSONObject:
    """Name, namespace, labels and annotations."""
    found = mapping(obj, "metadata")
    return {key: found.get(key) or ("" if key in ("name", "namespace") else {}) for key in _METADATA}


_METADATA = ("name", "namespace", "labels", "annotations")


def joined(items: Any, empty: str) -> str:
    """A list as one text."""
    return ", ".join(map(str, items)) if isinstance(items, list) and items else empty


def included_excluded(spec: JSONObject, what: str, *, everything: str = "*") -> JSONObject:
    """Two lists of names, such as includedNamespaces and excludedNamespaces."""
    return {
        "included": joined(listed(spec, f"included{what}"), everything),
        "excluded": joined(listed(spec, f"excluded{what}"), "<none>"),
    }


def cluster_scoped(spec: JSONObject) -> str:
    """`auto`, `included` or `excluded`."""
    return cells.tristate(spec.get("includeClusterResources"), yes="included", no="excluded")


def results(status: JSONObject, kept: JSONObject | None) -> dict[str, JSONObject]:
    """Errors and warnings: the messages if they are stored, else their numbers.

    Like Velero: both are there, one of them perhaps empty, or none of them.
    """
    numbers = {name: status.get(name) or 0 for name in ("errors", "warnings")}
    if not any(numbers.values()):
        return {}
    found: dict[str, JSONObject] = {}
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
    return found


def times(status: JSONObject) -> JSONObject:
    """The times of start and end, in the long form with the zone."""
    return {
        "started": cells.local_time(text(status, "startTimestamp") or None, "<n/a>"),
        "completed": cells.local_time(text(status, "completionTimestamp") or None, "<n/a>"),
    }


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
    uploaders = sorted({text(cells.spec(volume), "uploaderType") or "restic" for volume in volumes})
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
