"""What an agent reads before it starts."""

import json
from typing import Any

import pytest

from pinnace.kube.resources import CONFIGMAPS, NODES
from pinnace.server.checks import StartupError
from pinnace.server.node_agent import NodeAgentOptions, with_config_map
from tests.support.cluster.scripted_cluster import ScriptedCluster

OPTIONS = NodeAgentOptions(namespace="velero", node="n1", backup_workers=4, config_map="settings")


def cluster(**settings: Any) -> ScriptedCluster:
    api = ScriptedCluster()
    api.add(NODES, "n1", labels={"disk": "ssd"})
    api.add(CONFIGMAPS, "settings", data={"config.json": json.dumps(settings)})
    return api


async def test_load_concurrency_of_the_node_sets_the_concurrency() -> None:
    of_ssd = {"nodeSelector": {"matchLabels": {"disk": "ssd"}}, "number": 3}
    api = cluster(loadConcurrency={"globalConfig": 1, "perNodeConfig": [of_ssd]})

    assert (await with_config_map(api.client, OPTIONS)).concurrency == 3


async def test_settings_without_load_concurrency_leave_it_to_the_flags(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = cluster(podResources={"cpuRequest": "1"})

    assert await with_config_map(api.client, OPTIONS) == OPTIONS

    [record] = caplog.records
    assert record.getMessage().startswith("ConfigMap settings: podResources has no effect: ")


async def test_an_agent_whose_settings_do_not_exist_does_not_start() -> None:
    api = ScriptedCluster()

    with pytest.raises(StartupError, match="the ConfigMap velero/settings that --node-agent-configmap names"):
        await with_config_map(api.client, OPTIONS)


async def test_without_a_config_map_the_flags_are_unchanged() -> None:
    api = ScriptedCluster()
    options = NodeAgentOptions(namespace="velero", node="n1")

    assert await with_config_map(api.client, options) == options
    assert api.calls == []
