"""Volumes of pods are saved and come back."""

import asyncio
from typing import Any

import pytest

from hack.cluster.nodes.node import Node
from pinnace.api import labels
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import DEPLOYMENTS, PERSISTENT_VOLUME_CLAIMS, PODS
from tests.support.cluster.pods import busybox_pod
from tests.support.volumes.node_stages import (
    FILES,
    IMAGE,
    Stage,
    add_helper_config,
    add_local_volume,
    volume_pod,
)
from tests.support.waiting import eventually


@pytest.mark.spec("PVL-036", "PVL-038", "PVL-042", "PVL-046")
@pytest.mark.parametrize("uploader", ["restic", "kopia"])
async def test_a_pod_comes_back_with_its_volumes(stage: Stage, uploader: str) -> None:
    pod = volume_pod("p", "data", "nothing", "cache")
    with stage.agent():
        await stage.run_pod(pod, "data,nothing")
        # As after an earlier restore.
        await stage.fill("p", FILES + "mkdir .velero; touch .velero/earlier; echo not saved > /cache/file")
        before = await stage.content("p", "data")

        backup = await stage.back_up()
        saved = await stage.pod_volumes("podvolumebackups")

        assert backup["status"]["phase"] == "Completed"
        assert sorted(saved) == ["data", "nothing"]
        data, nothing = saved["data"]["status"], saved["nothing"]["status"]
        assert {data["phase"], nothing["phase"]} == {"Completed"}
        assert data["path"].endswith("/volumes/kubernetes.io~empty-dir/data")
        assert data["progress"]["bytesDone"] == data["progress"]["totalBytes"] >= 3_000_000
        assert data["startTimestamp"] <= data["completionTimestamp"]
        if uploader == "restic":
            assert nothing["message"] == "volume was empty so no snapshot was taken"
            assert "snapshotID" not in nothing
        else:
            assert nothing["snapshotID"]
        assert {pod_volume["spec"].get("uploaderType", "restic") for pod_volume in saved.values()} == {
            uploader
        }

        await stage.delete_app()
        restore = await stage.restore()

        restored = await stage.pod("p")
        assert restore["status"]["phase"] == "Completed"
        assert await stage.content("p", "data") == before
        waiting = restored["spec"]["initContainers"][0]
        assert (waiting["name"], waiting["image"]) == ("restic-wait", IMAGE)
        pod_volumes = await stage.pod_volumes("podvolumerestores")
        assert pod_volumes["data"]["status"]["phase"] == "Completed"
        marks = await stage.listing("p", "/data/.velero")
        assert marks == [restore["metadata"]["uid"]]


@pytest.mark.spec("PVL-047")
async def test_a_deployment_with_a_claim_comes_back_with_its_volume(stage: Stage) -> None:
    """Its pods have other names each time; the claim gets another volume. The second backup has a parent."""
    client, app = stage.client, stage.app
    await add_local_volume(stage, f"old-{app}", claimRef={"namespace": app, "name": "claim"})
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    }
    await client.create(PERSISTENT_VOLUME_CLAIMS, claim, app)
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": "host", "hostPath": {"path": "/var/lib/on-host", "type": "DirectoryOrCreate"}},
    ]
    template = busybox_pod("x", mounts={"data": "/data"}, volumes=volumes, restartPolicy="Always")
    marks = {"app": "db"}
    template["metadata"] = {"labels": marks, "annotations": {labels.VOLUMES_TO_BACKUP: "data,host"}}
    spec = {"selector": {"matchLabels": marks}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "db"}, "spec": spec}
    await client.create(DEPLOYMENTS, body, app)
    with stage.agent() as agent:
        pod = await only_pod(client, app)
        await stage.pod(pod)
        await stage.fill(pod, FILES)
        before = await stage.content(pod, "data")
        first = await stage.back_up("b1")
        [pod_volume] = (await stage.pod_volumes("podvolumebackups")).values()
        second = await stage.back_up("b2")

        assert (first["status"]["phase"], second["status"]["phase"]) == ("Completed", "Completed")
        assert pod_volume["status"]["path"].endswith(f"/kubernetes.io~local-volume/old-{app}")
        assert pod_volume["metadata"]["annotations"][labels.PVC_NAME] == "claim"
        assert f"--parent={pod_volume['status']['snapshotID']}" in agent.log.read_text()
        await stage.delete_app()
        await add_local_volume(stage, f"new-{app}", claimRef={"namespace": app, "name": "claim"})
        restore = await stage.restore(backup="b2")

        assert restore["status"]["phase"] == "Completed"
        pod = await only_pod(client, app)
        await stage.pod(pod)
        assert await stage.content(pod, "data") == before
        node = stage.cluster.nodes[0]
        assert (node.directory / "lib" / f"new-{app}" / "one").read_text() == "one\n"


