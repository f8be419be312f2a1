"""Fields of specs that are not honoured: refused, warned of, or harmless."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.definitions.spec_fields import NOT_SUPPORTED, SPECS, FieldFindings, check_spec

# Specs as servers of these versions stored them.
STORED_BY_VELERO_1_6: dict[str, Any] = {
    "includedNamespaces": ["shop", "shop-data"],
    "ttl": "48h0m0s",
    "hooks": {},
    "storageLocation": "default",
    "defaultVolumesToRestic": False,
}
STORED_BY_VELERO_1_16: dict[str, Any] = {
    "metadata": {},
    "includedNamespaces": ["shop", "shop-data"],
    "ttl": "48h0m0s",
    "hooks": {},
    "storageLocation": "default",
    "defaultVolumesToFsBackup": False,
    "csiSnapshotTimeout": "10m0s",
    "itemOperationTimeout": "4h0m0s",
    "snapshotMoveData": False,
}
STORED_BY_VELERO_1_18: dict[str, Any] = {
    **STORED_BY_VELERO_1_16,
    "volumeGroupSnapshotLabelKey": "velero.io/volume-group",
    "resourcePolicy": None,
    "uploaderConfig": {"parallelFilesUpload": 0},
}


STORED_BY_VELERO_1_19: dict[str, Any] = {
    **STORED_BY_VELERO_1_18,
    "datamover": "velero-fs",
    "backupType": "Incremental",
}


def findings(kind: str, **spec: Any) -> FieldFindings:
    return check_spec(kind, {"kind": kind, "spec": spec})


@pytest.mark.parametrize(
    "spec",
    [STORED_BY_VELERO_1_6, STORED_BY_VELERO_1_16, STORED_BY_VELERO_1_18, STORED_BY_VELERO_1_19],
)
def test_what_servers_fill_in_asks_for_nothing(spec: dict[str, Any]) -> None:
    assert findings("Backup", **spec) == FieldFindings()
    assert findings("Schedule", schedule="@daily", template=spec, paused=True) == FieldFindings()


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        ("Backup", {"volumeGroupSnapshotLabelKey": "group"}, "spec.volumeGroupSnapshotLabelKey"),
        (
            "Schedule",
            {"template": {"volumeGroupSnapshotLabelKey": "group"}},
            "spec.template.volumeGroupSnapshotLabelKey",
        ),
    ],
)
def test_a_field_that_is_not_supported_is_an_error_that_names_it(
    kind: str, spec: dict[str, Any], path: str
) -> None:
    found = findings(kind, **spec)

    (error,) = found.errors
    assert error.startswith(f"{path} is not supported (")
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        ("Backup", {"excludedNamespace": ["a"]}, "spec.excludedNamespace"),
        ("Backup", {"ofTheFuture": {"deep": [1]}}, "spec.ofTheFuture"),
        (
            "Backup",
            {"hooks": {"resources": [{"name": "h", "prehooks": [1]}]}},
            "spec.hooks.resources[0].prehooks",
        ),
        ("Backup", {"labelSelector": {"matchLabel": {"a": "b"}}}, "spec.labelSelector.matchLabel"),
        ("Restore", {"restorePvs": True}, "spec.restorePvs"),
        ("Schedule", {"template": {"TTL": "1h"}}, "spec.template.TTL"),
        ("Schedule", {"suspend": True}, "spec.suspend"),
        ("BackupStorageLocation", {"objectStorage": {"path": "x"}}, "spec.objectStorage.path"),
        ("VolumeSnapshotLocation", {"credentials": {"name": "c"}}, "spec.credentials"),
    ],
)
def test_a_field_that_is_not_known_is_a_warning_that_names_it(
    kind: str, spec: dict[str, Any], path: str
) -> None:
    found = findings(kind, **spec)

    (warning,) = found.warnings
    assert warning.startswith(f"{path} is not a field that this version knows")
    assert found.errors == ()


def test_a_limit_for_operations_is_honoured() -> None:
    for kind in ("Backup", "Restore"):
        assert findings(kind, itemOperationTimeout="1h0m0s") == FieldFindings()


@pytest.mark.parametrize("kind", SPECS)
def test_nulls_and_empty_values_ask_for_nothing(kind: str) -> None:
    names = [name for struct in NOT_SUPPORTED for name in NOT_SUPPORTED[struct]]

    values: list[Any] = [None, False, 0, "", [], {}, {"a": {"b": None}}]
    for nothing in values:
        assert findings(kind, **dict.fromkeys([*names, "unknown"], nothing)) == FieldFindings()


@pytest.mark.parametrize("obj", [{}, {"spec": None}, {"spec": "text"}, {"spec": {"hooks": ["no", "map"]}}])
def test_an_object_of_another_shape_is_left_to_its_reader(obj: dict[str, Any]) -> None:
    assert check_spec("Backup", obj) == FieldFindings()


def test_keys_of_maps_are_not_fields_of_the_spec() -> None:
    assert findings("Restore", namespaceMapping={"a": "b"}) == FieldFindings()
    assert findings("Backup", orderedResources={"pods": "a/b"}) == FieldFindings()


def test_the_guide_lists_every_field_of_the_table() -> None:
    guide = (Path(__file__).parents[4] / "docs/reference/velero.md").read_text()
    rows = [line for line in guide.splitlines() if line.startswith("| ")]

    for fields in NOT_SUPPORTED.values():
        for name, entry in fields.items():
            warning = "" if entry.refused else "warning: "
            assert any(
                row.endswith(f"| `{name}` | {entry.since} | {warning}{entry.instead} |") for row in rows
            )


def test_texts_stay_few_and_short_whatever_an_object_holds() -> None:
    deep: dict[str, Any] = {"x": 1}
    for _ in range(5000):
        deep = {"x": deep}
    hook = {"postHooks": [{"exec": {"unheardOf": True}}]}

    unknown = findings("Backup", **{"n" * 5000: 1}, deep=deep, **{f"f{number}": 1 for number in range(500)})
    many = findings("Restore", hooks={"resources": [hook] * 5000})

    assert len(unknown.warnings) == len(many.warnings) == 21
    assert unknown.warnings[-1] == "482 more fields like these"
    assert many.warnings[-1] == "4,980 more fields like these"
    assert max(map(len, unknown.warnings)) < 250


def test_a_field_that_a_container_has_not_is_a_warning_that_it_is_passed_on() -> None:
    env = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "later": 1}}}
    container = {
        "name": "c",
        "image": "i",
        "resources": {"limits": {"cpu": "1"}},
        "env": [env],
        "imagePullPolcy": "Always",
    }
    hook = {"init": {"initContainers": [container], "timeout": "1s"}}
    found = findings("Restore", hooks={"resources": [{"name": "h", "postHooks": [hook]}]})

    path = "spec.hooks.resources[0].postHooks[0].init.initContainers[]"
    assert [text.partition(" is ")[0] for text in found.warnings] == [
        f"{path}.env[].valueFrom.secretKeyRef.later",
        f"{path}.imagePullPolcy",
    ]
    assert "passed on with the pod" in found.warnings[0]
    assert found.errors == ()


def test_uploader_settings_of_a_restore_are_honoured() -> None:
    found = findings("Restore", uploaderConfig={"writeSparseFiles": True, "parallelFilesDownload": 4})
    assert found == FieldFindings()


@pytest.mark.found("G4")
def test_what_a_restore_does_anyway_passes() -> None:
    spec = {"skipDefaultResourceModifier": True, "existingVolumeDataPolicy": "none"}
    assert findings("Restore", **spec, uploaderConfig={"deleteExtraFiles": False}) == FieldFindings()
