"""Pod volumes of several nodes in one backup: `python -m bench pod-volumes`.

Twenty pods on two nodes, each with a volume. The floor is a backup of the pods of one node alone: what the
busiest node has to do, while the other works beside it. Each upload first waits a second, as for a distant
store: the nodes of this cluster share a processor, which real nodes do not.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench.figures import Figure, Rule, Series, Target, Unit
from bench.measure import SampleFailed
from hack.cluster import binaries
from hack.cluster.nodes.cluster import NodeCluster
from pinnace.api import labels
from pinnace.api.objects import text
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.resources import NAMESPACES, SECRETS
from pinnace.volumes.uploader.passwords import SECRET_KEY, SECRET_NAME
from tests.support.cluster.crds import ensure_crds
from tests.support.servers.sites import Site, running
from tests.support.volumes.node_stages import PASSWORD, Stage, volume_pod

TARGET: Final = Target(first=1.4, aim=1.2)
PODS: Final = 20
UPLOAD_SECONDS: Final = 1.0
APP, SERVER = "shop", "velero"
OURS, ALONE = "two nodes", "one node alone"

_SLOW = """#!/bin/sh
for word in "$@"; do
    [ "$word" = snapshot ] && is_snapshot=1
    [ "$word" = create ] && [ "$is_snapshot" ] && sleep {seconds}
done
exec {program} "$@"
"""

Say = Callable[[str], None]


def measure_pod_volumes(folder: Path, runs: int, say: Say) -> list[Figure]:
    """Run the scenario in a cluster of two nodes of its own."""
    folder.mkdir()
    cluster = NodeCluster(folder / "cluster", name="bench")
    try:
        cluster.start()
        cluster.add_node()
        samples = asyncio.run(_measure(cluster, folder, runs, say))
    finally:
        cluster.remove()
    ours, floor = (Series(name=name, values=samples[name]) for name in (OURS, ALONE))
    figure = Figure(
        name=f"pod volumes of {PODS} pods on two nodes",
        unit=Unit.SECONDS,
        rule=Rule.RATIO,
        ours=ours,
        floors=[floor],
        target=TARGET,
    )
    return [figure]


async def _measure(cluster: NodeCluster, folder: Path, runs: int, say: Say) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {OURS: [], ALONE: []}
    config = load_config(str(cluster.control_plane.kubeconfig))
    async with KubeClient(config) as client:
        stage = await _stage(client, cluster, folder)
        first, second = cluster.nodes
        async with running(client, SERVER, folder, uploader="kopia"):
            with stage.agent(first), stage.agent(second):
                await stage.site.reached("backupstoragelocations", "default", "Available")
                say(f"pod-volumes: starting {PODS} pods")
                await _add_pods(stage, [first.name, second.name])
                await _backup_seconds(stage, "warm-up")
                for number in range(runs):
                    selector = {"matchLabels": {"node": first.name}}
                    alone = await _backup_seconds(stage, f"alone-{number}", labelSelector=selector)
                    both = await _backup_seconds(stage, f"both-{number}")
                    samples[ALONE].append(alone)
                    samples[OURS].append(both)
                    say(f"pod-volumes {number + 1}/{runs}: one node {alone:.1f} s, two nodes {both:.1f} s")
    return samples


async def _stage(client: KubeClient, cluster: NodeCluster, folder: Path) -> Stage:
    await ensure_crds(client)
    for name in (APP, SERVER):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    metadata = {"name": SECRET_NAME, "namespace": SERVER}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await client.create(SECRETS, {**secret, "stringData": {SECRET_KEY: PASSWORD.decode()}}, SERVER)
    site = Site(client, SERVER, folder)
    await site.add_folder(default=True)
    programs = folder / "programs"
    programs.mkdir()
    kopia, real = programs / "kopia", binaries.locate(binaries.UPLOADER)["kopia"]
    kopia.write_text(_SLOW.format(seconds=UPLOAD_SECONDS, program=real))
    # The server of this process makes the repository.
    os.environ["PATH"] = f"{real.parent}{os.pathsep}{os.environ['PATH']}"
    kopia.chmod(0o755)
    restic = shutil.which("restic")
    if restic is not None:
        (programs / "restic").symlink_to(restic)
    return Stage(cluster, site, APP, folder)


async def _add_pods(stage: Stage, nodes: Sequence[str]) -> None:
    async def add(number: int) -> None:
        node = nodes[number % len(nodes)]
        pod = volume_pod(f"p-{number:02}", "data", nodeName=node)
        pod["metadata"]["labels"] = {"node": node}
        pod["metadata"]["annotations"] = {labels.VOLUMES_TO_BACKUP: "data"}
        await stage.run_pod(pod)
        await stage.fill(f"p-{number:02}", f"echo {number} > /data/file")

    for begin in range(0, PODS, 4):
        await asyncio.gather(*(add(number) for number in range(begin, min(begin + 4, PODS))))


async def _backup_seconds(stage: Stage, name: str, **spec: object) -> float:
    began = time.monotonic()
    backup = await stage.back_up(name, includedResources=["pods"], **spec)
    taken = time.monotonic() - began
    if backup["status"]["phase"] != "Completed":
        volumes = await stage.client.list_all(stage.kind("podvolumebackups"), SERVER)
        reasons = {text(volume, "status", "message") for volume in volumes} - {""}
        raise SampleFailed(f"backup {name} ended {backup['status']['phase']}: {'; '.join(reasons)}")
    return taken
