"""Several agents of one node on a real API server, and the objects that each works on."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

from pinnace.api.objects import JSONObject
from pinnace.controllers.node.holding import AGENT_ANNOTATION, ATTEMPTS_ANNOTATION, NODE_ANNOTATION
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import PODS
from pinnace.server.node_agent import NodeAgent, NodeAgentOptions
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.interface import Saved, Source
from pinnace.volumes.uploader.progress import OnProgress
from pinnace.volumes.uploaders import Uploaders
from tests.support.servers.sites import Site
from tests.support.waiting import eventually

NODE = "no-such-node"
FORMER = "node-agent-former"


class Saver:
    """Saves nothing, and returns at once."""

    async def save(
        self, repository: Repository, source: Source, *, on_progress: OnProgress | None = None
    ) -> Saved:
        return Saved(snapshot="2fa3b4c5")

    async def forget_tagged(self, repository: Repository, tags: Mapping[str, str]) -> None:
        """Nothing was saved by the former agent."""


@asynccontextmanager
async def agent(site: Site, folder: Path) -> AsyncIterator[None]:
    """An agent of the node."""
    options = NodeAgentOptions(
        namespace=site.namespace, node=NODE, pods_directory=folder, metrics_address="127.0.0.1:0"
    )
    manager = NodeAgent(site.client, options, folder, uploaders=cast("Uploaders", Saver())).manager()
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(stop))
        yield
        stop.set()


async def add_pod(site: Site, name: str) -> JSONObject:
    """A pod that counts as running on the node."""
    spec = {
        "nodeName": NODE,
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "main"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await eventually(partial(_is_created, site, body))
    return await set_phase(site, name, "Running")


async def _is_created(site: Site, pod: JSONObject) -> bool:
    try:
        await site.client.create(PODS, pod, site.namespace)
    except Forbidden:
        return False  # the namespace has no default service account yet
    return True


async def set_phase(site: Site, pod: str, phase: str) -> JSONObject:
    status = {"status": {"phase": phase}}
    return await site.client.patch(PODS, pod, status, site.namespace, subresource="status")


async def test_the_work_of_an_agent_is_taken_up_when_its_pod_has_ended_and_not_before(
    site: Site, tmp_path: Path
) -> None:
    pod = await add_pod(site, "p")
    await add_pod(site, FORMER)
    reference = {
        "kind": "Pod",
        "namespace": site.namespace,
        "name": "p",
        "uid": pod["metadata"]["uid"],
    }
    (tmp_path / pod["metadata"]["uid"] / "volumes/kubernetes.io~empty-dir/data").mkdir(parents=True)
    spec = {
        "node": NODE,
        "pod": reference,
        "volume": "data",
        "backupStorageLocation": "default",
        "repoIdentifier": "r",
    }
    marks = {NODE_ANNOTATION: NODE, AGENT_ANNOTATION: f"{FORMER}/1", ATTEMPTS_ANNOTATION: "1"}
    begun = {"phase": "InProgress"}
    await site.create("podvolumebackups", "left", spec=spec, annotations=marks, status=begun)
    async with agent(site, tmp_path):
        await site.create("podvolumebackups", "later", spec=spec)
        await site.reached("podvolumebackups", "later", "Completed")
        kept = await site.get("podvolumebackups", "left")

        await set_phase(site, FORMER, "Failed")
        taken = await site.reached("podvolumebackups", "left", "Completed")

    assert kept["status"] == begun
    assert kept["metadata"]["annotations"] == marks
    assert taken["metadata"]["annotations"][ATTEMPTS_ANNOTATION] == "2"
