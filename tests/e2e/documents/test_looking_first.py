"""The page about looking before a restore: its commands run on a shop that has changed since its backup."""

from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS, DEPLOYMENTS
from tests.e2e.documents.pages import Reader, blocks

PAGE = "docs/tasks/look-before-you-restore.md"


def deployment(image: str) -> JSONObject:
    labels = {"app": "storefront"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "storefront"}, "spec": spec}


@pytest.mark.cluster
async def test_the_commands_of_the_page_do_what_it_says(
    control_plane: ControlPlane, client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    prices: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}}
    await client.create(CONFIGMAPS, prices, namespace)
    image = "registry.example.com/shop/web"
    await client.create(DEPLOYMENTS, deployment(f"{image}:1.4"), namespace)
    # A command that names no namespace is about the whole backup, and the backup only about this one.
    own = {"include-namespaces shop": f"include-namespaces {namespace}", "-n shop": f"-n {namespace}"}
    reader = Reader(tmp_path, control_plane.kubeconfig, own)
    reader.run(
        ["export PINNACE_LOCATION=./backups", "pinnace backup create nightly --include-namespaces shop"]
    )
    await client.delete(CONFIGMAPS, "prices", namespace)
    container = {"name": "web", "image": f"{image}:1.5-rc1"}
    changed = {"spec": {"replicas": 0, "template": {"spec": {"containers": [container]}}}}
    await client.patch(DEPLOYMENTS, "storefront", changed, namespace)

    difference, restore, backup, listed, found, verified = map(reader.run, blocks(PAGE))

    assert "~ spec.replicas: 3 -> 0" in difference
    assert f"- configmaps/prices in {namespace}" in difference
    assert "already there, different, and left unchanged" in restore
    assert f"v1/ConfigMap {namespace}/prices" in restore
    assert "Backup tonight would hold" in backup
    assert "kind: Deployment" in listed
    assert f"{image}:1.4" in found
    assert "BAD" not in verified
