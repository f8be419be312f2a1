"""The scripted API server against the tests that the real one passes too."""

import pytest

from pinnace.kube.client import KubeClient
from tests.support.cluster.api_conformance import APIConformance
from tests.support.cluster.scripted_api import ScriptedAPI


class TestConformance(APIConformance):
    @pytest.fixture
    def client(self) -> KubeClient:
        scripted: ScriptedAPI[tuple[str, str, str]] = ScriptedAPI()
        scripted.with_status = {"ingresses"}
        return scripted.client

    @pytest.fixture
    def namespace(self) -> str:
        return "demo"
