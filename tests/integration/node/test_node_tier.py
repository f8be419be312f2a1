"""Nodes of the development cluster, on which tests with running pods rely."""

import json
import os
from pathlib import Path

import aiohttp
import pytest

from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.nodes.images import ImageConfig, add_busybox, add_program, image_from_tree
from hack.cluster.stores.s3 import S3Server
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import APIStatusError
from pinnace.kube.resources import CONFIGMAPS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, SECRETS
from tests.support.cluster.pods import busybox_pod, exec_in_pod, pod_log, run_pod, wait_ended
from tests.support.waiting import eventually

SERVE_PAGE = "mkdir /www && echo page > /www/index.html && exec httpd -f -p 8080 -h /www"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
WHO_AM_I = f"""
wget -q -O - --no-check-certificate \\
    --header "Authorization: Bearer $(cat {ACCOUNT}/token)" --header "Content-Type: application/json" \\
    --post-data '{{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}}' \\
    "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/apis/authentication.k8s.io/v1/selfsubjectreviews"
"""


async def test_pod_runs_logs_and_ends(node_client: KubeClient, node_namespace: str) -> None:
    await node_client.create(PODS, busybox_pod("brief", "echo out; echo err >&2; exit 3"), node_namespace)

    pod = await wait_ended(node_client, node_namespace, "brief")

    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert sorted((await pod_log(node_client, node_namespace, "brief")).split()) == ["err", "out"]


@pytest.mark.parametrize("host_network", [False, True], ids=["pod-network", "host-network"])
async def test_a_pod_reaches_the_api_server_with_its_service_account(
    node_cluster: NodeCluster, node_client: KubeClient, node_namespace: str, host_network: bool
) -> None:
    await run_pod(node_client, node_namespace, busybox_pod("inside", hostNetwork=host_network))

    review = json.loads(await exec_in_pod(node_client, node_namespace, "inside", "sh", "-c", WHO_AM_I))
    authority = await exec_in_pod(node_client, node_namespace, "inside", "cat", f"{ACCOUNT}/ca.crt")

    user = review["status"]["userInfo"]["username"]
    assert user == f"system:serviceaccount:{node_namespace}:default"
    assert authority == node_cluster.control_plane.authority.certificate.read_text()


async def test_a_port_of_a_pod_is_forwarded(
    node_cluster: NodeCluster, node_client: KubeClient, node_namespace: str
) -> None:
    await run_pod(node_client, node_namespace, busybox_pod("web", SERVE_PAGE))
    plane = node_cluster.control_plane
    url = f"{plane.url}{PODS.path(node_namespace, 'web', 'portforward')}?ports=8080"

    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, ssl=plane.client_context(), protocols=["v4.channel.k8s.io"]) as socket,
    ):
        await socket.send_bytes(b"\0GET / HTTP/1.0\r\n\r\n")  # channel 0 is the data of the first port
        answer = b""
        while b"page" not in answer:
            message = await socket.receive_bytes(timeout=120)
            answer += message[1:] if message[:1] == b"\0" else b""

    assert b"200 OK" in answer


def volumes(claim: str) -> list[JSONObject]:
    return [
        {"name": "empty", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "secret", "secret": {"secretName": "password"}},
        {"name": "local", "persistentVolumeClaim": {"claimName": claim}},
        {"name": "host", "hostPath": {"path": "/var/lib/on-host", "type": "DirectoryOrCreate"}},
    ]


async def make_local_volume(cluster: NodeCluster, client: KubeClient, namespace: str, *, claim: str) -> str:
    """A local volume on the first node, and its claim; the name of the volume."""
    name = f"local-{namespace}"
    node = cluster.nodes[0]
    (node.directory / "lib" / name).mkdir()
    size = {"storage": "1Gi"}
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}
    spec = {
        "capacity": size,
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": f"/var/lib/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        "claimRef": {"namespace": namespace, "name": claim},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    await client.create(PERSISTENT_VOLUMES, volume)
    request = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": size},
        "storageClassName": "",
        "volumeName": name,
    }
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim}}
    await client.create(PERSISTENT_VOLUME_CLAIMS, {**document, "spec": request}, namespace)
    return name


async def test_volumes_are_under_the_kubelet_root(
    node_cluster: NodeCluster, node_client: KubeClient, node_namespace: str
) -> None:
    """For a program of this machine, and for a pod that mounts the folder, started before or after."""
    (node,) = node_cluster.nodes
    agent = busybox_pod(
        "agent",
        mounts={"pods": "/host_pods"},
        volumes=[{"name": "pods", "hostPath": {"path": "/var/lib/kubelet/pods"}}],
    )
    main = agent["spec"]["containers"][0]
    main["securityContext"] = {"privileged": True}
    main["volumeMounts"][0]["mountPropagation"] = "HostToContainer"
    await run_pod(node_client, node_namespace, agent)
    for resource, name, data in (
        (CONFIGMAPS, "settings", {"data": {"file": "content"}}),
        (SECRETS, "password", {"stringData": {"file": "content"}}),
    ):
        document = {"apiVersion": "v1", "kind": resource.kind, "metadata": {"name": name}, **data}
        await node_client.create(resource, document, node_namespace)
    local = await make_local_volume(node_cluster, node_client, node_namespace, claim="claim")
    workload = busybox_pod(
        "workload",
        "for v in empty memory local host; do echo content > /$v/file; done; exec sleep 3600",
        mounts={volume["name"]: f"/{volume['name']}" for volume in volumes("claim")},
        volumes=volumes("claim"),
        terminationGracePeriodSeconds=0,
    )

    pod = await run_pod(node_client, node_namespace, workload)

    folder = f"{pod['metadata']['uid']}/volumes/kubernetes.io~"
    for volume in ("empty-dir/empty", "empty-dir/memory", "configmap/settings", "secret/secret"):
        path = f"{folder}{volume}/file"
        assert (node.kubelet_root / "pods" / path).read_text().strip() == "content"
        seen = await exec_in_pod(node_client, node_namespace, "agent", "cat", f"/host_pods/{path}")
        assert seen.strip() == "content"
    path = f"{folder}local-volume/{local}/file"
    seen = await exec_in_pod(node_client, node_namespace, "agent", "cat", f"/host_pods/{path}")
    assert seen == "content\n"
    assert (node.directory / "lib" / local / "file").read_text() == "content\n"
    assert (node.directory / "lib/on-host/file").read_text() == "content\n"
    assert "on-host" not in os.listdir("/var/lib"), "the machine's own /var/lib is not the node's"


