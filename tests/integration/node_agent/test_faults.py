"""Faults of a volume's restic: a store that is gone, a disk that is full."""

import asyncio
from pathlib import Path

from pinnace.api.objects import JSONObject
from tests.support.cluster.pods import busybox_pod
from tests.support.volumes.node_stages import Stage, volume_pod
from tests.support.waiting import eventually

MEBIBYTE = 1 << 20


async def test_a_store_that_goes_away_during_a_save_fails_the_volume(stage: Stage) -> None:
    """The backup says so, and the next one works as soon as the store is back."""
    await stage.run_pod(volume_pod("p", "data"), "data")
    await stage.fill("p", "echo one > /data/file")
    with stage.agent():
        await stage.back_up("first")
        repository = Path((await stage.pod_volume_of("podvolumebackups", "first"))["spec"]["repoIdentifier"])
        stage.hold("backup")
        await stage.begin_backup()
        await stage.held()
        away = repository.with_name("away")
        await asyncio.to_thread(repository.rename, away)
        stage.release()
        cut_off = await stage.site.reached("backups", "b")
        await asyncio.to_thread(away.rename, repository)
        again = await stage.back_up("again")

    pod_volume = (await stage.pod_volume_of("podvolumebackups", "b"))["status"]
    assert pod_volume["phase"] == "Failed"
    assert pod_volume["message"].startswith("error running restic backup, stderr=")
    assert cut_off["status"]["phase"] == "PartiallyFailed"
    assert again["status"]["phase"] == "Completed"


async def test_the_other_volumes_of_a_pod_come_back_when_one_was_not_saved(stage: Stage) -> None:
    """As with Velero 1.18: the pod stays in the backup. Its restore says which volume is empty."""
    await stage.run_pod(volume_pod("p", "kept", "lost"), "kept,lost")
    await stage.fill("p", "echo one > /kept/file; echo two > /lost/file")
    before = await stage.content("p", "kept")
    with stage.agent():
        stage.hold("backup")
        await stage.begin_backup()
        await eventually(lambda: exist(stage, "kept", "lost"))
        lost = (await stage.pod_volumes("podvolumebackups"))["lost"]["metadata"]["name"]
        kind = stage.kind("podvolumebackups")
        await stage.client.patch(kind, lost, {"spec": {"cancel": True}}, stage.site.namespace)
        await stage.held()
        stage.release()
        backup = await stage.site.reached("backups", "b")
        await stage.delete_app()
        restore = await stage.restore()
        await stage.pod("p")
        after = await stage.content("p", "kept")
        files = await stage.listing("p", "/lost")

    assert (backup["status"]["phase"], backup["status"]["errors"]) == ("PartiallyFailed", 1)
    assert (restore["status"]["phase"], restore["status"]["errors"]) == ("PartiallyFailed", 1)
    assert after == before
    assert files == []


async def exist(stage: Stage, *volumes: str) -> bool:
    return set(volumes) <= set(await stage.pod_volumes("podvolumebackups"))


async def test_a_full_disk_fails_a_volume_and_the_next_restore_succeeds(stage: Stage) -> None:
    """The pod does not start with half of its data; the pod of the next restore gets all of it."""
    in_memory = {"name": "data", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}
    pod = busybox_pod("p", mounts={"data": "/data"}, volumes=[in_memory])
    await stage.run_pod(pod, "data")
    await stage.fill("p", "head -c 5000000 /dev/urandom > /data/large")
    before = await stage.content("p", "data")
    with stage.agent():
        await stage.back_up()
        await stage.delete_app()
        stage.hold("restore")
        await stage.begin_restore()
        await stage.held()
        [waiting] = (await stage.pod_volumes("podvolumerestores")).values()
        await asyncio.to_thread(fill_up, stage, waiting)
        stage.release()
        full = await stage.site.reached("restores", "r")
        [pod_volume] = (await stage.pod_volumes("podvolumerestores")).values()

        assert full["status"]["phase"] == "PartiallyFailed"
        assert pod_volume["status"]["phase"] == "Failed"
        assert "no space left on device" in pod_volume["status"]["message"]
        await stage.delete_app()
        again = await stage.restore("again")
        assert again["status"]["phase"] == "Completed"
        await stage.pod("p")
        assert await stage.content("p", "data") == before


def fill_up(stage: Stage, pod_volume: JSONObject) -> None:
    """Fill the volume of a PodVolumeRestore, as another process might."""
    uid = pod_volume["spec"]["pod"]["uid"]
    volume = f"var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/data"
    (stage.cluster.nodes[0].root / volume / "other").write_bytes(bytes(4 * MEBIBYTE))
