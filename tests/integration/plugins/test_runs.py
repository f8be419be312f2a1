"""Backups through plugins, as a server makes them; and settings of plugins from a real cluster."""

import asyncio
import gzip
import os
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.meta import ObjectMeta
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup, BackupSpec, BackupStatus
from pinnace.backup.runner import execute_backup
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import CONFIGMAPS
from pinnace.plugins.calling import Deadlines
from pinnace.plugins.installed import PluginOptions, find_plugins
from pinnace.plugins.registry import ActionRegistry
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from tests.support.plugins.objects import config_map
from tests.support.plugins.programs import put_own, put_script
from tests.support.runs.context import run_context
from tests.unit.backup.fakes import read_members

EVERYTHING = "tests.support.everything_plugin"


async def back_up(
    client: KubeClient, namespace: str, tmp_path: Path, options: PluginOptions
) -> tuple[Backup, Path, str]:
    """Back up the config maps of a namespace; the finished Backup, its folder, its log."""
    plugins = await find_plugins(options)
    discovery = await Discovery.load(client)
    spec = BackupSpec(included_namespaces=[namespace], included_resources=["configmaps"])
    backup = Backup(
        metadata=ObjectMeta(name="b1", namespace="velero"),
        spec=spec,
        status=BackupStatus(phase=BackupPhase.IN_PROGRESS),
    )
    work, root = tmp_path / "work", tmp_path / "store"
    work.mkdir()
    async with (
        BackupStore(FilesystemStore(root, create=True), Layout(""), location="default") as store,
        plugins.operation(client=client, namespace=namespace) as operation,
    ):
        finished = await execute_backup(
            backup,
            run_context(store, client, discovery, work, plugins=operation),
            actions=ActionRegistry(backup_actions=operation.backup_actions).backup_actions,
        )
    folder = root / "backups" / "b1"
    return finished, folder, gzip.decompress((folder / "b1-logs.gz").read_bytes()).decode()


def options_for(way: str, tmp_path: Path, **kwargs: object) -> PluginOptions:
    if way == "in this process":
        return PluginOptions(modules=[EVERYTHING], **kwargs)  # type: ignore[arg-type]
    put_own(tmp_path / "plugins", module=EVERYTHING)
    return PluginOptions(modules=[], directory=tmp_path / "plugins", **kwargs)  # type: ignore[arg-type]


@pytest.fixture(params=["in this process", "own program"])
def way(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def environ(control_plane: ControlPlane, namespace: str) -> dict[str, str]:
    """The environment of a plugin's process, with the cluster's kubeconfig."""
    return {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "VELERO_NAMESPACE": namespace}


@pytest.mark.spec("PLG-025")
async def test_results_and_messages_of_plugins_are_in_the_backup(
    client: KubeClient, namespace: str, environ: dict[str, str], tmp_path: Path, way: str
) -> None:
    for name in ("change", "fail", "log", "nothing"):
        await client.create(CONFIGMAPS, config_map(name, name), namespace)

    finished, folder, log = await back_up(
        client, namespace, tmp_path, options_for(way, tmp_path, environ=environ)
    )

    members = read_members(folder / "b1.tar.gz")
    path = f"resources/configmaps/namespaces/{namespace}/{{}}.json"
    assert b'"backup":"b1"' in members[path.format("change")]
    assert path.format("nothing") in members
    assert path.format("fail") not in members
    assert finished.status.phase == BackupPhase.PARTIALLY_FAILED
    # One item that failed and one error that the plugin logged; one warning that it logged.
    assert finished.status.errors == 2
    assert finished.status.warnings == 1
    assert "plugin example.io/everything: " in log
    assert "it broke" in log
    assert 'level=warning msg="a warning"' in log
    assert 'level=error msg="an error"' in log
    assert "count=2" in log


async def test_a_crash_and_a_hang_cost_one_item_each(
    client: KubeClient, namespace: str, environ: dict[str, str], tmp_path: Path
) -> None:
    await client.create(CONFIGMAPS, config_map("a-crash", "crash"), namespace)
    await client.create(CONFIGMAPS, config_map("b-hang", "hang"), namespace)
    options = options_for("own program", tmp_path, environ=environ, deadlines=Deadlines(work=5.0))

    finished, folder, log = await back_up(client, namespace, tmp_path, options)

    assert finished.status.phase == BackupPhase.PARTIALLY_FAILED
    assert "exit code 3" in log
    names = {name.rpartition("/")[2] for name in read_members(folder / "b1.tar.gz")}
    assert not names & {"a-crash.json", "b-hang.json"}


async def test_a_program_that_is_gone_fails_the_backup_by_name(
    client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    options = options_for("own program", tmp_path)
    plugins = await find_plugins(options)
    put_script(tmp_path / "plugins", "own", "#!/bin/sh\nexit 7\n")
    async with plugins.operation() as operation:
        (action,) = operation.backup_actions
        with pytest.raises(Exception, match=r"plugin example\.io/everything: .*/plugins/own: .*exit code 7"):
            await action.applies_to()


@pytest.mark.parametrize("data", [{"label": "team"}, None], ids=["settings", "none"])
async def test_settings_come_from_a_labelled_config_map(
    client: KubeClient,
    namespace: str,
    environ: dict[str, str],
    tmp_path: Path,
    way: str,
    data: dict[str, str] | None,
) -> None:
    if data is not None:
        settings = config_map("any-name", data=data)
        labels = {"velero.io/plugin-config": "", "example.io/everything": "BackupItemAction"}
        settings["metadata"] = {"name": "any-name", "labels": labels}
        await client.create(CONFIGMAPS, settings, namespace)
    await client.create(CONFIGMAPS, config_map("change", "change"), namespace)

    finished, folder, log = await back_up(
        client, namespace, tmp_path, options_for(way, tmp_path, environ=environ)
    )

    assert finished.status.phase == BackupPhase.COMPLETED, log
    path = f"resources/configmaps/namespaces/{namespace}/change.json"
    member = await asyncio.to_thread(read_members, folder / "b1.tar.gz")
    assert (b'"team":"b1"' if data else b'"backup":"b1"') in member[path]
