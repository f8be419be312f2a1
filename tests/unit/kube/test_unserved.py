"""Names in filters that mean nothing in a cluster."""

import random
import time

import pytest

from pinnace.api.values.near import MOST_ADVISED, near_names
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


@pytest.mark.found("K-F3")
@pytest.mark.parametrize(
    "pattern", ["r{}", "persistentvolumeclaim{}", "persistentvolumeclaims{}.example.com", "*x{}*"]
)
def test_thousands_of_names_cost_no_time(pattern: str) -> None:
    kinds = [
        resource(f"persistentvolumeclaims{number}", f"Persistentvolumeclaim{number}") for number in range(500)
    ]
    discovery = documented_discovery([served("example.com/v1", *kinds)])
    names = [pattern.format(number) for number in range(1000, 3000)]
    began = time.process_time()
    found = unserved_names(names, discovery)
    assert time.process_time() - began < 5
    assert [each.name for each in found] == sorted(names)
    advised = [each for each in found if "did you mean" in each.text]
    assert len(advised) <= MOST_ADVISED


@pytest.mark.found("K-F3")
@pytest.mark.parametrize("letters", ["ab", "abc", "abcdefghij"])
def test_no_names_make_a_comparison_slow(letters: str) -> None:
    chance = random.Random(1)
    hostile = ["".join(chance.choices(letters, k=99)) for _ in range(5000)]
    began = time.process_time()
    near_names(hostile[0], hostile[1:])
    near_names("a" * 300_000, hostile)
    near_names("aba", ["ab" * 150_000] * 10)
    assert time.process_time() - began < 2
