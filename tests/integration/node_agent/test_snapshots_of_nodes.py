"""Two real nodes, each with a driver and a csi-snapshotter of its own, as node-local storage has them.

A csi-snapshotter with `--node-deployment` sees only contents with the label of its node, and a volume of a
snapshot can be made only where the snapshot is.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.nodes.node import Node
from pinnace.api import labels
from pinnace.api.objects import JSONObject, text
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import (
    CONFIGMAPS,
    DAEMON_SETS,
    DATA_UPLOADS,
    DEPLOYMENTS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
)
from tests.support.cluster.csi_cluster import SPREAD, CSICluster
from tests.support.cluster.pods import busybox_pod, exec_in_pod
from tests.support.servers.sites import FINAL, running
from tests.support.volumes.node_stages import FILES, Stage
from tests.support.waiting import eventually

HOSTNAME = "kubernetes.io/hostname"
AVOID = [{"key": "avoid", "effect": "PreferNoSchedule"}]
OPTIONS = {"features": frozenset({"EnableCSI"}), "operation_poll_seconds": 1.0}
REFUSED = "1 node(s) didn't match Pod's node affinity/selector"

TIMES = "cd /{volume} && find . ! -path . '(' -type d -o -type l ')' -exec stat -c '%n %Y' {{}} + | sort"
"""Times of directories and links, which kopia itself does not bring back."""
KEY = "volume-key"
NO_IMAGE = "localhost/no-such-image:1"
FAST_CLONES = {"csi.vsphere.volume/fast-provisioning": "true"}
"""Annotations of claims whose volumes cannot be attached where their source is attached."""

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
@pytest.mark.found("S6", "S7", "S8", "S10")
@pytest.mark.spec("AFT-175")
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
    await check_nothing_is_left(stage, csi_storage)

    await check_fast_clones(stage, nodes[0])

    await set_image(stage, NO_IMAGE)
    await stage.begin_backup("no-image", snapshotMoveData=True)
    backup = await ended(stage, "backups", "no-image")
    assert backup["status"]["phase"] == "PartiallyFailed", backup["status"]
    uploads = await uploads_of(stage, "no-image")
    assert [text(each, "status", "phase") for each in uploads] == ["Failed"] * 2
    for upload in uploads:
        assert f'cannot start: ImagePullBackOff: Back-off pulling image "{NO_IMAGE}"' in text(
            upload, "status", "message"
        )


async def check_fast_clones(stage: Stage, source: Node) -> None:
    """The scheduler is told not to put the clone of an attached volume on its node.

    The clone can be used nowhere else with this driver, so its pod waits until the transfer is canceled. Both
    transfers share the copy of a Secret until then.
    """
    key = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": KEY}, "data": {"pass": "czNjcjN0"}}
    await stage.client.create(SECRETS, key, stage.app)
    annotated = {
        "backupPVC": {
            SPREAD.name: {"annotations": FAST_CLONES, "secretNames": [KEY]},
            SPREAD.late_class: {"secretNames": [KEY]},
        }
    }
    async with daemon_set(stage, annotated):
        await stage.begin_backup("clone", snapshotMoveData=True, includedResources=["persistentvolumeclaims"])
        pods: list[JSONObject] = []

        async def is_refused() -> bool:  # as long as the claim is not bound, the scheduler looks no further
            found = await stage.client.list_all(PODS, stage.site.namespace, label_selector=labels.DATA_UPLOAD)
            pods[:] = [pod for pod in found if REFUSED in told_of(pod)]
            return bool(pods)

        await eventually(is_refused)
        [pod] = pods
        [term] = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert {"key": HOSTNAME, "operator": "NotIn", "values": [source.name]} in term["matchExpressions"]
        await eventually(lambda: is_shared(stage, "clone"))
        for upload in await uploads_of(stage, "clone"):
            name = upload["metadata"]["name"]
            await stage.client.patch(DATA_UPLOADS, name, {"spec": {"cancel": True}}, stage.site.namespace)
        await ended(stage, "backups", "clone")
    assert await stage.client.list_all(SECRETS, stage.site.namespace, label_selector=labels.COPIED_FOR) == []


async def is_shared(stage: Stage, backup: str) -> bool:
    """Whether a copy of the Secret has both DataUploads of a backup as its owners."""
    uploads = await uploads_of(stage, backup)
    found = await stage.client.list_all(SECRETS, stage.site.namespace, label_selector=labels.COPIED_FOR)
    owners = {owner["uid"] for copy in found for owner in copy["metadata"]["ownerReferences"]}
    return len(uploads) == 2 and owners == {upload["metadata"]["uid"] for upload in uploads}


def told_of(pod: JSONObject) -> str:
    """Why the scheduler has no node for a pod; empty if it has, or has not looked."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return "".join(each["message"] for each in conditions if each.get("reason") == "Unschedulable")


@asynccontextmanager
async def daemon_set(stage: Stage, settings: JSONObject) -> AsyncIterator[None]:
    """A DaemonSet that says which settings the agents have; its pods stand for them."""
    client, namespace, marks = stage.client, stage.site.namespace, {"name": "node-agent"}
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    await client.create(CONFIGMAPS, {**head, "data": {"config.json": json.dumps(settings)}}, namespace)
    spec = busybox_pod("agent", restartPolicy="Always")["spec"]
    spec["containers"][0]["args"] = ["--node-agent-configmap=settings"]
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "node-agent"},
        "spec": {
            "selector": {"matchLabels": marks},
            "template": {"metadata": {"labels": marks}, "spec": spec},
        },
    }
    await client.create(DAEMON_SETS, body, namespace)

    async def are_ready() -> bool:
        found = await client.get(DAEMON_SETS, "node-agent", namespace)
        return bool((found.get("status") or {}).get("numberReady", 0) == len(stage.cluster.nodes))

    await eventually(are_ready)
    yield
    await client.delete(DAEMON_SETS, "node-agent", namespace)


async def uploads_of(stage: Stage, backup: str) -> list[JSONObject]:
    """The DataUploads of a backup."""
    found = await stage.client.list_all(DATA_UPLOADS, stage.site.namespace)
    return [each for each in found if each["metadata"]["name"].startswith(f"{backup}-")]


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


async def check_nothing_is_left(stage: Stage, storage: CSICluster) -> None:
    left: list[object] = []

    async def is_gone() -> bool:
        left[:] = [*storage.snapshots(), *await storage.contents(stage.app, stage.site.namespace)]
        return not left

    await eventually(is_gone, seen=left)


async def set_image(stage: Stage, image: str) -> None:
    """The image of the server, which the pods have that mount volumes."""
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "velero", "image": image}]}}}}
    await stage.client.patch(DEPLOYMENTS, "velero", patch, stage.site.namespace)
