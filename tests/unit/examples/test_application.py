"""The example holds what it promises to."""

import collections
from typing import Any

import pytest

from examples.application import CATALOGUE_SIZE_BYTES, application, catalogue, namespaces
from examples.compare import Key

SHOP = application()


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [item for item in SHOP if item["kind"] == kind]


def test_it_is_large_and_has_many_kinds() -> None:
    kinds = {key.kind_and_group for key in map(Key.of, SHOP)}
    assert len(SHOP) >= 60
    assert len(kinds) >= 35
    assert len(namespaces(SHOP)) == 3


def test_every_object_is_one_of_its_own() -> None:
    counts = collections.Counter(map(Key.of, SHOP))
    assert [key for key, number in counts.items() if number > 1] == []


def test_namespaces_are_there_before_what_is_in_them() -> None:
    seen: set[str] = set()
    for item in SHOP:
        if item["kind"] == "Namespace":
            seen.add(item["metadata"]["name"])
        assert item["metadata"].get("namespace") in {None, *seen}


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_some_objects_are_immutable(kind: str) -> None:
    assert any(item.get("immutable") for item in of_kind(kind))


def test_services_are_of_every_type() -> None:
    assert {item["spec"].get("type", "ClusterIP") for item in of_kind("Service")} == {
        "ClusterIP",
        "NodePort",
        "LoadBalancer",
        "ExternalName",
    }
    assert any(item["spec"].get("clusterIP") == "None" for item in of_kind("Service"))
    assert any(port.get("nodePort") for item in of_kind("Service") for port in item["spec"].get("ports", []))


def test_secrets_are_of_many_types() -> None:
    assert len({item["type"] for item in of_kind("Secret")}) == 6


def test_definitions_have_both_scopes_and_several_versions() -> None:
    definitions = of_kind("CustomResourceDefinition")
    assert {item["spec"]["scope"] for item in definitions} == {"Namespaced", "Cluster"}
    assert max(len(item["spec"]["versions"]) for item in definitions) == 2
    assert {item["apiVersion"] for item in of_kind("Promotion")} == {
        "shop.example.com/v1",
        "shop.example.com/v1beta1",
    }


def test_one_role_is_aggregated() -> None:
    assert [item["metadata"]["name"] for item in of_kind("ClusterRole") if "aggregationRule" in item] == [
        "shop-operator"
    ]


def test_the_catalogue_is_the_same_every_time_and_large() -> None:
    assert catalogue() == catalogue()
    assert (
        CATALOGUE_SIZE_BYTES <= len(catalogue()["data"]["products.csv"].encode()) < CATALOGUE_SIZE_BYTES + 100
    )


def test_names_and_values_go_to_the_limits() -> None:
    names = [item["metadata"]["name"] for item in SHOP]
    assert max(map(len, names)) > 250
    assert any(not name.isascii() for name in names)
    assert any(":" in name for name in names)
    assert any(value == "" for item in SHOP for value in item["metadata"].get("labels", {}).values())