async def test_pods_reach_a_server_of_this_machine(
    node_cluster: NodeCluster, node_client: KubeClient, node_namespace: str, tmp_path: Path
) -> None:
    await run_pod(node_client, node_namespace, busybox_pod("client"))
    with S3Server(tmp_path / "s3", address=node_cluster.network.gateway) as s3:
        answer = await exec_in_pod(
            node_client, node_namespace, "client", "wget", "-q", "-O", "-", f"{s3.url}/healthz"
        )

    assert answer.strip() == "OK"


async def test_pods_of_two_nodes_reach_each_other(
    node_cluster: NodeCluster, node_client: KubeClient, node_namespace: str
) -> None:
    second = node_cluster.add_node()
    try:
        web = await run_pod(node_client, node_namespace, busybox_pod("web", SERVE_PAGE, nodeName=second.name))
        first = node_cluster.nodes[0]
        await run_pod(node_client, node_namespace, busybox_pod("client", nodeName=first.name))

        page = f"http://{web['status']['podIP']}:8080/"
        answer = await exec_in_pod(node_client, node_namespace, "client", "wget", "-q", "-O", "-", page)

        assert answer == "page\n"
        assert web["status"]["hostIP"] == second.address != first.address
    finally:
        node_cluster.remove_node(second)
        await node_client.delete(PODS, "web", node_namespace)
        await node_client.request("DELETE", f"/api/v1/nodes/{second.name}")


async def test_a_pod_runs_an_image_made_from_a_folder(
    node_cluster: NodeCluster, node_client: KubeClient, node_namespace: str, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    add_busybox(tree)
    add_program(tree, Path("/usr/bin/env"))  # not static: it needs its libraries and their loader
    (tree / "tmp/note").write_text("kept")
    name = f"localhost/{node_namespace}:1"
    config = ImageConfig(
        entrypoint=["/usr/bin/env"], environment={"PATH": "/bin", "COLOUR": "blue"}, user="nobody"
    )
    node_cluster.load(image_from_tree(tree, tmp_path / "image.tar", {name: config}))
    pod = busybox_pod("made")
    container = pod["spec"]["containers"][0]
    del container["command"]
    container |= {"image": name, "args": ["sh", "-c", "echo $COLOUR; id -u; cat /tmp/note"]}
    await node_client.create(PODS, pod, node_namespace)

    await wait_ended(node_client, node_namespace, "made")

    assert (await pod_log(node_client, node_namespace, "made")).split() == ["blue", "65534", "kept"]


async def test_kubelet_stops_and_comes_back_while_its_pods_go_on(
    node_cluster: NodeCluster, node_client: KubeClient, node_namespace: str
) -> None:
    node = node_cluster.nodes[0]
    before = await run_pod(node_client, node_namespace, busybox_pod("lasting"))
    node.stop_kubelet()
    with pytest.raises(APIStatusError, match="connection refused"):
        await pod_log(node_client, node_namespace, "lasting")

    node.join(node_cluster.control_plane)

    async def answers() -> bool:
        try:
            return await exec_in_pod(node_client, node_namespace, "lasting", "echo", "here") == "here\n"
        except APIStatusError:  # it is ready before it knows all its pods
            return False

    await eventually(answers)
    after = await node_client.get(PODS, "lasting", node_namespace)
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]


async def test_rebooted_node_runs_its_pods_again(
    node_cluster: NodeCluster, node_client: KubeClient, node_namespace: str
) -> None:
    node = node_cluster.add_node()
    try:
        pod = busybox_pod("lasting", nodeName=node.name, restartPolicy="Always")
        before = await run_pod(node_client, node_namespace, pod)

        node.stop()
        node.boot()
        node.join(node_cluster.control_plane)

        def container(pod: JSONObject) -> str:
            statuses = pod["status"]["containerStatuses"]
            return str(statuses[0]["containerID"]) if statuses[0]["ready"] else ""

        async def runs_again() -> bool:
            after = await node_client.get(PODS, "lasting", node_namespace)
            return container(after) not in ("", container(before))

        await eventually(runs_again)
        after = await node_client.get(PODS, "lasting", node_namespace)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["status"]["containerStatuses"][0]["restartCount"] > 0
    finally:
        node_cluster.remove_node(node)
        await node_client.delete(PODS, "lasting", node_namespace)
        await node_client.request("DELETE", f"/api/v1/nodes/{node.name}")
