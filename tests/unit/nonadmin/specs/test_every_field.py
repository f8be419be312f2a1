"""Every field of a tenant's spec is passed on, decided by the service, or refused. (docs/spec: NAC 6)

The tables name all fields of the specs of Velero 1.18, so that a new one cannot be dropped in silence.
"""

from typing import Any, Final

import pytest

from pinnace.api.definitions.spec_fields import check_part
from pinnace.api.velero.backup import BackupSpec
from pinnace.api.velero.restore import RestoreSpec
from pinnace.nonadmin.settings.admin import AdminSettings, read_settings
from pinnace.nonadmin.settings.values import fields
from pinnace.nonadmin.specs.backup import StorageChoice, backup_problem, backup_spec
from pinnace.nonadmin.specs.restore import restore_problem, restore_spec

SERVER = "velero"
NOTHING = AdminSettings()
Spec = dict[str, Any]

PASSED: Final = "passed"
"""The server gets what the tenant wrote."""
ADDED_TO: Final = "added to"
"""The server gets what the tenant wrote, and more."""
DECIDED: Final = "decided"
"""The service writes it; the tenant may write the same only."""
REFUSED: Final = "refused"
"""The request is refused, and the message names the field."""

BACKUP: Final[dict[str, tuple[Any, str]]] = {
    "includedNamespaces": (["shop"], DECIDED),
    "excludedNamespaces": (["x"], REFUSED),
    "includedResources": (["pods"], PASSED),
    "excludedResources": (["secrets"], ADDED_TO),
    "labelSelector": ({"matchLabels": {"a": "b"}}, PASSED),
    "orLabelSelectors": ([{"matchLabels": {"a": "b"}}], PASSED),
    "snapshotVolumes": (True, PASSED),
    "ttl": ("1h0m0s", PASSED),
    "includeClusterResources": (True, REFUSED),
    "includedClusterScopedResources": (["storageclasses"], REFUSED),
    "excludedClusterScopedResources": (["persistentvolumes"], ADDED_TO),
    "includedNamespaceScopedResources": (["pods"], PASSED),
    "excludedNamespaceScopedResources": (["secrets"], ADDED_TO),
    "hooks": ({"resources": [{"name": "h", "pre": [{"exec": {"command": ["true"]}}]}]}, PASSED),
    "storageLocation": ("mine", DECIDED),
    "volumeSnapshotLocations": (["x"], REFUSED),
    "defaultVolumesToRestic": (True, PASSED),
    "defaultVolumesToFsBackup": (True, PASSED),
    "orderedResources": ({"pods": "shop/a,shop/b"}, PASSED),
    "metadata": ({"labels": {"a": "b"}}, PASSED),
    "csiSnapshotTimeout": ("5m0s", PASSED),
    "itemOperationTimeout": ("2h0m0s", PASSED),
    "resourcePolicy": ({"kind": "configmap", "name": "x"}, REFUSED),
    "uploaderConfig": ({"parallelFilesUpload": 2}, PASSED),
    "snapshotMoveData": (True, REFUSED),
    "datamover": ("velero", PASSED),
    "volumeGroupSnapshotLabelKey": ("x", REFUSED),
    "backupType": ("Full", PASSED),
}
RESTORE: Final[dict[str, tuple[Any, str]]] = {
    "backupName": ("nightly", DECIDED),
    "scheduleName": ("x", REFUSED),
    "includedNamespaces": (["shop"], REFUSED),
    "excludedNamespaces": (["x"], REFUSED),
    "includedResources": (["pods"], PASSED),
    "excludedResources": (["secrets"], ADDED_TO),
    "namespaceMapping": ({"a": "b"}, REFUSED),
    "labelSelector": ({"matchLabels": {"a": "b"}}, PASSED),
    "orLabelSelectors": ([{"matchLabels": {"a": "b"}}], PASSED),
    "restorePVs": (True, PASSED),
    "preserveNodePorts": (True, PASSED),
    "includeClusterResources": (True, REFUSED),
    "hooks": (
        {"resources": [{"name": "h", "postHooks": [{"exec": {"command": ["true"]}}]}]},
        PASSED,
    ),
    "existingResourcePolicy": ("update", PASSED),
    "restoreStatus": ({"includedResources": ["*"]}, REFUSED),
    "resourceModifier": ({"kind": "configmap", "name": "x"}, REFUSED),
    "resourcePolicy": ({"kind": "configmap", "name": "x"}, REFUSED),
    "skipDefaultResourceModifier": (True, REFUSED),
    "existingVolumeDataPolicy": ("full", REFUSED),
    "itemOperationTimeout": ("2h0m0s", PASSED),
    "uploaderConfig": ({"writeSparseFiles": True}, PASSED),
}
NAMED_OTHERWISE: Final = {"includedClusterScopedResources": "includedScopedResources"}
"""As upstream writes it in the condition. (docs/spec: NAC 6.1)"""
UNSUPPORTED: Final = {"volumeGroupSnapshotLabelKey"}

CREATED = {"status": {"phase": "Created", "veleroBackupStorageLocation": {"nacuuid": "id", "name": "id"}}}
MINE = StorageChoice(request=CREATED, location={"status": {"phase": "Available"}})
SAVED = {"status": {"phase": "Created", "veleroBackup": {"name": "nab-1"}}}


