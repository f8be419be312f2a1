"""Pages about tasks: their commands run on an application, without a server and with one.

No pods run here, so `install --wait` would wait in vain: the server runs as a process.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.stores.s3 import Bucket
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists
from pinnace.kube.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, velero
from tests.e2e.documents.pages import Reader, blocks
from tests.e2e.server_process import ServerProcess

SERVER = "docs/tasks/run-a-server.md"
INSTALLING = (SERVER, "docs/tasks/deploy.md")
USING = tuple(
    f"docs/tasks/{name}.md"
    for name in (
        "schedules",
        "keep-backups",
        "command-line",
        "object-storage",
        "volume-snapshots",
        "cloud-disks",
    )
)


async def add_application(client: KubeClient, namespace: str) -> None:
    labels = {"app": "cart", "tier": "front"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    metadata = {"name": "web", "labels": labels}
    deployment: JSONObject = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": spec,
    }
    await client.create(DEPLOYMENTS, deployment, namespace)
    settings: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await client.create(CONFIGMAPS, settings, namespace)


@pytest.mark.cluster
@pytest.mark.parametrize("page", ["docs/tasks/choose-what-to-back-up.md", "docs/tasks/restore.md"])
async def test_the_commands_of_a_page_work_without_a_server(
    page: str, control_plane: ControlPlane, client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    await add_application(client, namespace)
    own = {
        "shop-*,billing": f"{namespace}*,{namespace}",
        "include-namespaces shop": f"include-namespaces {namespace}",
        "/shop/": f"/{namespace}/",
    }
    reader = Reader(tmp_path, control_plane.kubeconfig, own)
    reader.run(
        ["export PINNACE_LOCATION=./backups", "pinnace backup create nightly --include-namespaces shop"]
    )

    for block in blocks(page):
        reader.run(block)
    assert "web" in [each["metadata"]["name"] for each in await client.list_all(CONFIGMAPS, namespace)]


@pytest.mark.cluster
async def test_the_commands_of_the_page_about_moving_work_without_a_server(
    control_plane: ControlPlane,
    client: KubeClient,
    namespace: str,
    second_cluster: ControlPlane,
    second_client: KubeClient,
    tmp_path: Path,
) -> None:
    await add_application(client, namespace)
    own = {
        "--kubecontext old": f"--kubeconfig {control_plane.kubeconfig}",
        "--kubecontext new": f"--kubeconfig {second_cluster.kubeconfig}",
        "s3://bucket/move": "./move",
        "namespaces shop": f"namespaces {namespace}",
    }
    (commands,) = blocks("docs/guides/move.md")

    Reader(tmp_path, control_plane.kubeconfig, own).run(commands)

    moved = await second_client.get(CONFIGMAPS, "web", namespace)
    assert moved["metadata"]["labels"]["app"] == "cart"


@pytest.fixture
async def reader(
    second_cluster: ControlPlane, second_client: KubeClient, bucket: Bucket, tmp_path: Path
) -> AsyncIterator[Reader]:
    """A reader who has installed Pinnace as the page says, with a server that runs."""
    config = ",".join(f"{name}={value}" for name, value in bucket.location_config.items())
    parameters = config.replace(",", "&")
    own = {
        "s3://my-bucket/cluster-1?region=eu-central-1": f"s3://{bucket.name}/cluster-1?{parameters}",
        "--bucket my-bucket": f"--bucket {bucket.name}",
        "--backup-location-config region=eu-central-1": f"--backup-location-config {config}",
        "--config region=eu-central-1 --credential": f"--config {config} --credential",
        "/srv/backups": str(tmp_path / "backups"),
        "--use-node-agent --wait": "--use-node-agent",
        "--minimal-rbac --wait": "--minimal-rbac",
        "pinnace nonadmin": "pinnace -n shop nonadmin",
        "create b1": f"create {bucket.name}",  # several pages make a backup of this name
    }
    reader = Reader(tmp_path / "reader", second_cluster.kubeconfig, own)
    credentials = bucket.server.credentials_file
    (tmp_path / "reader" / "credentials").write_text(credentials.read_text())
    definitions = "pinnace install --non-admin --no-default-backup-location --no-secret"
    reader.run([f"{definitions} --use-volume-snapshots=false", *blocks(SERVER)[0]])
    try:
        shop: JSONObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await second_client.create(NAMESPACES, shop)
    except AlreadyExists:
        pass
    arguments = ("-n", "velero", "--leader-elect=false", "--features", "NonAdmin")
    environ = {"AWS_SHARED_CREDENTIALS_FILE": str(credentials)}
    process = ServerProcess(tmp_path, second_cluster.kubeconfig, *arguments, environ=environ)
    await process.start()
    try:
        await process.ready()
        yield reader
    finally:
        await process.kill()
        # Several of one provider would be a mistake in the backups of the next test.
        for location in await second_client.list_all(velero("volumesnapshotlocations"), "velero"):
            await second_client.delete(
                velero("volumesnapshotlocations"), location["metadata"]["name"], "velero"
            )


@pytest.mark.cluster
@pytest.mark.parametrize("page", [*INSTALLING, *USING])
async def test_the_commands_of_a_page_work_with_a_server(page: str, reader: Reader) -> None:
    found = blocks(page)

    assert found, f"{page} marks no block as runnable"
    for block in found:
        reader.run(block)


@pytest.mark.cluster
async def test_the_commands_for_tenants_work(reader: Reader) -> None:
    (commands,) = blocks("docs/tasks/self-service.md")

    printed = reader.run(commands)

    assert 'Request "nightly" submitted in namespace shop.' in printed
    assert 'Request "back" submitted in namespace shop.' in printed
