"""Hooks pause an application while three kinds of volumes are saved, on a real node."""

import secrets
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from hack.cluster.nodes.cluster import NodeCluster
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, PODS
from tests.e2e.deployment.deployed import Deployed
from tests.e2e.deployment.ledger import VOLUMES, Ledger
from tests.support.cluster.csi_cluster import CSICluster
from tests.support.waiting import eventually


@pytest.fixture
async def ledger(
    node_cluster: NodeCluster, node_client: KubeClient, csi_storage: CSICluster
) -> AsyncIterator[Ledger]:
    ledger = Ledger(node_cluster, node_client, f"ledger-{secrets.token_hex(4)}")
    await ledger.deploy()
    yield ledger
    with suppress(NotFound):
        await node_client.delete(NAMESPACES, ledger.namespace)
    await ledger.remove_disks()


@pytest.mark.spec("PVL-012", "PVL-065")
async def test_every_file_of_three_kinds_of_volumes_comes_back(
    deployed: Deployed, ledger: Ledger, image: tuple[str, ...]
) -> None:
    """The init container runs another image, by the name that Velero's has there."""
    before = await ledger.picture()
    assert len(before) >= 14 * len(VOLUMES)
    # kopia keeps neither extended attributes nor hard links, pipes and devices.
    await deployed.install("--image", image[0], "--use-restic", "--uploader-type", "restic", "--minimal-rbac")
    await name_helper_image(deployed, image[1])

    await deployed.run("backup", "create", "b1", "--include-namespaces", ledger.namespace, "--wait")

    assert await deployed.phase("backup", "b1") == "Completed"
    assert "all writers are still" in (await deployed.run("backup", "logs", "b1")).out
    entries = await ledger.entries()

    async def goes_on() -> bool:
        return await ledger.entries() > entries

    await eventually(goes_on)
    await ledger.lose()

    await deployed.run("restore", "create", "r1", "--from-backup", "b1", "--wait")

    assert await deployed.phase("restore", "r1") == "Completed"
    assert await ledger.picture() == before
    debit, credit = await ledger.found()
    assert debit == credit != ""
    pod = await deployed.client.get(PODS, "ledger", ledger.namespace)
    [helper] = pod["spec"]["initContainers"]
    assert (helper["image"], helper["command"]) == (image[1], ["/velero-restic-restore-helper"])


async def name_helper_image(deployed: Deployed, image: str) -> None:
    """As the documentation says it."""
    marks = {"velero.io/plugin-config": "", "velero.io/restic": "RestoreItemAction"}
    metadata = {"name": "restic-restore-action", "labels": marks}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"image": image}}
    await deployed.client.create(CONFIGMAPS, body, deployed.namespace)
