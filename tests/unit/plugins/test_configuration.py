"""Settings of plugins."""

from typing import Any

import pytest

from pinnace.kube.errors import status_error
from pinnace.kube.resources import APIResource
from pinnace.plugins import PluginError, check_config_keys
from pinnace.plugins.configuration import ConfigReader
from pinnace.plugins.kinds import PluginId, PluginKind

RESTIC = PluginId(PluginKind.RESTORE_ITEM_ACTION, "velero.io/restic")


@pytest.mark.spec("PLG-019")
@pytest.mark.parametrize("config", [{}, {"foo": "x"}])
def test_known_keys(config: dict[str, str]) -> None:
    check_config_keys(config, ["foo"])


@pytest.mark.spec("PLG-019")
@pytest.mark.parametrize("config", [{"foo": "x", "boo": ""}, {"Foo": "x"}], ids=["unknown", "case"])
def test_unknown_keys(config: dict[str, str]) -> None:
    with pytest.raises(PluginError, match=r"config has invalid keys \[\w+\]; valid keys are \[foo\]"):
        check_config_keys(config, ["foo"])


@pytest.mark.spec("PLG-019")
def test_object_stores_are_given_keys_of_the_server() -> None:
    given = {"bucket": "b", "prefix": "", "caCert": "pem", "credentialsFile": "/f"}

    check_config_keys(given, object_store=True)
    with pytest.raises(PluginError, match=r"invalid keys \[bucket caCert credentialsFile prefix\]"):
        check_config_keys(given)


class Cluster:
    """Answers one list."""

    def __init__(self, *found: dict[str, Any], error: Exception | None = None) -> None:
        self.found = list(found)
        self.error = error
        self.asked: list[tuple[str, str | None, str]] = []

    async def list_all(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> list[dict[str, Any]]:
        self.asked.append((resource.name, namespace, label_selector))
        if self.error is not None:
            raise self.error
        return self.found


async def test_the_config_map_is_found_by_its_labels() -> None:
    cluster = Cluster({"metadata": {"name": "any"}, "data": {"image": "x"}})

    assert await ConfigReader(cluster, "velero").read(RESTIC) == {"image": "x"}
    selector = "velero.io/plugin-config,velero.io/restic=RestoreItemAction"
    assert cluster.asked == [("configmaps", "velero", selector)]


@pytest.mark.parametrize("cluster", [Cluster(), Cluster({"metadata": {"name": "empty"}}), None])
async def test_without_settings_there_are_the_defaults(cluster: Cluster | None) -> None:
    assert await ConfigReader(cluster, "velero").read(RESTIC) == {}


async def test_two_config_maps_are_an_error() -> None:
    cluster = Cluster({"metadata": {"name": "b"}}, {"metadata": {"name": "a"}})

    with pytest.raises(PluginError, match=r"more than one ConfigMap matching label selector .*: \[a b\]"):
        await ConfigReader(cluster, "velero").read(RESTIC)


async def test_a_refused_list_is_an_error() -> None:
    cluster = Cluster(error=status_error(403, {"message": "forbidden", "reason": "Forbidden"}))

    with pytest.raises(PluginError, match=r"error listing ConfigMaps of .*forbidden"):
        await ConfigReader(cluster, "velero").read(RESTIC)
