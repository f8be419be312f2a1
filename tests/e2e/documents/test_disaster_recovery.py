"""The page about disaster recovery, with a cluster that is lost and one that takes its place.

No pods run here, so `install --wait` would wait in vain: the server that it installs runs as a process.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.stores.s3 import Bucket
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, velero
from tests.e2e.documents.pages import Reader, blocks
from tests.e2e.server_process import ServerProcess
from tests.support.cluster.connect import Connect
from tests.support.waiting import eventually

PAGE = "docs/guides/disaster-recovery.md"
BACKUP = "nightly-20260301010000"


@pytest.fixture
async def new_cluster(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    plane = ControlPlane(tmp_path / "new", name="recovered")
    plane.start()
    yield plane
    plane.remove()


async def add_application(client: KubeClient) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    await client.create(NAMESPACES, namespace)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}, "data": {"tea": "3"}}
    await client.create(CONFIGMAPS, config, "shop")


@pytest.mark.found("DOC1")
@pytest.mark.cluster
@pytest.mark.timeout(600)  # two control planes, and some twenty commands
async def test_a_cluster_comes_back_from_its_bucket(
    new_cluster: ControlPlane, bucket: Bucket, connect: Connect, tmp_path: Path
) -> None:
    old_cluster = ControlPlane(tmp_path / "old", name="lost")
    old_cluster.start()
    server = bucket.server
    config = "&".join(f"{name}={value}" for name, value in bucket.location_config.items())
    own = {
        "s3://bucket/prefix?region=eu-central-1": f"s3://{bucket.name}/prefix?{config}",
        "--bucket bucket": f"--bucket {bucket.name}",
        "--config region=eu-central-1": f"--config {config.replace('&', ',')}",
        "--use-node-agent --wait": "--use-node-agent",
    }
    before, looking, installing, restoring, after = blocks(PAGE)

    operator = Reader(tmp_path / "before", old_cluster.kubeconfig, own)
    (tmp_path / "before" / "credentials").write_text(server.credentials_file.read_text())
    install = "pinnace install --no-default-backup-location --no-secret --use-volume-snapshots=false"
    operator.run([install, *before])
    await add_application(await connect(old_cluster))
    exports = [line for line in looking if line.startswith("export ")]
    operator.run([*exports, f"pinnace backup create {BACKUP}"])
    old_cluster.remove()

    reader = Reader(tmp_path / "after", new_cluster.kubeconfig, own)
    (tmp_path / "after" / "password").write_text("of the repositories")
    (tmp_path / "after" / "credentials").write_text(server.credentials_file.read_text())
    reader.run(looking)
    *_, create_location = installing
    reader.run(installing[:-1])
    process = ServerProcess(tmp_path, new_cluster.kubeconfig, "-n", "velero", "--leader-elect=false")
    await process.start()
    try:
        await process.ready()
        reader.run([create_location])
        client = await connect(new_cluster)

        async def is_known() -> bool:
            found = await client.list_all(velero("backups"), "velero")
            return BACKUP in [backup["metadata"]["name"] for backup in found]

        await eventually(is_known)
        reader.run(restoring)
        # The server made it, not the command on its own: there is an object of it.
        assert (await client.get(velero("restores"), "recovery", "velero"))["status"]["phase"] == "Completed"
        restored = await client.get(CONFIGMAPS, "prices", "shop")
        assert restored["data"] == {"tea": "3"}
        assert "nightly" in reader.run(after)
        kept = await client.get(velero("backupstoragelocations"), "default", "velero")
        assert kept["spec"]["accessMode"] == "ReadWrite"
    finally:
        await process.kill()
