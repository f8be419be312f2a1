"""Install, back up, lose, restore, upgrade, uninstall: on a cluster that runs pods, from the image."""

import base64
import json
from pathlib import Path

import aiohttp
import pytest

from hack.cluster.nodes.cluster import NodeCluster
from pinnace.kube.resources import (
    DEPLOYMENTS,
    SECRETS,
)
from tests.e2e.deployment.application import Application
from tests.e2e.deployment.deployed import Deployed
from tests.support.cluster.deployments import is_confined, process_of

CAP_NET_RAW = 1 << 13


async def test_an_application_with_volumes_comes_back(
    deployed: Deployed, application: Application, node_cluster: NodeCluster, image: tuple[str, ...]
) -> None:
    """Install with only the rights that the server uses."""
    before = await application.content()
    assert "1234:5678" in before

    await deployed.install("--image", image[0], "--use-restic", "--minimal-rbac")
    await check_pods(deployed, node_cluster)
    await deployed.run("backup", "create", "b1", "--include-namespaces", application.namespace, "--wait")
    assert await deployed.phase("backup", "b1") == "Completed"
    await application.add_disk()  # for the claim of the trial: no provisioner makes one
    tried = await deployed.run("backup", "verify", "b1", "--restore", "--ready-timeout", "180s", "-o", "json")
    (found,) = json.loads(tried.out)
    results = {each["check"]: each["result"] for each in found["checks"]}
    assert results[f"Deployment {application.namespace}/shop"] == "ok", found
    assert "which a claim of the trial took" in tried.err
    assert await application.content() == before
    await application.lose()

    await deployed.run("restore", "create", "r1", "--from-backup", "b1", "--wait")

    assert await deployed.phase("restore", "r1") == "Completed"
    assert await application.content() == before
    # Nothing of ours stays except the files in the user's bucket.
    done = await deployed.run("uninstall", "--force", "--wait")
    assert done.lines[-1].startswith("Pinnace is uninstalled")
    assert await deployed.remains() == []
    assert await application.content() == before
    stored = deployed.bucket.server.directory / "buckets" / deployed.bucket.name
    assert (stored / "backups/b1/velero-backup.json").is_file()
    assert (stored / "kopia" / application.namespace / "kopia.repository").is_file()


async def check_pods(deployed: Deployed, cluster: NodeCluster) -> None:
    """Probes pass, nothing has crashed, and the processes may do no more than they need."""
    pods = await deployed.pods()
    assert len(pods) == 2
    for pod in pods:
        (status,) = pod["status"]["containerStatuses"]
        assert (status["ready"], status["restartCount"]) == (True, 0), await deployed.logs()
        async with aiohttp.ClientSession() as session:
            for page in ("healthz", "readyz", "metrics"):
                async with session.get(f"http://{pod['status']['podIP']}:8085/{page}") as response:
                    assert response.status == 200, (pod["metadata"]["name"], page)
    running = ("server --uploader-type=kopia", "node-agent server")
    server, agent = (process_of(cluster, words) for words in running)
    assert server["Uid"] == ["65532"] * 4
    assert agent["Uid"] == ["0"] * 4
    assert server["CapEff"] == ["0000000000000000"]
    assert int(agent["CapEff"][0], 16) & CAP_NET_RAW == 0
    for process in (server, agent):
        assert is_confined(process)
    # Idle, it takes less than it requests.
    assert int(server["VmRSS"][0]) < 128 * 1024


@pytest.mark.spec("CLI-041")
async def test_a_backup_of_the_old_version_is_restored_by_the_new(
    deployed: Deployed, application: Application, image: tuple[str, ...], tmp_path: Path
) -> None:
    """A second install changes nothing; with --apply it rolls, and keeps what is not its own."""
    old, new = image
    client, namespace = deployed.client, deployed.namespace
    before = await application.content()
    await deployed.install("--image", old, "--use-restic", "--features", "EnableAPIGroupVersions")
    await deployed.run("backup", "create", "b1", "--include-namespaces", application.namespace, "--wait")
    assert await deployed.phase("backup", "b1") == "Completed"
    change = {
        "metadata": {"annotations": {"mine": "kept"}},
        "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}},
    }
    changed = await client.patch(DEPLOYMENTS, "velero", change, namespace)

    second = await deployed.run("install", *deployed.location_flags, "--image", new)

    assert "Deployment/velero" in next(line for line in second.lines if line.startswith("Existed"))
    found = await client.get(DEPLOYMENTS, "velero", namespace)
    assert found["metadata"]["generation"] == changed["metadata"]["generation"]

    credentials = tmp_path / "rotated"
    credentials.write_text(deployed.bucket.server.credentials_file.read_text() + "\n")
    await deployed.install("--apply", "--image", new, "--use-restic", "--secret-file", str(credentials))

    for selector in ("deploy=velero", "name=node-agent"):
        pod = await deployed.settled(selector, image=new)
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    found = await client.get(DEPLOYMENTS, "velero", namespace)
    template = found["spec"]["template"]
    assert found["metadata"]["annotations"]["mine"] == "kept"
    assert template["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert template["spec"]["containers"][0]["args"] == ["server", "--uploader-type=kopia"]
    secret = await client.get(SECRETS, "cloud-credentials", namespace)
    assert base64.b64decode(secret["data"]["cloud"]) == credentials.read_bytes()
    await application.lose()
    await deployed.run("restore", "create", "r1", "--from-backup", "b1", "--wait")
    assert await deployed.phase("restore", "r1") == "Completed"
    assert await application.content() == before
