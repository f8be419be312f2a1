"""The CustomResourceDefinitions: names, schemas, and the rules of structural schemas."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pinnace.api import kinds
from pinnace.api.definitions.crds import crd_manifest, crd_manifests
from pinnace.api.definitions.definition import Definition
from pinnace.api.definitions.spec_fields import NOT_SUPPORTED
from pinnace.api.definitions.velero import DEFINITIONS
from pinnace.api.velero.backup import BackupSpec

SCHEMAS = {
    manifest["spec"]["names"]["kind"]: manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for manifest in crd_manifests()
}


def _walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        yield from _walk(member, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from _walk(schema[key], f"{path}[]")


ALL_SCHEMAS = [(kind + path, schema) for kind, whole in SCHEMAS.items() for path, schema in _walk(whole)]
BY_PATH = dict(ALL_SCHEMAS)


def is_not_supported(path: str) -> bool:
    """By the description: a field of one kind may have the name of a supported one of another."""
    description = str(BY_PATH[path.removesuffix("[]")].get("description"))
    return description.startswith(("Not supported: ", "Without effect: "))


def test_fields_that_are_not_supported_are_kept_by_the_api_server() -> None:
    for prefix in ("Backup.spec", "Schedule.spec.template"):
        assert BY_PATH[f"{prefix}.volumeGroupSnapshotLabelKey"]["description"].startswith(
            "Not supported: common snapshots"
        )
    assert sum(map(is_not_supported, BY_PATH)) == sum(map(len, NOT_SUPPORTED.values())) + len(
        NOT_SUPPORTED[BackupSpec]
    )


def test_kinds_of_all_versions_in_order() -> None:
    names = [manifest["metadata"]["name"] for manifest in crd_manifests()]
    assert len(names) == 14
    assert names == sorted(names)
    assert {"backuprepositories.velero.io", "resticrepositories.velero.io", "datauploads.velero.io"} <= set(
        names
    )


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind.kind)
def test_names_and_scope(definition: Definition) -> None:
    kind, spec = definition.kind, crd_manifest(definition)["spec"]
    assert spec["group"] == "velero.io"
    assert spec["scope"] == "Namespaced"
    assert spec["names"]["singular"] == kind.kind.lower()
    assert spec["names"]["listKind"] == kind.kind + "List"
    assert "categories" not in spec["names"]
    assert "conversion" not in spec
    (version,) = spec["versions"]
    assert (version["name"], version["served"], version["storage"]) == (
        "v2alpha1" if kind.kind in ("DataDownload", "DataUpload") else "v1",
        True,
        True,
    )


def test_table_of_kinds() -> None:
    short = {kind.plural: kind.short_names for kind in kinds.VELERO if kind.kind != "ResticRepository"}
    assert " ".join(f"{plural}:{name}" for plural, (name,) in sorted(short.items())) == (
        "backuprepositories:repo backups:bak backupstoragelocations:bsl datadownloads:dd datauploads:du "
        "deletebackuprequests:dbr downloadrequests:dreq podvolumebackups:pvb podvolumerestores:pvr "
        "restores:rst schedules:sched serverstatusrequests:ssr volumesnapshotlocations:vsl"
    )
    with_columns = {kind.kind for kind in kinds.VELERO} - {"ResticRepository"}
    with_status = {"BackupStorageLocation", "DownloadRequest", "ServerStatusRequest"}
    for definition in DEFINITIONS:
        kind, version = definition.kind, crd_manifest(definition)["spec"]["versions"][0]
        assert version.get("subresources") == ({"status": {}} if kind.kind in with_status else None)
        assert ("additionalPrinterColumns" in version) == (kind.kind in with_columns)


def test_columns_name_fields_of_the_schema() -> None:
    for definition in DEFINITIONS:
        for column in definition.columns:
            path = definition.kind.kind + column.json_path
            if ".metadata." not in path:
                wanted = "string" if column.type == "date" else column.type
                assert BY_PATH[path]["type"] == wanted, path


def test_columns_of_locations() -> None:
    (location,) = (each for each in DEFINITIONS if each.kind is kinds.BACKUP_STORAGE_LOCATIONS)
    assert crd_manifest(location)["spec"]["versions"][0]["additionalPrinterColumns"] == [
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Last Validated", "type": "date", "jsonPath": ".status.lastValidationTime"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Default", "type": "boolean", "jsonPath": ".spec.default"},
    ]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_top_level(kind: str) -> None:
    schema = SCHEMAS[kind]
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert "required" not in schema
    assert schema["properties"]["metadata"] == {"type": "object"}


def test_schemas_are_structural_and_without_defaults() -> None:
    for path, schema in ALL_SCHEMAS:
        assert "default" not in schema, path
        if not schema.get("x-kubernetes-int-or-string"):
            assert schema.get("type") in ("object", "array", "string", "integer", "boolean"), path
        assert ("items" in schema) == (schema.get("type") == "array"), path
        assert not ("properties" in schema and "additionalProperties" in schema), path
        assert set(schema.get("required", ())) <= set(schema.get("properties", ())), path


CONTAINER = "Restore.spec.hooks.resources[].postHooks[].init.initContainers[]"


def test_unknown_fields_are_kept_at_every_level_of_a_spec_and_only_there() -> None:
    levels = {path for path, schema in ALL_SCHEMAS if "properties" in schema}
    keeping = {path for path, schema in ALL_SCHEMAS if schema.get("x-kubernetes-preserve-unknown-fields")}

    def of_specs(paths: set[str]) -> set[str]:
        return {path for path in paths if path.split(".")[1:2] in (["spec"], ["spec[]"])}

    assert keeping == of_specs(keeping)
    assert of_specs(levels) <= keeping
    assert {"Backup.spec", "Schedule.spec.template.hooks.resources[].pre[].exec", CONTAINER} <= keeping


def test_containers_have_the_schema_of_the_api_server() -> None:
    container = BY_PATH[CONTAINER]
    assert container["required"] == ["name"]
    assert {"image", "command", "env", "volumeMounts", "securityContext"} <= container["properties"].keys()
    assert BY_PATH[f"{CONTAINER}.ports[].containerPort"]["type"] == "integer"
    assert BY_PATH[f"{CONTAINER}.resources.limits[]"]["x-kubernetes-int-or-string"] is True


@pytest.mark.found("U4")
def test_required_lists() -> None:
    required = {
        path: schema["required"]
        for path, schema in ALL_SCHEMAS
        if "required" in schema and not path.startswith(f"{CONTAINER}.")
    }
    expressions = [path for path in required if path.endswith("matchExpressions[]")]
    assert {tuple(required.pop(path)) for path in expressions} == {("key", "operator")}
    assert {path: names for path, names in required.items() if ".template." not in path} == {
        "Backup.spec.hooks.resources[]": ["name"],
        "Backup.spec.hooks.resources[].pre[]": ["exec"],
        "Backup.spec.hooks.resources[].pre[].exec": ["command"],
        "Backup.spec.hooks.resources[].post[]": ["exec"],
        "Backup.spec.hooks.resources[].post[].exec": ["command"],
        "BackupRepository.spec": ["backupStorageLocation", "maintenanceFrequency", "volumeNamespace"],
        "BackupStorageLocation.spec": ["objectStorage", "provider"],
        "BackupStorageLocation.spec.credential": ["key"],
        "BackupStorageLocation.spec.objectStorage": ["bucket"],
        "BackupStorageLocation.spec.objectStorage.caCertRef": ["key"],
        "DataDownload.spec": [
            "backupStorageLocation",
            "operationTimeout",
            "snapshotID",
            "sourceNamespace",
            "targetVolume",
        ],
        "DataDownload.spec.targetVolume": ["namespace", "pv", "pvc"],
        "DataUpload.spec": [
            "backupStorageLocation",
            "operationTimeout",
            "snapshotType",
            "sourceNamespace",
            "sourcePVC",
        ],
        "DataUpload.spec.csiSnapshot": ["storageClass", "volumeSnapshot"],
        "DeleteBackupRequest.spec": ["backupName"],
        "DownloadRequest.spec": ["target"],
        "DownloadRequest.spec.target": ["kind", "name"],
        "PodVolumeBackup.spec": ["backupStorageLocation", "node", "pod", "repoIdentifier", "volume"],
        "PodVolumeRestore.spec": ["backupStorageLocation", "pod", "repoIdentifier", "snapshotID", "volume"],
        "ResticRepository.spec": [
            "backupStorageLocation",
            "maintenanceFrequency",
            "resticIdentifier",
            "volumeNamespace",
        ],
        "Backup.spec.resourcePolicy": ["kind", "name"],
        "Restore.spec.resourceModifier": ["kind", "name"],
        "Restore.spec.resourcePolicy": ["kind", "name"],
        "Restore.spec.hooks.resources[]": ["name"],
        "Restore.spec.hooks.resources[].postHooks[].exec": ["command"],
        "Restore.spec.hooks.resources[].postHooks[].init.initContainers[]": ["name"],
        "Schedule.spec": ["schedule", "template"],
        "ServerStatusRequest.status.plugins[]": ["kind", "name"],
        "VolumeSnapshotLocation.spec": ["provider"],
        "VolumeSnapshotLocation.spec.credential": ["key"],
    }


def test_nullable_fields() -> None:
    filters = {"includedNamespaces", "excludedNamespaces", "includedResources", "excludedResources"}
    nullable = {path for path, schema in ALL_SCHEMAS if schema.get("nullable") and not is_not_supported(path)}

    def of(prefix: str) -> set[str]:
        return {path.removeprefix(prefix) for path in nullable if path.startswith(prefix)}

    backup_spec = filters | {
        "labelSelector",
        "snapshotVolumes",
        "includeClusterResources",
        "orderedResources",
        "defaultVolumesToFsBackup",
        "orLabelSelectors",
        "includedClusterScopedResources",
        "excludedClusterScopedResources",
        "includedNamespaceScopedResources",
        "excludedNamespaceScopedResources",
        "resourcePolicy",
        "resourcePolicy.apiGroup",
        "snapshotMoveData",
        "uploaderConfig",
        "metadata.annotations",
    }
    hooks = {"hooks.resources[]." + name for name in filters | {"labelSelector"}}
    assert of("Backup.spec.") == backup_spec | hooks | {"hooks.resources"}
    assert of("Schedule.spec.template.") == of("Backup.spec.")
    assert of("Backup.status.") == {
        "expiration",
        "validationErrors",
        "startTimestamp",
        "completionTimestamp",
        "progress",
        "hookStatus",
    }
    restore_spec = filters | {"labelSelector", "restorePVs", "preserveNodePorts", "includeClusterResources"}
    restore_spec |= {"orLabelSelectors", "existingResourcePolicy", "restoreStatus", "resourceModifier"} | {
        f"restoreStatus.{name}" for name in ("includedResources", "excludedResources")
    }
    restore_spec |= {"resourceModifier.apiGroup", "uploaderConfig", "uploaderConfig.writeSparseFiles"}
    restore_spec |= {"resourcePolicy", "resourcePolicy.apiGroup"}
    restore_spec |= {"existingVolumeDataPolicy", "uploaderConfig.deleteExtraFiles"}
    restore_spec |= {"hooks.resources[].postHooks[].exec.waitForReady", "skipDefaultResourceModifier"}
    assert of("Restore.spec.") == restore_spec | hooks
    assert of("BackupStorageLocation.spec.") == {
        "backupSyncPeriod",
        "validationFrequency",
        "objectStorage.caCertRef",
    }
    assert of("Schedule.status.") == {"lastBackup", "lastSkipped"}
    assert of("DeleteBackupRequest.status.") == {"errors"}
    assert of("ServerStatusRequest.status.") == {"processedTimestamp", "plugins"}


def test_formats_and_enums() -> None:
    assert BY_PATH["PodVolumeBackup.status.progress.totalBytes"]["format"] == "int64"
    assert BY_PATH["BackupStorageLocation.spec.objectStorage.caCert"]["format"] == "byte"
    assert BY_PATH["Backup.status.expiration"]["format"] == "date-time"
    assert "format" not in BY_PATH["Backup.status.errors"]
    assert BY_PATH["Backup.spec.ttl"]["type"] == "string"
    assert BY_PATH["Backup.spec.hooks.resources[].pre[].exec.command"]["minItems"] == 1
    enums = {path: schema["enum"] for path, schema in ALL_SCHEMAS if "enum" in schema}
    assert enums["Backup.status.phase"] == [
        "New",
        "Queued",
        "ReadyToStart",
        "FailedValidation",
        "InProgress",
        "WaitingForPluginOperations",
        "WaitingForPluginOperationsPartiallyFailed",
        "Finalizing",
        "FinalizingPartiallyFailed",
        "Completed",
        "PartiallyFailed",
        "Failed",
        "Deleting",
    ]
    assert enums["ResticRepository.status.phase"] == ["New", "Ready", "NotReady"]
    assert enums["Restore.spec.hooks.resources[].postHooks[].exec.onError"] == ["Continue", "Fail"]
    assert {f"{kind}.status.phase" for kind in SCHEMAS} <= set(enums)


def test_fields_added_to_upstreams() -> None:
    assert BY_PATH["Backup.status.failureReason"]["type"] == "string"
    assert BY_PATH["BackupStorageLocation.status.message"]["type"] == "string"


def test_every_field_is_described() -> None:
    silent = [
        path
        for path, schema in ALL_SCHEMAS
        if "description" not in schema
        and not is_not_supported(path.removesuffix("[]"))
        and not path.endswith((".metadata", "[]", ".spec", ".status"))
        and not path.startswith(CONTAINER)
    ]
    assert silent == []
    ttl = BY_PATH["Backup.spec.includeClusterResources"]["description"]
    assert ttl.endswith("only when all namespaces are, or when a saved object needs them."), (
        "lines are joined"
    )


def test_descriptions_do_not_refer_to_the_specification() -> None:
    assert [path for path, schema in ALL_SCHEMAS if "docs/spec" in str(schema.get("description"))] == []


def test_manifests_are_json_and_independent() -> None:
    first = crd_manifests()
    msgspec.json.encode(first)
    first[0]["metadata"]["labels"] = {"component": "velero"}
    first[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clear()
    second = crd_manifests()
    assert "labels" not in second[0]["metadata"]
    assert second[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
