"""Backups of one cluster are restored in another one, with its own nodes, that shares only the bucket."""

import asyncio
import base64
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.image import build
from hack.cluster.nodes import relay
from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.processes import ManagedProcess
from pinnace.kube.resources import SECRETS
from pinnace.volumes.uploader.passwords import SECRET_KEY, SECRET_NAME
from tests.e2e.deployment.application import Application
from tests.e2e.deployment.deployed import Deployed
from tests.e2e.without_server.command import Pinnace
from tests.support.cluster.connect import Connect
from tests.support.cluster.deployments import TAGS
from tests.support.waiting import eventually


@pytest.fixture
async def elsewhere(
    deployed: Deployed, image: tuple[str, ...], connect: Connect, tmp_path: Path
) -> AsyncIterator[tuple[NodeCluster, Deployed]]:
    """Another cluster with a node, and the command to install there, with the same bucket."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    cluster, s3 = NodeCluster(folder / "cluster"), deployed.bucket.server
    with ExitStack() as stack:
        stack.callback(cluster.remove)
        await asyncio.to_thread(cluster.start)
        await asyncio.to_thread(cluster.load, build.cached(TAGS))
        # Its pods reach no address of the first cluster's network.
        here = (cluster.network.gateway, str(s3.port))
        argv = [sys.executable, relay.__file__, *here, s3.address, str(s3.port)]
        stack.callback(ManagedProcess("relay", argv, log=folder / "relay.log").stop)
        namespace = f"velero-{secrets.token_hex(4)}"
        command = Pinnace(
            folder,
            kubeconfig=cluster.control_plane.kubeconfig,
            location=None,
            secrets=deployed.command.secrets,
            environ={"VELERO_NAMESPACE": namespace},
        )
        client = await connect(cluster.control_plane)
        yield cluster, Deployed(command, client, namespace, deployed.bucket, url=f"http://{':'.join(here)}")


async def test_volumes_move_to_another_cluster(
    deployed: Deployed,
    application: Application,
    elsewhere: tuple[NodeCluster, Deployed],
    image: tuple[str, ...],
    tmp_path: Path,
) -> None:
    """The volumes are restored into another namespace too."""
    before = await application.content()
    await deployed.install("--image", image[0], "--use-restic", "--minimal-rbac")
    await deployed.run("backup", "create", "b1", "--include-namespaces", application.namespace, "--wait")
    assert await deployed.phase("backup", "b1") == "Completed"
    cluster, there = elsewhere
    moved = Application(cluster, there.client, f"{application.namespace}-moved")
    # Its claims ask for disks of the class that they had.
    await moved.add_disk(storage_class=application.namespace)

    found = await deployed.client.get(SECRETS, SECRET_NAME, deployed.namespace)
    password = tmp_path / "repository-password"
    password.write_bytes(base64.b64decode(found["data"][SECRET_KEY]))
    flags = ("--image", image[0], "--use-restic", "--minimal-rbac", "--repo-password-file", str(password))
    await there.install(*flags)

    async def known() -> bool:
        return "b1" in (await there.run("backup", "get")).out

    await eventually(known)
    mapping = f"{application.namespace}:{moved.namespace}"
    restore = ("restore", "create", "r1", "--from-backup", "b1", "--namespace-mappings", mapping, "--wait")
    await there.run(*restore)
    assert await there.phase("restore", "r1") == "Completed"
    assert await moved.content() == before
    assert await application.content() == before
