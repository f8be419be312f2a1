"""The project as it stands in the checkout, in a pod."""

from pathlib import Path

from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.nodes.images import add_busybox, image_from_tree
from hack.cluster.nodes.python_image import add_distribution, add_python, python_config
from pinnace import __version__
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import PODS
from tests.support.cluster.pods import busybox_pod, pod_log, wait_ended


async def test_project_runs_in_a_pod_as_an_unprivileged_user(
    node_cluster: NodeCluster, node_client: KubeClient, node_namespace: str, tmp_path: Path
) -> None:
    name = f"localhost/{node_namespace}:1"
    tree = tmp_path / "tree"
    add_busybox(tree)
    add_python(tree)
    add_distribution(tree, "pinnace")
    config = python_config("/usr/local/bin/pinnace", user="65534:65534")
    node_cluster.load(image_from_tree(tree, tmp_path / "image.tar", {name: config}))
    pod = busybox_pod("project")
    container = pod["spec"]["containers"][0]
    del container["command"]
    container |= {"image": name, "args": ["version", "--client-only"]}
    await node_client.create(PODS, pod, node_namespace)

    ended = await wait_ended(node_client, node_namespace, "project")

    log = await pod_log(node_client, node_namespace, "project")
    assert f"Version: v{__version__}" in log
    assert ended["status"]["phase"] == "Succeeded"
