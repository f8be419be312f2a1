"""Settings of plugins."""

from collections.abc import Mapping
from typing import Any

import pytest

from pinnace.kube.errors import status_error
from pinnace.kube.resources import CONFIGMAPS
from pinnace.plugins import PluginError, Plugins, ResourceSelector, check_config_keys
from pinnace.plugins.configuration import ConfigReader
from pinnace.plugins.errors import SettingsUnreadable
from pinnace.plugins.guest.instances import Instances
from pinnace.plugins.kinds import PluginId, PluginKind
from tests.support.cluster.scripted_cluster import ScriptedCluster

RESTIC = PluginId(PluginKind.RESTORE_ITEM_ACTION, "velero.io/restic")


@pytest.mark.spec("PLG-019")
@pytest.mark.parametrize("config", [{}, {"foo": "x"}])
def test_known_keys_are_accepted(config: dict[str, str]) -> None:
    check_config_keys(config, ["foo"])


@pytest.mark.spec("PLG-019")
@pytest.mark.parametrize("config", [{"foo": "x", "boo": ""}, {"Foo": "x"}], ids=["unknown", "case"])
def test_unknown_keys_are_refused(config: dict[str, str]) -> None:
    with pytest.raises(PluginError, match=r"config has invalid keys \[\w+\]; valid keys are \[foo\]"):
        check_config_keys(config, ["foo"])


@pytest.mark.spec("PLG-019")
def test_object_stores_accept_the_keys_of_the_server() -> None:
    given = {"bucket": "b", "prefix": "", "caCert": "pem", "credentialsFile": "/f"}

    check_config_keys(given, object_store=True)
    with pytest.raises(PluginError, match=r"invalid keys \[bucket caCert credentialsFile prefix\]"):
        check_config_keys(given)


MARKS = {"velero.io/plugin-config": "", "velero.io/restic": "RestoreItemAction"}


def cluster_with(*names: str, **members: Any) -> ScriptedCluster:
    """A cluster with ConfigMaps of the plugin."""
    return ScriptedCluster().add_all(CONFIGMAPS, *names, labels=MARKS, **members)


async def test_the_config_map_is_found_by_its_labels() -> None:
    cluster = cluster_with("any", data={"image": "x"})
    cluster.add(CONFIGMAPS, "of-another", labels={"velero.io/plugin-config": ""}, data={"image": "y"})
    cluster.add(CONFIGMAPS, "elsewhere", "shop", labels=MARKS, data={"image": "z"})

    assert await ConfigReader(cluster, "velero").read(RESTIC) == {"image": "x"}


@pytest.mark.parametrize("cluster", [ScriptedCluster(), cluster_with("empty"), None])
async def test_without_settings_there_are_the_defaults(cluster: ScriptedCluster | None) -> None:
    assert await ConfigReader(cluster, "velero").read(RESTIC) == {}


async def test_two_config_maps_are_an_error() -> None:
    cluster = cluster_with("b", "a")

    with pytest.raises(PluginError, match=r"more than one ConfigMap matching label selector .*: \[a b\]"):
        await ConfigReader(cluster, "velero").read(RESTIC)


async def test_a_refused_list_is_an_error() -> None:
    cluster = cluster_with()
    cluster.refuse("list", "configmaps", status_error(403, {"message": "forbidden", "reason": "Forbidden"}))

    said = r"settings of plugin velero.io/restic .* namespace velero .*velero.io/plugin-config.*forbidden"
    with pytest.raises(SettingsUnreadable, match=said):
        await ConfigReader(cluster, "velero").read(RESTIC)


class Configured:
    """An action of a plugin's process that takes settings, and needs them or not to say what it wants."""

    name = "example.io/configured"

    def __init__(self) -> None:
        self.config: Mapping[str, str] | None = None

    async def configure(self, config: Mapping[str, str]) -> None:
        self.config = config

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=["pods"])

    async def execute(self, *_: object) -> None:
        """Do nothing."""


class NeedsSettings(Configured):
    async def applies_to(self) -> ResourceSelector:
        assert self.config is not None
        return await super().applies_to()


@pytest.mark.parametrize(
    ("kind", "member", "action", "asked"),
    [
        (PluginKind.BACKUP_ITEM_ACTION, "backup_item_actions", Configured, True),
        (PluginKind.RESTORE_ITEM_ACTION, "restore_item_actions", NeedsSettings, False),
        (PluginKind.DELETE_ITEM_ACTION, "delete_item_actions", Configured, False),
    ],
)
async def test_a_plugins_process_without_its_settings_fails_its_items_only(
    kind: PluginKind, member: str, action: type[Configured], asked: bool
) -> None:
    cluster = cluster_with()
    cluster.refuse("list", "configmaps", status_error(403, {"message": "forbidden", "reason": "Forbidden"}))
    members: dict[str, Any] = {member: [action]}
    plugins = Plugins(**members)
    instances = Instances(plugins, ConfigReader(cluster, "velero").read)

    if asked:
        assert (await instances.selector(kind, action.name)).included_resources == ["pods"]
    else:
        with pytest.raises(SettingsUnreadable):
            await instances.selector(kind, action.name)
    for _ in range(2):
        with pytest.raises(SettingsUnreadable, match="forbidden"):
            await instances.ready(kind, action.name)
    cluster.relent()
    await instances.selector(kind, action.name)
    assert (await instances.ready(kind, action.name)).config == {}


async def test_an_action_of_a_restarted_process_has_its_settings_before_its_first_item() -> None:
    configured: Any = Configured
    plugins = Plugins(restore_item_actions=[configured])
    marks = {"velero.io/plugin-config": "", Configured.name: "RestoreItemAction"}
    cluster = ScriptedCluster().add_all(CONFIGMAPS, "any", labels=marks, data={"a": "b"})
    read = ConfigReader(cluster, "velero").read
    instances = Instances(plugins, read)

    ready = await instances.ready(PluginKind.RESTORE_ITEM_ACTION, Configured.name)

    assert ready.config == {"a": "b"}
