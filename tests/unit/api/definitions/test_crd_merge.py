"""Definitions over definitions: nothing that was accepted and kept is refused or dropped afterwards."""

import copy
from typing import Any

import pytest

from pinnace.api.definitions.crd_merge import fields_beyond, superset
from pinnace.api.definitions.crds import crd_manifest
from pinnace.api.definitions.velero import DEFINITIONS

BY_KIND = {each.kind.kind: crd_manifest(each) for each in DEFINITIONS}


def served(kind: str) -> dict[str, Any]:
    """Our definition as an API server returns it, to be changed by the test."""
    crd = copy.deepcopy(BY_KIND[kind])
    crd["spec"]["conversion"] = {"strategy": "None"}
    crd["status"] = {"storedVersions": ["v1"]}
    return crd


def schema(crd: dict[str, Any], *path: str) -> dict[str, Any]:
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path:
        found = found["items"] if name == "[]" else found["properties"][name]
    return found


@pytest.mark.parametrize("kind", BY_KIND)
def test_our_own_definition_stays_as_it_is(kind: str) -> None:
    assert superset(BY_KIND[kind], served(kind)) == BY_KIND[kind]
    assert fields_beyond(BY_KIND[kind], served(kind)) == []


def test_fields_of_the_served_definition_are_kept_at_every_level() -> None:
    there = served("Restore")
    schema(there, "spec")["properties"]["ofTheFuture"] = {"type": "string"}
    exec_hook = schema(there, "spec", "hooks", "resources", "[]", "postHooks", "[]", "exec")
    exec_hook["properties"]["later"] = {"type": "object", "properties": {"deep": {"type": "integer"}}}
    hook = schema(there, "spec", "hooks", "resources", "[]", "postHooks", "[]")
    del hook["properties"]["init"], hook["x-kubernetes-preserve-unknown-fields"]

    merged = superset(BY_KIND["Restore"], there)

    assert schema(merged, "spec", "ofTheFuture") == {"type": "string"}
    hooks = ("hooks", "resources", "[]", "postHooks", "[]", "exec")
    assert schema(merged, "spec", *hooks, "later", "deep") == {"type": "integer"}
    init = ("spec", "hooks", "resources", "[]", "postHooks", "[]", "init")
    assert schema(merged, *init) == schema(BY_KIND["Restore"], *init)
    assert fields_beyond(BY_KIND["Restore"], there) == [
        "spec.hooks.resources[].postHooks[].exec.later",
        "spec.hooks.resources[].postHooks[].exec.later.deep",
        "spec.ofTheFuture",
    ]


def test_what_was_accepted_is_accepted_still() -> None:
    there = served("Backup")
    schema(there, "status", "phase")["enum"] = ["New", "Queued", "Completed"]
    schema(there)["required"] = ["spec"]
    schema(there, "spec", "hooks", "resources", "[]").pop("required")
    schema(there, "spec", "ttl")["nullable"] = True
    schema(there, "spec", "hooks")["x-kubernetes-preserve-unknown-fields"] = True
    schema(there, "spec", "storageLocation")["default"] = "main"
    command = ("spec", "hooks", "resources", "[]", "pre", "[]", "exec", "command")
    schema(there, *command)["minItems"] = 0

    merged = superset(BY_KIND["Backup"], there)

    phases = schema(merged, "status", "phase")["enum"]
    assert phases[:3] == ["New", "Queued", "Completed"]
    assert {"InProgress", "Deleting"} <= set(phases)
    assert "required" not in schema(merged)
    assert "required" not in schema(merged, "spec", "hooks", "resources", "[]")
    assert schema(merged, "spec", "ttl")["nullable"] is True
    assert schema(merged, "spec", "hooks")["x-kubernetes-preserve-unknown-fields"] is True
    assert schema(merged, "spec", "storageLocation")["default"] == "main"
    assert "minItems" not in schema(merged, *command)


def test_an_enumeration_that_only_one_has_limits_nothing() -> None:
    there = served("Backup")
    del schema(there, "status", "phase")["enum"]

    assert "enum" not in schema(superset(BY_KIND["Backup"], there), "status", "phase")


@pytest.mark.parametrize(
    "other",
    [{"type": "integer"}, {"type": "object", "additionalProperties": {"type": "integer"}}],
    ids=["another type", "free keys"],
)
def test_of_schemas_that_contradict_each_other_the_served_one_stays(other: dict[str, Any]) -> None:
    there = served("Backup")
    schema(there, "spec")["properties"]["hooks"] = other

    assert schema(superset(BY_KIND["Backup"], there), "spec", "hooks") == other


def test_the_status_stays_where_the_served_definition_has_it() -> None:
    """As that of Velero 1.18: its own server would write a status that a subresource ignores."""
    there = served("DownloadRequest")
    del there["spec"]["versions"][0]["subresources"]
    assert "subresources" not in superset(BY_KIND["DownloadRequest"], there)["spec"]["versions"][0]

    there = served("Backup")
    there["spec"]["versions"][0]["subresources"] = {"status": {}}
    assert "subresources" not in superset(BY_KIND["Backup"], there)["spec"]["versions"][0]


def test_columns_names_and_versions_of_the_served_definition_stay() -> None:
    there = served("BackupStorageLocation")
    (version,) = there["spec"]["versions"]
    version["additionalPrinterColumns"] = [{"name": "Phase", "type": "string", "jsonPath": ".other"}]
    version["storage"] = False
    later = {"name": "v2", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    there["spec"]["versions"].append(later)
    there["spec"]["names"]["categories"] = ["backup"]

    merged = superset(BY_KIND["BackupStorageLocation"], there)["spec"]

    first, second = merged["versions"]
    assert [(each["name"], each["jsonPath"]) for each in first["additionalPrinterColumns"]][:2] == [
        ("Phase", ".other"),
        ("Last Validated", ".status.lastValidationTime"),
    ]
    assert (first["storage"], second) == (False, later)
    assert (merged["names"]["shortNames"], merged["names"]["categories"]) == (["bsl"], ["backup"])


def test_values_of_fields_that_were_kept_without_a_schema_are_not_judged_afterwards() -> None:
    there = served("Backup")
    hooks = schema(there, "spec", "hooks")
    hooks["x-kubernetes-preserve-unknown-fields"] = True
    del hooks["properties"]

    resources = schema(superset(BY_KIND["Backup"], there), "spec", "hooks", "resources")

    assert resources == {
        "description": schema(BY_KIND["Backup"], "spec", "hooks", "resources")["description"],
        "x-kubernetes-preserve-unknown-fields": True,
        "nullable": True,
    }


def test_a_definition_that_drops_unknown_fields_of_specs_is_widened_to_keep_them() -> None:
    there = served("Backup")
    for part in (("spec",), ("spec", "hooks")):
        del schema(there, *part)["x-kubernetes-preserve-unknown-fields"]

    merged = superset(BY_KIND["Backup"], there)

    assert merged == BY_KIND["Backup"]
