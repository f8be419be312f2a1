# mypy: disable-error-code="import-not-found"
"""The plugin on sample objects."""

import pytest
from owner_plugin import AddOwner

from pinnace.plugins import PluginError, ResourceIdentifier
from pinnace.plugins.testing import run_backup_action

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-0", "namespace": "shop"},
    "spec": {"serviceAccountName": "web"},
}


def test_a_pod_gets_its_owner_and_its_account_is_backed_up_too() -> None:
    outcome = run_backup_action(AddOwner(), POD, config={"owner": "team-a"})

    assert outcome.applies_to("pods")
    assert not outcome.applies_to("configmaps")
    assert outcome.item["metadata"]["annotations"] == {"example.com/owner": "team-a"}
    assert outcome.additional_items == [
        ResourceIdentifier(group="", resource="serviceaccounts", namespace="shop", name="web")
    ]
    assert outcome.log[0].message == "web-0 is team-a's"


def test_an_existing_owner_is_kept() -> None:
    metadata = {"name": "web-0", "namespace": "shop", "annotations": {"example.com/owner": "team-b"}}

    outcome = run_backup_action(AddOwner(), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata})

    assert outcome.item["metadata"] == metadata
    assert outcome.additional_items == []


def test_an_empty_owner_is_refused() -> None:
    with pytest.raises(PluginError, match="owner must not be empty"):
        run_backup_action(AddOwner(), POD, config={"owner": ""})
