"""A server put together on a real API server: its checks, and the parts it leaves out."""

import asyncio
from pathlib import Path

import pytest

from pinnace.csi.snapshots import FEATURE
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import velero
from pinnace.runtime.manager import ManagerPhase
from pinnace.server.app import Assembly
from pinnace.server.checks import StartupError, check_cluster
from pinnace.server.options import ServerOptions
from tests.support.cluster.snapshot_crds import ensure_snapshot_crds, remove_snapshot_crds
from tests.support.servers.sites import Site, running
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


@pytest.mark.found("E-F7")
async def test_snapshots_that_are_served_since_the_start_are_known(
    client: KubeClient, namespace: str, velero_crds: None, tmp_path: Path
) -> None:
    await remove_snapshot_crds(client)
    site = Site(client, namespace, tmp_path)

    async def csi_actions(request: str) -> list[str]:
        await site.create("serverstatusrequests", request)
        status = (await site.reached("serverstatusrequests", request, "Processed"))["status"]
        return [each["name"] for each in status["plugins"] if "csi" in each["name"]]

    async with running(client, namespace, tmp_path, leader_election=True, features=frozenset({FEATURE})):
        assert await csi_actions("before") == []
        kinds = await ensure_snapshot_crds(client)
        assert "velero.io/csi-pvc-backupper" in await csi_actions("after")

        # What a dead server was about to move goes with the backup that nobody will finish.
        marks = {"velero.io/backup-name": "b1"}
        for kind, body in (
            (kinds.contents, {"metadata": {"name": namespace}, "spec": {"deletionPolicy": "Retain"}}),
            (kinds.snapshots, {"metadata": {"name": "s1", "labels": marks}, "spec": {}}),
        ):
            head = {"apiVersion": kind.api_version, "kind": kind.kind}
            await client.create(kind, {**head, **body}, namespace if kind.namespaced else None)
        bound = {"status": {"boundVolumeSnapshotContentName": namespace}}
        await client.patch(kinds.snapshots, "s1", bound, namespace, subresource="status")
        spec = {"storageLocation": "default", "snapshotMoveData": True}
        await site.create("backups", "b1", spec=spec, status={"phase": "InProgress"})
        await site.reached("backups", "b1", "Failed")

        async def both_are_gone() -> bool:
            snapshots = await client.list_all(kinds.snapshots, namespace)
            return not (snapshots or await client.list_all(kinds.contents))

        await eventually(both_are_gone)


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
    manager = Assembly(client, options, tmp_path).manager()
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
