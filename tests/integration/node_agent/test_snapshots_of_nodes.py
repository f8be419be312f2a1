"""Two real nodes, each with a driver and a csi-snapshotter of its own, as node-local storage has them.

A csi-snapshotter with `--node-deployment` sees only contents with the label of its node, and a volume of a
snapshot can be made only where the snapshot is.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.nodes.node import Node
from pinnace.api.objects import JSONObject, text
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import DATA_UPLOADS, DEPLOYMENTS, NODES, PERSISTENT_VOLUME_CLAIMS
from tests.support.cluster.csi_cluster import SPREAD, CSICluster
from tests.support.cluster.pods import busybox_pod, exec_in_pod
from tests.support.servers.sites import FINAL, running
from tests.support.volumes.node_stages import FILES, Stage
from tests.support.waiting import eventually

HOSTNAME = "kubernetes.io/hostname"
AVOID = [{"key": "avoid", "effect": "PreferNoSchedule"}]
OPTIONS = {"features": frozenset({"EnableCSI"}), "operation_poll_seconds": 1.0}

TIMES = "cd /{volume} && find . ! -path . '(' -type d -o -type l ')' -exec stat -c '%n %Y' {{}} + | sort"
"""Times of directories and links, which kopia itself does not bring back."""
NO_IMAGE = "localhost/no-such-image:1"

pytestmark = pytest.mark.parametrize("csi_driver", [SPREAD], ids=["a driver on each node"])


@pytest.fixture
async def avoided(node_cluster: NodeCluster, node_client: KubeClient) -> AsyncIterator[Node]:
    """The node that has the volumes, and to which the scheduler prefers the other one."""
    first, second = node_cluster.nodes[0], node_cluster.add_node()
    await node_client.patch(NODES, first.name, {"spec": {"taints": AVOID}})
    yield first
    await node_client.patch(NODES, first.name, {"spec": {"taints": None}})
    node_cluster.remove_node(second)
    await node_client.request("DELETE", f"/api/v1/nodes/{second.name}")


@pytest.fixture
async def app(avoided: Node, csi_storage: CSICluster, quiet_stage: Stage) -> AsyncIterator[Stage]:
    """A server, and a pod with data in two volumes of the first node: one made at once, one with its pod."""
    stage = quiet_stage
    async with running(stage.client, stage.site.namespace, stage.folder, **OPTIONS):
        await stage.site.reached("backupstoragelocations", "default", "Available")
        for name, class_name in (("early", SPREAD.name), ("late", SPREAD.late_class)):
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Mi"}},
                "storageClassName": class_name,
            }
            head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
            await stage.client.create(PERSISTENT_VOLUME_CLAIMS, {**head, "spec": spec}, stage.app)
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("early", "late")]
        pod = busybox_pod(
            "p",
            mounts={"early": "/early", "late": "/late"},
            volumes=volumes,
            nodeSelector={HOSTNAME: avoided.name},
        )
        await stage.run_pod(pod)
        for name in ("early", "late"):
            await stage.fill("p", FILES.replace("/data", f"/{name}"))
        yield stage


@pytest.mark.timeout(900)  # two nodes that start, and three backups of which one waits for an image in vain
@pytest.mark.found("S6", "S7", "S10")
async def test_snapshots_that_each_node_takes_are_restored_moved_and_deleted(
    app: Stage, node_cluster: NodeCluster, csi_storage: CSICluster
) -> None:
    """The scheduler would put the pods that read the snapshots on the other node, where none can be read."""
    stage, nodes = app, node_cluster.nodes
    before = await contents_of(stage)

    backup = await stage.back_up("plain")
    assert (backup["status"]["phase"], backup["status"].get("errors", 0)) == ("Completed", 0), backup[
        "status"
    ]
    assert len(csi_storage.snapshots()) == 2
    await stage.delete_app()
    restore = await stage.restore("r-plain", backup="plain")
    assert restore["status"]["phase"] == "Completed", restore["status"]
    await stage.pod("p")
    assert await contents_of(stage) == before

    async with AsyncExitStack() as agents:
        for node in nodes:
            agents.enter_context(stage.agent(node))
        await stage.begin_backup("moved", snapshotMoveData=True)
        backup = await ended(stage, "backups", "moved")
        uploads = await stage.client.list_all(DATA_UPLOADS, stage.site.namespace)
        assert backup["status"]["phase"] == "Completed", (backup["status"], uploads)
        assert [text(each, "status", "node") for each in uploads] == [nodes[0].name] * 2
        await stage.delete_app()
        await stage.begin_restore("r-moved", backup="moved")
        restore = await ended(stage, "restores", "r-moved")
        assert restore["status"]["phase"] == "Completed", restore["status"]
        await stage.pod("p")
        assert await contents_of(stage) == before

    assert len(csi_storage.snapshots()) == 2
    await delete(stage, "plain")
    await eventually(lambda: has_nothing(stage, csi_storage))

    await set_image(stage, NO_IMAGE)
    await stage.begin_backup("no-image", snapshotMoveData=True)
    backup = await ended(stage, "backups", "no-image")
    assert backup["status"]["phase"] == "PartiallyFailed", backup["status"]
    uploads = [
        each
        for each in await stage.client.list_all(DATA_UPLOADS, stage.site.namespace)
        if each["metadata"]["name"].startswith("no-image-")
    ]
    assert [text(each, "status", "phase") for each in uploads] == ["Failed"] * 2
    for upload in uploads:
        assert f'cannot start: ImagePullBackOff: Back-off pulling image "{NO_IMAGE}"' in text(
            upload, "status", "message"
        )


async def ended(stage: Stage, plural: str, name: str) -> JSONObject:
    """The object in its final phase."""
    found: JSONObject = {}

    async def is_final() -> bool:
        found.update(await stage.site.get(plural, name))
        return (found.get("status") or {}).get("phase") in FINAL

    await eventually(is_final)
    return found


async def contents_of(stage: Stage) -> dict[str, str]:
    """Names, modes, owners, sums and times of what the pod has in its volumes."""
    found = {}
    for name in ("early", "late"):
        times = await exec_in_pod(stage.client, stage.app, "p", "sh", "-c", TIMES.format(volume=name))
        found[name] = await stage.content("p", name) + times
    return found


async def delete(stage: Stage, backup: str) -> None:
    found = await stage.site.get("backups", backup)
    marks = {"velero.io/backup-name": backup, "velero.io/backup-uid": found["metadata"]["uid"]}
    await stage.site.create("deletebackuprequests", backup, labels=marks, spec={"backupName": backup})
    await stage.site.gone("backups", backup)


async def has_nothing(stage: Stage, storage: CSICluster) -> bool:
    contents = await stage.client.list_all(storage.kinds.contents)
    return (storage.snapshots(), contents) == ([], [])


async def set_image(stage: Stage, image: str) -> None:
    """The image of the server, which the pods have that mount volumes."""
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "velero", "image": image}]}}}}
    await stage.client.patch(DEPLOYMENTS, "velero", patch, stage.site.namespace)
