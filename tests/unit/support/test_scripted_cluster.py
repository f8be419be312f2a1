"""The scripted cluster against the tests that a real API server passes too."""

import pytest

from pinnace.api.definitions.crds import crd_manifests
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import NAMESPACES
from pinnace.nonadmin import manifests
from tests.support.cluster.api_conformance import APIConformance, Compact
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.cluster.server_rules import WITH_STATUS


class TestConformance(APIConformance):
    @pytest.fixture
    def cluster(self) -> ScriptedCluster:
        return ScriptedCluster()

    @pytest.fixture
    def client(self, cluster: ScriptedCluster) -> KubeClient:
        return cluster.client

    @pytest.fixture
    async def namespace(self, client: KubeClient) -> str:
        await client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}}
        )
        return "demo"

    @pytest.fixture
    def compact(self, cluster: ScriptedCluster) -> Compact:
        async def compact() -> None:
            cluster.compact()

        return compact


def test_our_kinds_have_the_status_that_their_definitions_say() -> None:
    for definition in (*crd_manifests(), *manifests.crds()):
        has_status = any("status" in each.get("subresources", {}) for each in definition["spec"]["versions"])
        plural = definition["spec"]["names"]["plural"]
        assert (plural in WITH_STATUS) == has_status, plural
