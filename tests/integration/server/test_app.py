"""A server put together on a real API server: its checks, and the parts it leaves out."""

import asyncio
from pathlib import Path

import pytest

from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import velero
from pinnace.runtime.manager import ManagerPhase
from pinnace.server.app import Assembly
from pinnace.server.checks import StartupError, check_cluster
from pinnace.server.options import ServerOptions
from tests.support.cluster.snapshot_crds import remove_snapshot_crds
from tests.support.waiting import eventually


@pytest.mark.spec("SRV-007")
async def test_a_cluster_with_everything_passes_the_checks(
    client: KubeClient, namespace: str, velero_crds: None
) -> None:
    discovery = await check_cluster(client, namespace, ())

    assert discovery.served("backups.velero.io", "v1") is not None


async def test_a_missing_namespace_fails_the_checks(client: KubeClient, velero_crds: None) -> None:
    with pytest.raises(StartupError, match='namespace "nowhere" not found'):
        await check_cluster(client, "nowhere", ())


@pytest.mark.found("E-F7")
@pytest.mark.spec("SRV-010")
async def test_a_feature_whose_kinds_are_missing_passes_the_checks_with_a_warning(
    client: KubeClient, namespace: str, velero_crds: None, caplog: pytest.LogCaptureFixture
) -> None:
    await remove_snapshot_crds(client)

    await check_cluster(client, namespace, {"EnableCSI"})

    assert "the feature EnableCSI is on, but the cluster does not serve volumesnapshots" in caplog.text


@pytest.mark.spec("SRV-008")
async def test_controllers_that_are_left_out_do_nothing(
    client: KubeClient, namespace: str, velero_crds: None, tmp_path: Path
) -> None:
    disabled = frozenset({"backup", "backup-deletion", "download-request", "gc", "restore"})
    options = ServerOptions(
        namespace=namespace,
        metrics_address="127.0.0.1:0",
        leader_election=False,
        disabled_controllers=disabled,
    )
    manager = Assembly(client, await Discovery.load(client), options, tmp_path).manager()
    for kind, plural in (("Backup", "backups"), ("ServerStatusRequest", "serverstatusrequests")):
        body = {"apiVersion": "velero.io/v1", "kind": kind, "metadata": {"name": "x"}}
        await client.create(velero(plural), body, namespace)
    stop = asyncio.Event()

    async def answered() -> bool:
        found = await client.get(velero("serverstatusrequests"), "x", namespace)
        return (found.get("status") or {}).get("phase") == "Processed"

    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(stop))
        await eventually(answered)
        assert manager.health.ready
        stop.set()

    assert manager.phase is ManagerPhase.STOPPED
    assert "status" not in await client.get(velero("backups"), "x", namespace)
