"""Install, back up, lose, restore, upgrade, uninstall: on a cluster that runs pods, from the image."""

import base64
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hack.cluster.node_cluster import NodeCluster
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    DEPLOYMENTS,
    SECRETS,
)
from tests.e2e.deployment.application import Application
from tests.e2e.deployment.deployed import Deployed

JSONObject = dict[str, Any]


@pytest.mark.parametrize("rights", [(), ("--minimal-rbac",)], ids=["cluster-admin", "minimal-rbac"])
async def test_an_application_with_volumes_comes_back(
    deployed: Deployed, application: Application, image: tuple[str, ...], rights: tuple[str, ...]
) -> None:
    before = await application.content()
    assert "1234:5678" in before

    await deployed.install("--image", image[0], "--use-restic", *rights)
    binding = await deployed.client.get(CLUSTER_ROLE_BINDINGS, f"velero-{deployed.namespace}")
    assert (binding["roleRef"]["name"] == "cluster-admin") == (not rights)

    await deployed.run("backup", "create", "b1", "--include-namespaces", application.namespace, "--wait")
    described = await deployed.run("backup", "describe", "b1", "--details")
    assert "Phase:  Completed" in described.out, described.out + await deployed.logs()
    assert "Completed:\n" in described.out
    await application.lose()

    await deployed.run("restore", "create", "r1", "--from-backup", "b1", "--wait")
    described = await deployed.run("restore", "describe", "r1", "--details")
    assert "Phase:" in described.out
    assert "Completed" in described.out, described.out + (await deployed.run("restore", "logs", "r1")).out
    assert await application.content() == before

    # Nothing of ours stays but what is in the user's bucket.
    done = await deployed.run("uninstall", "--force", "--wait")
    assert done.lines[-1].startswith("Velero uninstalled")
    assert await deployed.remains() == []
    assert await application.content() == before
    stored = deployed.bucket.server.directory / "buckets" / deployed.bucket.name
    assert (stored / "backups/b1/velero-backup.json").is_file()
    assert (stored / "restic" / application.namespace / "config").is_file()


async def test_pods_have_what_they_need_and_no_more(
    deployed: Deployed, node_cluster: NodeCluster, image: tuple[str, ...]
) -> None:
    await deployed.install("--image", image[0], "--use-restic")

    for pod in await deployed.pods():
        (status,) = pod["status"]["containerStatuses"]
        assert (status["ready"], status["restartCount"]) == (True, 0), await deployed.logs()
        address = pod["status"]["podIP"]
        async with aiohttp.ClientSession() as session:
            for page in ("healthz", "readyz", "metrics"):
                async with session.get(f"http://{address}:8085/{page}") as response:
                    assert response.status == 200, (pod["metadata"]["name"], page)
    server, agent = (process_of(node_cluster, words) for words in ("server", "restic server"))
    assert server["Uid"] == ["65532"] * 4
    assert agent["Uid"] == ["0"] * 4
    assert server["CapEff"] == ["0000000000000000"]
    for process in (server, agent):
        assert process["NoNewPrivs"] == ["1"]
        assert process["Seccomp"] == ["2"]
    # The limit is 512 MiB; idle, it takes a fraction of the 128 MiB that it requests.
    assert int(server["VmRSS"][0]) < 128 * 1024


def process_of(cluster: NodeCluster, words: str) -> dict[str, list[str]]:
    """What the kernel says of the process in the pods of this cluster that runs `pinnace <words>`."""
    parent = f"/{cluster.network.name}-"
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text().replace("\0", " ").strip()
            if command.endswith(f"bin/pinnace {words}") and parent in (folder / "cgroup").read_text():
                lines = (folder / "status").read_text().splitlines()
                return {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
        except OSError:
            continue  # it has ended meanwhile
    raise AssertionError(f"no pod runs pinnace {words}")


@pytest.mark.spec("CLI-041")
async def test_a_second_install_leaves_all_as_it_is_and_apply_moves_on(
    deployed: Deployed, image: tuple[str, ...], tmp_path: Path
) -> None:
    old, new = image
    client, namespace = deployed.client, deployed.namespace
    await deployed.install("--image", old, "--features", "EnableAPIGroupVersions", "--pod-annotations", "a=b")
    change = {
        "metadata": {"annotations": {"mine": "kept"}},
        "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}},
    }
    changed = await client.patch(DEPLOYMENTS, "velero", change, namespace)

    second = await deployed.install("--image", new)

    assert "Deployment/velero: already exists, proceeding" in second.lines
    found = await client.get(DEPLOYMENTS, "velero", namespace)
    assert found["metadata"]["generation"] == changed["metadata"]["generation"]

    credentials = tmp_path / "rotated"
    credentials.write_text(deployed.bucket.server.credentials_file.read_text() + "\n")
    await deployed.install("--apply", "--image", new, "--secret-file", str(credentials), "--use-restic")

    pod = await deployed.settled("deploy=velero", image=new)
    found = await client.get(DEPLOYMENTS, "velero", namespace)
    template = found["spec"]["template"]
    assert found["metadata"]["annotations"]["mine"] == "kept"
    assert template["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    # What an earlier install set, and this one does not, is gone.
    assert template["spec"]["containers"][0]["args"] == ["server"]
    assert "a" not in template["metadata"]["annotations"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    secret = await client.get(SECRETS, "cloud-credentials", namespace)
    assert base64.b64decode(secret["data"]["cloud"]) == credentials.read_bytes()
    assert len(await deployed.pods("name=restic")) == 1

    await deployed.run("backup", "create", "b1", "--include-namespaces", "default", "--wait")
    assert "Completed" in (await deployed.run("backup", "get", "b1")).out
