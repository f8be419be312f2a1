"""Names in filters that mean nothing in a cluster."""

import pytest

from pinnace.api.values.near import near_names
from pinnace.kube.unserved import unserved_names
from tests.support.cluster.discovered import documented_discovery, resource, served

DISCOVERY = documented_discovery(
    [
        served(
            "v1",
            resource("pods", "Pod", short=["po"]),
            resource("secrets", "Secret"),
            resource("bindings", "Binding", verbs=["create"]),
        ),
        served("apps/v1", resource("deployments", "Deployment", short=["deploy"])),
    ]
)


@pytest.mark.parametrize(
    "name", ["pods", "Pod", "po", "deployment.apps", "deploy", "*", "", "*.apps", "{pods,x}"]
)
def test_served_names_and_matching_patterns_pass(name: str) -> None:
    assert unserved_names([name], DISCOVERY) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deploymnets", "the cluster serves no resource 'deploymnets'; did you mean deployments"),
        ("Secrts", "the cluster serves no resource 'Secrts'; did you mean secrets"),
        (
            "deployments.aps",
            "the cluster serves no resource 'deployments.aps'; did you mean deployment",
        ),
        ("zebra", "the cluster serves no resource 'zebra'"),
        ("*.zoo", "the pattern '*.zoo' matches no resource that the cluster serves"),
        ("bindings", "the resource 'bindings' cannot be backed up"),
    ],
)
def test_a_name_that_selects_nothing_is_reported_with_near_matches(name: str, text: str) -> None:
    (found,) = unserved_names(["pods", name, name], DISCOVERY)

    assert found.name == name
    assert found.text.startswith(text)
    assert found.is_pattern == name.startswith("*")


def test_groups_that_could_not_be_discovered_are_named_as_a_possible_reason() -> None:
    groups = {
        "kind": "APIGroupList",
        "groups": [{"name": "metrics.k8s.io", "versions": [{"version": "v1"}]}],
    }
    discovery = documented_discovery([groups, served("v1", resource("pods", "Pod"))])

    (found,) = unserved_names(["podmetrics"], discovery)

    assert "not all groups could be discovered: Failed to discover group: metrics.k8s.io/v1" in found.text


def test_unlike_names_are_not_suggested() -> None:
    assert near_names("zebra", ["pods", "nodes"]) == []