def of_backup(**spec: Any) -> Spec:
    return {"metadata": {"name": "n", "namespace": "shop"}, "spec": {"backupSpec": spec}}


def of_restore(**spec: Any) -> Spec:
    given = {"backupName": "nightly", **spec}
    return {"metadata": {"name": "n", "namespace": "shop"}, "spec": {"restoreSpec": given}}


def test_the_tables_name_every_field() -> None:
    assert set(BACKUP) - UNSUPPORTED == set(fields(BackupSpec))
    assert set(RESTORE) == set(fields(RestoreSpec))
    for name in UNSUPPORTED:  # goes out of this set in the change that supports it
        assert check_part(BackupSpec, {name: BACKUP[name][0]}, "spec").errors


def verdict(field: str, given: Any, problem: str, made: Spec) -> str:
    """How a field was treated."""
    if problem:
        assert NAMED_OTHERWISE.get(field, field) in problem
        return REFUSED
    if made.get(field) == given:
        return PASSED
    found = made[field]
    return ADDED_TO if isinstance(found, list) and found[: len(given)] == given else DECIDED


@pytest.mark.parametrize("field", BACKUP)
def test_a_field_of_a_backup_is_passed_decided_or_refused(field: str) -> None:
    given, expected = BACKUP[field]
    request, storage = of_backup(**{field: given}), MINE if field == "storageLocation" else StorageChoice()

    problem = backup_problem(request, storage, NOTHING, SERVER)
    found = verdict(field, given, problem, {} if problem else backup_spec(request, storage, NOTHING))

    assert found == (PASSED if field == "includedNamespaces" else expected)


@pytest.mark.parametrize("field", RESTORE)
def test_a_field_of_a_restore_is_passed_decided_or_refused(field: str) -> None:
    given, expected = RESTORE[field]
    request = of_restore(**{field: given})

    problem = restore_problem(request, SAVED, NOTHING, SERVER)
    made = {} if problem else restore_spec(request, SAVED, NOTHING, trusted=True)

    assert verdict(field, given, problem, made) == expected


OTHER: Final = {
    bool: False,
    str: "other",
    list: ["other"],
    dict: {},
}


def another(field: str, value: Any) -> Any:
    """A value that contradicts another one."""
    match field:
        case "ttl" | "csiSnapshotTimeout" | "itemOperationTimeout":
            return "1m0s"
        case "labelSelector":
            return {"matchLabels": {"other": "x"}}
        case "orLabelSelectors":
            return [{"matchLabels": {"other": "x"}}]
        case "hooks":
            key = "postHooks" if "postHooks" in value["resources"][0] else "pre"
            return {"resources": [{"name": "other", key: [{"exec": {"command": ["false"]}}]}]}
        case "metadata":
            return {"labels": {"other": "x"}}
        case "uploaderConfig":
            up = "parallelFilesUpload"
            return {up if up in value else "parallelFilesDownload": 1}
        case "orderedResources":
            return {"pods": "shop/c"}
        case "existingResourcePolicy":
            return "none"
        case "snapshotMoveData" | "includeClusterResources":
            return True
    return OTHER[type(value)]


def enforced(kind: str, field: str, value: Any) -> AdminSettings:
    return read_settings({"nonAdmin": {f"enforce{kind}Spec": {field: value}}})


@pytest.mark.parametrize("field", [name for name, (_, what) in BACKUP.items() if what in (PASSED, ADDED_TO)])
def test_an_enforced_field_of_a_backup_is_filled_in_and_contradicting_it_is_refused(field: str) -> None:
    value = BACKUP[field][0]
    settings = enforced("Backup", field, value)

    filled = backup_spec(of_backup(), StorageChoice(), settings)
    assert verdict(field, value, "", filled) == BACKUP[field][1]
    assert backup_problem(of_backup(**{field: value}), StorageChoice(), settings, SERVER) == ""
    against = backup_problem(of_backup(**{field: another(field, value)}), StorageChoice(), settings, SERVER)
    assert f"the administrator has restricted spec.backupSpec.{field}" in against


@pytest.mark.parametrize("field", [name for name, (_, what) in RESTORE.items() if what in (PASSED, ADDED_TO)])
def test_an_enforced_field_of_a_restore_is_filled_in_and_contradicting_it_is_refused(field: str) -> None:
    value = RESTORE[field][0]
    settings = enforced("Restore", field, value)

    filled = restore_spec(of_restore(), SAVED, settings, trusted=True)
    assert verdict(field, value, "", filled) == RESTORE[field][1]
    assert restore_problem(of_restore(**{field: value}), SAVED, settings, SERVER) == ""
    against = restore_problem(of_restore(**{field: another(field, value)}), SAVED, settings, SERVER)
    assert f"the administrator has restricted spec.restoreSpec.{field}" in against


def test_a_tenant_may_not_remove_files_of_volumes_that_exist() -> None:
    asked = of_restore(existingVolumeDataPolicy="none", uploaderConfig={"deleteExtraFiles": True})

    problem = restore_problem(asked, SAVED, NOTHING, SERVER)

    assert problem.endswith("uploaderConfig.deleteExtraFiles is restricted")
