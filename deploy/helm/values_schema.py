"""The JSON schema of the chart's values, made from them: a misspelt value is refused, not ignored."""

from typing import Any, Final

from pinnace.api.objects import JSONObject

_FREE: Final = frozenset(
    {"config", "annotations", "labels", "podAnnotations", "podLabels", "dnsConfig"}
    | {"resources", "nodeSelector", "affinity", "schedules", "extraBackupLocations"}
)
"""Maps whose keys the user chooses."""
_ENUMS: Final = {
    "image.pullPolicy": ["", "Always", "IfNotPresent", "Never"],
    "server.uploaderType": ["", "kopia", "restic"],
    "backupLocation.accessMode": ["", "ReadWrite", "ReadOnly"],
}
_NUMBERS_OR_SHARES: Final = frozenset({"server.podDisruptionBudget.maxUnavailable"})


def schema(values: JSONObject) -> JSONObject:
    """The schema for values of this shape."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_of("", values)}


def _of(path: str, value: Any) -> JSONObject:
    name = path.rpartition(".")[2]
    if isinstance(value, dict):
        if name in _FREE:
            return {"type": "object"}
        members = {key: _of(f"{path}.{key}".lstrip("."), member) for key, member in value.items()}
        # Helm passes `global` to every chart.
        more = {"global": {"type": "object"}} if not path else {}
        return {"type": "object", "additionalProperties": False, "properties": {**members, **more}}
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": ["integer", "string"] if path in _NUMBERS_OR_SHARES else "integer"}
    if isinstance(value, list):
        return {"type": "array"}
    if path in _ENUMS:
        return {"type": "string", "enum": _ENUMS[path]}
    return {"type": "string"}
