"""CSI snapshots with real parts: kubelet, a CSI driver, the snapshot controller, pods with data."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.cluster.nodes.cluster import NodeCluster
from pinnace.csi.deletion import StoredSnapshot
from pinnace.csi.looking import look_up_csi
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SERVICE_ACCOUNTS
from tests.integration.snapshots.bench import make_bench
from tests.support.cluster.crds import ensure_crds
from tests.support.cluster.csi_cluster import CLASS, DRIVER, CSICluster, csi_cluster
from tests.support.cluster.namespaces import delete_namespace
from tests.support.cluster.pods import busybox_pod, exec_in_pod, run_pod, wait_ready
from tests.support.waiting import eventually

FILE = "/data/notes.txt"
OF_THE_USER = {
    "metadata": {"labels": {"tier": "gold"}},
    "spec": {"persistentVolumeReclaimPolicy": "Retain"},
}


@pytest.fixture
async def csi_storage(
    node_cluster: NodeCluster, node_client: KubeClient, tmp_path: Path
) -> AsyncIterator[CSICluster]:
    async with csi_cluster(node_cluster, node_client, tmp_path / "logs") as found:
        yield found


async def _volume(client: KubeClient, namespace: str) -> str:
    """The name of the persistent volume of the claim."""
    name: str = (await client.get(PERSISTENT_VOLUME_CLAIMS, "data", namespace))["spec"]["volumeName"]
    return name


async def _write(client: KubeClient, namespace: str, text: str) -> None:
    await exec_in_pod(client, namespace, "app", "sh", "-c", f"echo '{text}' > {FILE}; sync")


async def _read(client: KubeClient, namespace: str) -> str:
    return (await exec_in_pod(client, namespace, "app", "cat", FILE)).strip()


async def test_a_pod_gets_its_data_back_from_a_snapshot(
    csi_storage: CSICluster, node_client: KubeClient, node_namespace: str, tmp_path: Path
) -> None:
    client, home = node_client, f"{node_namespace}-app"
    await ensure_crds(client)
    bench = await make_bench(client, node_namespace, tmp_path)
    await _create_app(client, home)
    await _write(client, home, "as it was")

    await client.patch(PERSISTENT_VOLUMES, await _volume(client, home), OF_THE_USER)

    status = await bench.back_up("b1", includedNamespaces=[home])
    await _write(client, home, "written after the backup")

    assert (status["phase"], status.get("errors", 0)) == ("Completed", 0)
    assert len(csi_storage.snapshots()) == 1
    await eventually(lambda: _has_no_snapshots(csi_storage, home))
    await eventually(lambda: _has_no_contents(csi_storage, home, node_namespace))
    gone = StoredSnapshot(driver=DRIVER, handle="never-taken")
    looked = await look_up_csi(client, csi_storage.kinds, [gone], ask_in=node_namespace)
    assert looked.unknown == [f"{gone}: its driver cannot tell whether a snapshot exists"]
    await eventually(lambda: _has_no_contents(csi_storage, home, node_namespace))
    assert len(csi_storage.snapshots()) == 1
    await delete_namespace(client, home)
    assert len(csi_storage.snapshots()) == 1  # though the class says Delete

    status = await bench.restore("r1", "b1")

    assert status["phase"] == "Completed", await bench.results("r1")
    await wait_ready(client, home, "app")
    assert await _read(client, home) == "as it was"
    volume = await client.get(PERSISTENT_VOLUMES, await _volume(client, home))
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["metadata"]["labels"]["tier"] == "gold"
    claim = await client.get(PERSISTENT_VOLUME_CLAIMS, "data", home)
    assert claim["spec"]["dataSource"]["kind"] == "VolumeSnapshot"

    copy = f"{node_namespace}-copy"
    status = await bench.restore("r2", "b1", namespaceMapping={home: copy})

    assert status["phase"] == "Completed", await bench.results("r2")
    await wait_ready(client, copy, "app")
    await _write(client, copy, "changed in the copy")
    assert await _read(client, home) == "as it was"

    assert await bench.delete("d1", "b1") == []

    await eventually(lambda: _is_empty(csi_storage))
    assert await _read(client, home) == "as it was"
    await asyncio.gather(*(delete_namespace(client, namespace) for namespace in (home, copy)))


async def _create_app(client: KubeClient, namespace: str) -> None:
    """A namespace with a pod and a claim that a driver provides."""
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    )
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }
    await client.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = busybox_pod("app", mounts={"data": "/data"}, volumes=volumes, automountServiceAccountToken=False)
    await eventually(lambda: _takes_pods(client, namespace))
    await run_pod(client, namespace, pod)


async def _takes_pods(client: KubeClient, namespace: str) -> bool:
    try:
        await client.get(SERVICE_ACCOUNTS, "default", namespace)
    except NotFound:
        return False
    return True


async def _has_no_snapshots(storage: CSICluster, namespace: str) -> bool:
    """Deleted ones stay until the snapshot controller has taken its finalizers off."""
    return await storage.client.list_all(storage.kinds.snapshots, namespace) == []


async def _has_no_contents(storage: CSICluster, *namespaces: str) -> bool:
    return await storage.contents(*namespaces) == []


async def _is_empty(storage: CSICluster) -> bool:
    return storage.snapshots() == []
