"""A server is killed in the middle of a restore of volumes; the next one resumes it. (docs/adr/131)

Real processes, SIGKILL, pods, hooks, a CSI driver: what had been done is not done again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hack.cluster.nodes.images import BUSYBOX
from hack.cluster.proxy import FaultProxy
from pinnace.api import labels
from pinnace.api.objects import JSONObject, text
from pinnace.controllers.node.holding import ATTEMPTS_ANNOTATION
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    CONFIGMAPS,
    DATA_DOWNLOADS,
    PERSISTENT_VOLUME_CLAIMS,
    POD_VOLUME_RESTORES,
)
from tests.support.cluster.csi_cluster import CLASS, CSICluster
from tests.support.cluster.namespaces import delete_namespace
from tests.support.cluster.pods import busybox_pod, exec_in_pod
from tests.support.servers.lives import Lives
from tests.support.servers.nursery import Nursery, Order
from tests.support.servers.sites import FINAL, running
from tests.support.servers.write_gate import WriteGate
from tests.support.volumes.node_stages import Stage, volume_pod
from tests.support.waiting import eventually

CSI: dict[str, Any] = {"features": frozenset({"EnableCSI"}), "operation_poll_seconds": 1.0}
MOST_WRITES = 30
RAN = "echo ran >> /data/"


@asynccontextmanager
async def born(stage: Stage, url: str, *proxies: FaultProxy) -> AsyncIterator[Lives]:
    """Servers that resume what those before them left; none runs yet."""
    kubeconfig = stage.cluster.control_plane.write_kubeconfig(stage.folder / "kubeconfig", server=url)
    (stage.folder / "scratch").mkdir()
    order = Order(
        kubeconfig=str(kubeconfig),
        namespace=stage.site.namespace,
        scratch=str(stage.folder / "scratch"),
        log=str(stage.folder / "servers.log"),
        resume_restores=True,
    )
    with Nursery() as nursery:
        made = Lives(nursery, order, proxies)
        yield made
        await made.end()


@pytest.fixture
async def lives(quiet_stage: Stage) -> AsyncIterator[Lives]:
    """Servers at the API server itself: no gate lets commands in pods through."""
    async with born(quiet_stage, quiet_stage.cluster.control_plane.url) as made:
        yield made


@pytest.fixture
async def gated_lives(
    quiet_stage: Stage, fault_proxy: Callable[..., Awaitable[FaultProxy]]
) -> AsyncIterator[Lives]:
    """Servers that pass by gates, which run no commands in pods."""
    proxy = await fault_proxy(quiet_stage.cluster.control_plane)
    async with born(quiet_stage, proxy.url, proxy) as made:
        yield made


def hooks(stage: Stage, script: str = f"{RAN}exec") -> JSONObject:
    """The hooks of a restore: an init container and a command, which each leave a line in the volume."""
    init = {
        "name": "first",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", f"{RAN}init"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    run = {"container": "main", "command": ["/bin/sh", "-c", script], "execTimeout": "5m", "onError": "Fail"}
    posts = [{"init": {"initContainers": [init]}}, {"exec": run}]
    return {"resources": [{"name": "marks", "includedNamespaces": [stage.app], "postHooks": posts}]}


async def lines(stage: Stage, pod: str, name: str) -> list[str]:
    """The lines of a file in the volume of a pod; none without the file."""
    script = f"cat /data/{name} 2>/dev/null || true"
    return (await exec_in_pod(stage.client, stage.app, pod, "sh", "-c", script)).split()


async def restores_of_volumes(stage: Stage) -> dict[str, JSONObject]:
    """All PodVolumeRestores by the names of their pods."""
    found = await stage.client.list_all(POD_VOLUME_RESTORES, stage.site.namespace)
    assert len({each["spec"]["pod"]["name"] for each in found}) == len(found), "each volume is read once"
    return {each["spec"]["pod"]["name"]: each for each in found}


@pytest.mark.parametrize("uploader", ["restic", "kopia"])
async def test_volumes_are_read_and_hooks_are_run_once_though_the_server_is_killed(
    quiet_stage: Stage, lives: Lives, uploader: str
) -> None:
    """One pod is ready and has had its hooks, the volume of the other is being read."""
    stage = quiet_stage
    async with running(stage.client, stage.site.namespace, stage.folder, uploader=uploader):
        await stage.site.reached("backupstoragelocations", "default", "Available")
        for name in ("a", "b"):
            await stage.run_pod(volume_pod(name, "data"), "data")
            await stage.fill(name, f"echo content of {name} > /data/file")
        with stage.agent():
            backup = await stage.back_up()
            assert backup["status"]["phase"] == "Completed"
    saved = await stage.client.list_all(stage.kind("podvolumebackups"), stage.site.namespace)
    snapshots = {each["spec"]["pod"]["name"]: each["status"]["snapshotID"] for each in saved}
    await stage.delete_app()

    stage.hold(snapshots["b"])
    with stage.agent(None, "--restore-workers=2") as agent:
        lives.begin()
        await stage.begin_restore(hooks=hooks(stage))
        await stage.held()

        async def has_run() -> bool:
            try:
                await stage.pod("a")
                return await lines(stage, "a", "exec") == ["ran"]
            except NotFound:
                return False

        await eventually(has_run)
        before = await restores_of_volumes(stage)
        await lives.end()
        lives.begin()

        async def is_resumed() -> bool:
            restore = await stage.site.get("restores", "r")
            return labels.RESUMED in restore["metadata"].get("annotations", {})

        await eventually(is_resumed)
        stage.release()
        restore = await stage.site.reached("restores", "r")

        assert restore["status"]["phase"] == "Completed", (restore["status"], lives.log)
        assert not restore["status"].get("warnings"), restore["status"]
        assert restore["status"]["hookStatus"] == {"hooksAttempted": 2}
        after = await restores_of_volumes(stage)
        assert (before["a"]["status"]["phase"], before["b"]["status"]["phase"]) == ("Completed", "InProgress")
        for name in ("a", "b"):
            await stage.pod(name)
            assert after[name]["metadata"]["uid"] == before[name]["metadata"]["uid"]
            assert after[name]["status"]["phase"] == "Completed"
            assert after[name]["metadata"].get("annotations", {}).get(ATTEMPTS_ANNOTATION, "1") == "1"
            assert await lines(stage, name, "file") == ["content", "of", name]
            assert await lines(stage, name, "init") == ["ran"]
            assert await lines(stage, name, "exec") == ["ran"]
        assert after["a"]["status"] == before["a"]["status"]
        assert agent.log.read_text().count("Traceback") == 0


async def test_a_hook_that_ran_when_the_server_was_killed_is_not_run_again_and_is_an_error(
    quiet_stage: Stage, lives: Lives
) -> None:
    stage = quiet_stage
    async with running(stage.client, stage.site.namespace, stage.folder):
        await stage.site.reached("backupstoragelocations", "default", "Available")
        await stage.run_pod(volume_pod("a", "data"))
        await stage.back_up()
    await stage.delete_app()
    lives.begin()
    await stage.begin_restore(hooks=hooks(stage, f"{RAN}exec; while [ ! -e /data/go ]; do sleep 0.1; done"))

    async def is_running() -> bool:
        try:
            await stage.pod("a")
            return await lines(stage, "a", "exec") == ["ran"]
        except NotFound:
            return False

    await eventually(is_running)
    await lives.end()
    lives.begin()
    restore = await stage.site.reached("restores", "r")

    assert (restore["status"]["phase"], restore["status"]["errors"]) == ("PartiallyFailed", 1), restore[
        "status"
    ]
    assert restore["metadata"]["annotations"][labels.RESUMED] == "1"
    assert await lines(stage, "a", "exec") == ["ran"]
    assert await lines(stage, "a", "init") == ["ran"]
    await stage.fill("a", "touch /data/go")


def new_claim(name: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }


async def run_with_claims(stage: Stage, *names: str) -> None:
    """For each name a pod and a claim with a file."""
    for name in names:
        await stage.client.create(PERSISTENT_VOLUME_CLAIMS, new_claim(name), stage.app)
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        await stage.run_pod(busybox_pod(name, mounts={"data": "/data"}, volumes=volumes))
        await stage.fill(name, f"echo content of {name} > /data/file; sync")


@pytest.mark.usefixtures("csi_storage")
async def test_moved_data_is_read_once_though_the_server_is_killed(quiet_stage: Stage, lives: Lives) -> None:
    stage = quiet_stage
    async with running(stage.client, stage.site.namespace, stage.folder, **CSI):
        await stage.site.reached("backupstoragelocations", "default", "Available")
        await run_with_claims(stage, "a", "b")
        with stage.agent():
            await stage.begin_backup(snapshotMoveData=True)
            backup = await stage.site.reached("backups", "b", *FINAL)
            assert backup["status"]["phase"] == "Completed", backup["status"]
    uploads = await stage.client.list_all(stage.kind("datauploads"), stage.site.namespace)
    snapshots = {each["spec"]["sourcePVC"]: each["status"]["snapshotID"] for each in uploads}
    await stage.delete_app()

    lives.add_features("EnableCSI")
    stage.hold(snapshots["b"])
    # Both at once, as an agent that reads one volume at a time may begin with the one that is held.
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    body = {**head, "data": {"config.json": '{"loadConcurrency": {"globalConfig": 2}}'}}
    await stage.client.create(CONFIGMAPS, body, stage.site.namespace)
    with stage.agent(None, "--node-agent-configmap=settings"):
        lives.begin()
        await stage.begin_restore()
        await stage.held()
        before = await downloads_of(stage)

        async def has_read_one() -> bool:
            before.update(await downloads_of(stage))
            return text(before.get("a"), "status", "phase") == "Completed"

        await eventually(has_read_one)
        await lives.end()
        lives.begin()
        stage.release()
        restore = await stage.site.reached("restores", "r", *FINAL)

        assert restore["status"]["phase"] == "Completed", (restore["status"], lives.log)
        after = await downloads_of(stage)
        assert {name: each["metadata"]["uid"] for name, each in after.items()} == {
            name: each["metadata"]["uid"] for name, each in before.items()
        }
        for name in ("a", "b"):
            await stage.pod(name)
            assert await lines(stage, name, "file") == ["content", "of", name]


async def downloads_of(stage: Stage) -> dict[str, JSONObject]:
    """The DataDownloads by the names of their claims."""
    found = await stage.client.list_all(DATA_DOWNLOADS, stage.site.namespace)
    assert len({each["spec"]["targetVolume"]["pvc"] for each in found}) == len(found), "each is read once"
    return {each["spec"]["targetVolume"]["pvc"]: each for each in found}


async def killed_at_every_write(stage: Stage, lives: Lives, kinds: str) -> int:
    """Restore the pod `a` into copies of its namespace, each with a server that is killed one write later.

    Args:
        kinds: the plurals whose writes are counted, separated by `|`.

    Returns:
        The number of writes of a server that nobody killed.
    """
    for number in range(MOST_WRITES):
        copy = f"{stage.app}-{number}"
        gate = WriteGate(number, rf"/({kinds})(/|\?|$)")
        lives.pass_by(gate)
        lives.begin()
        await stage.begin_restore(f"r{number}", namespaceMapping={stage.app: copy})

        async def is_over(name: str = f"r{number}", gate: WriteGate = gate) -> bool:
            restore = await stage.site.get("restores", name)
            return gate.closed.is_set() or text(restore, "status", "phase") in FINAL

        await eventually(is_over)
        await lives.end()
        lives.begin()
        restore = await stage.site.reached("restores", f"r{number}", *FINAL)
        await lives.end()

        assert restore["status"]["phase"] == "Completed", (number, restore["status"], gate.passed, lives.log)
        assert not restore["status"].get("warnings"), (number, restore["status"], gate.passed)
        await stage.pod("a", namespace=copy)
        assert await exec_in_pod(stage.client, copy, "a", "cat", "/data/file") == "content of a\n"
        if not gate.closed.is_set():
            return number
        await delete_namespace(stage.client, copy)
        stage.namespaces.remove(copy)
    raise AssertionError("there are more writes than were tried")


async def test_volumes_come_from_csi_snapshots_though_the_server_is_killed_at_any_write(
    csi_storage: CSICluster, quiet_stage: Stage, gated_lives: Lives
) -> None:
    stage = quiet_stage
    async with running(stage.client, stage.site.namespace, stage.folder, **CSI):
        await stage.site.reached("backupstoragelocations", "default", "Available")
        await run_with_claims(stage, "a")
        backup = await stage.back_up()
        assert backup["status"]["phase"] == "Completed", backup["status"]
    gated_lives.add_features("EnableCSI")
    kinds = "volumesnapshots|volumesnapshotcontents|persistentvolumeclaims|persistentvolumes|pods"
    assert await killed_at_every_write(stage, gated_lives, kinds) >= 4
    assert len(csi_storage.snapshots()) == 1


async def test_pod_volumes_come_though_the_server_is_killed_at_any_write(
    quiet_stage: Stage, gated_lives: Lives
) -> None:
    stage = quiet_stage
    async with running(stage.client, stage.site.namespace, stage.folder, uploader="kopia"):
        await stage.site.reached("backupstoragelocations", "default", "Available")
        await stage.run_pod(volume_pod("a", "data"), "data")
        await stage.fill("a", "echo content of a > /data/file")
        with stage.agent():
            backup = await stage.back_up()
            assert backup["status"]["phase"] == "Completed"
    with stage.agent():
        writes = await killed_at_every_write(stage, gated_lives, "podvolumerestores|pods")
    assert writes >= 2
    found = await stage.client.list_all(POD_VOLUME_RESTORES, stage.site.namespace)
    assert len(found) == writes + 1, "each restore read the volume once"
