"""Definitions like those of Velero 1.18: no status subresources, the fields that it has beyond ours.

Made after docs/spec BEY 2.1 and 2.2. As those of Velero, they prune unknown fields, except in the spec
of a Restore: there any field stays, as under definitions of versions to come.
"""

import copy
from typing import Any, Final

from pinnace.api.definitions.crds import crd_manifests

JSONSchema = dict[str, Any]

_TEXT: Final = {"type": "string"}
_SWITCH: Final = {"type": "boolean", "nullable": True}
_NAMES: Final = {"type": "array", "nullable": True, "items": _TEXT}
_BACKUP: Final[JSONSchema] = {
    "includedClusterScopedResources": _NAMES,
    "excludedClusterScopedResources": _NAMES,
    "includedNamespaceScopedResources": _NAMES,
    "excludedNamespaceScopedResources": _NAMES,
    "itemOperationTimeout": _TEXT,
    "snapshotMoveData": _SWITCH,
    "uploaderConfig": {"type": "object", "properties": {"parallelFilesUpload": {"type": "integer"}}},
    "onlyOfVelero": _TEXT,
}


def definitions_of_velero_1_18() -> list[JSONSchema]:
    """One for each of our kinds except ResticRepository, which Velero no longer has."""
    made = (_changed(manifest) for manifest in crd_manifests())
    return [each for each in made if each["spec"]["names"]["kind"] != "ResticRepository"]


def _changed(manifest: JSONSchema) -> JSONSchema:
    (version,) = manifest["spec"]["versions"]
    version.pop("subresources", None)
    _pruning(version["schema"]["openAPIV3Schema"])
    whole = version["schema"]["openAPIV3Schema"]["properties"]
    spec = whole["spec"].get("properties", {})
    if "status" in whole:
        whole["status"]["properties"].pop("activity", None)
    match manifest["spec"]["names"]["kind"]:
        case "Backup":
            spec |= copy.deepcopy(_BACKUP)
            whole["status"]["properties"]["onlyOfVelero"] = {"type": "integer"}
        case "Schedule":
            spec["template"]["properties"] |= copy.deepcopy(_BACKUP)
            # Ours has them too: what matters is that they outlive our definition.
            assert {"paused", "skipImmediately"} <= spec.keys()
        case "Restore":
            whole["spec"]["x-kubernetes-preserve-unknown-fields"] = True
        case "BackupStorageLocation":
            reference = {"type": "object", "properties": {"name": _TEXT, "key": _TEXT}}
            spec["objectStorage"]["properties"]["caCertRef"] = reference
            whole["status"]["properties"]["onlyOfVelero"] = _TEXT
    return manifest


def _pruning(schema: JSONSchema) -> None:
    schema.pop("x-kubernetes-preserve-unknown-fields", None)
    if "type" not in schema and "x-kubernetes-int-or-string" not in schema:
        schema["type"] = "object"
    for member in (schema.get("properties") or {}).values():
        _pruning(member)
    for key in ("items", "additionalProperties"):
        if key in schema:
            _pruning(schema[key])