@pytest.mark.spec("AFT-151")
@pytest.mark.parametrize("uploader", ["restic", "kopia"])
async def test_data_comes_back_into_a_claim_that_exists_once_no_pod_uses_it(
    stage: Stage, uploader: str
) -> None:
    client, app = stage.client, stage.app
    await add_local_volume(stage, f"kept-{app}", claimRef={"namespace": app, "name": "claim"})
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    }
    made = await client.create(PERSISTENT_VOLUME_CLAIMS, claim, app)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
    pod = busybox_pod("p", mounts={"data": "/data"}, volumes=volumes)
    in_place: dict[str, Any] = {
        "existingVolumeDataPolicy": "incremental",
        "uploaderConfig": {"deleteExtraFiles": True},
    }
    with stage.agent():
        await stage.run_pod(pod, "data")
        await stage.fill("p", FILES)
        before = await stage.content("p", "data")
        await stage.back_up()
        await stage.fill(
            "p", "cd /data; echo other > one; echo extra > extra; mkdir more; ln -s /etc more/link"
        )

        refused = await stage.restore("refused", **in_place)
        assert refused["status"]["phase"] == "PartiallyFailed"
        assert await stage.listing("p", "/data/more") == ["link"]
        await stage.delete_pod("p")
        restore = await stage.restore("again", **in_place)

        assert restore["status"]["phase"] == "Completed"
        await stage.pod("p")
        assert await stage.content("p", "data") == before
        kept = await client.get(PERSISTENT_VOLUME_CLAIMS, "claim", app)
        assert kept["metadata"]["uid"] == made["metadata"]["uid"]


async def only_pod(client: KubeClient, namespace: str) -> str:
    names: list[str] = []

    async def found() -> bool:
        names[:] = [pod["metadata"]["name"] for pod in await client.list_all(PODS, namespace)]
        return len(names) == 1

    await eventually(found)
    return names[0]


@pytest.fixture
async def second_node(stage: Stage) -> Any:
    node = await asyncio.to_thread(stage.cluster.add_node)
    yield node
    await asyncio.to_thread(stage.cluster.remove_node, node)
    await stage.client.request("DELETE", f"/api/v1/nodes/{node.name}")


@pytest.mark.found("E-F8")
@pytest.mark.parametrize("uploader", ["kopia"])
async def test_the_agents_of_two_nodes_save_volumes_at_the_same_time(
    stage: Stage, second_node: Node, uploader: str
) -> None:
    nodes = {"a": stage.cluster.nodes[0], "b": second_node}
    for name, node in nodes.items():
        await stage.run_pod(volume_pod(name, f"data-{name}", nodeName=node.name), f"data-{name}")
        await stage.fill(name, f"echo {name} > /data-{name}/file")
    before = {name: await stage.content(name, f"data-{name}") for name in nodes}
    stage.hold("create")

    async def both_are_saved() -> bool:
        found = await stage.pod_volumes("podvolumebackups")
        return [(obj.get("status") or {}).get("phase") for obj in found.values()] == ["InProgress"] * 2

    with stage.agent(nodes["a"]), stage.agent(nodes["b"]):
        await stage.begin_backup()
        await eventually(both_are_saved)
        await stage.held()
        stage.release()
        backup = await stage.site.reached("backups", "b")
        assert backup["status"]["phase"] == "Completed"
        await stage.delete_app()
        restore = await stage.restore()

        assert restore["status"]["phase"] == "Completed"
        for name in nodes:
            await stage.pod(name)
            assert await stage.content(name, f"data-{name}") == before[name]


@pytest.mark.spec("PVL-010", "PVL-040", "PVL-063")
async def test_all_volumes_of_two_nodes_are_restored_into_another_namespace(
    stage: Stage, second_node: Node
) -> None:
    """Opt-out; a pod that runs nowhere is left alone; the helper's image is that of a ConfigMap."""
    first_node, copy = stage.cluster.nodes[0], f"{stage.app}-copy"
    await add_helper_config(stage, image=IMAGE, cpuLimit="0", cpuRequest="0", secCtxRunAsUser="65534")
    never = volume_pod("never", "data", nodeSelector={"no": "such-node"})
    await stage.client.create(PODS, never, stage.app)
    for name, node in (("a", first_node), ("b", second_node)):
        await stage.run_pod(volume_pod(name, "data", nodeName=node.name))
        await stage.fill(name, f"echo of {name} > /data/file")
    with stage.agent(first_node), stage.agent(second_node, "--restore-workers=2", "--backup-workers=2"):
        backup = await stage.back_up(defaultVolumesToRestic=True)
        pod_volumes = await stage.client.list_all(stage.kind("podvolumebackups"), stage.site.namespace)
        assert backup["status"]["phase"] == "Completed"
        assert backup["status"]["warnings"] >= 1
        nodes = {pod_volume["spec"]["pod"]["name"]: pod_volume["spec"]["node"] for pod_volume in pod_volumes}
        assert nodes == {"a": first_node.name, "b": second_node.name}

        restore = await stage.restore(namespaceMapping={stage.app: copy})

        assert restore["status"]["phase"] == "Completed"
        for name in ("a", "b"):
            pod = await stage.pod(name, namespace=copy)
            helper = pod["spec"]["initContainers"][0]
            assert helper["command"] == ["/velero-restic-restore-helper"]
            assert helper["securityContext"] == {"runAsUser": 65534}
            assert "limits" not in helper["resources"] or "cpu" not in helper["resources"]["limits"]
            assert await stage.content(name, "data", namespace=copy) == await stage.content(name, "data")
