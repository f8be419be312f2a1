"""The backup engine together with the pod volume backupper: other tests have only one of them."""

import asyncio
from pathlib import Path

import pytest

from pinnace.backup.collaborators import BackupCollaborators
from pinnace.kube.resources import PODS
from pinnace.volumes.pods.pod_volume_backups import PodVolumeBackups
from tests.unit.backup.fakes import a_backup, run_backup, two_a_page
from tests.unit.volumes.pod_volumes import PodVolumeScene, a_pod, claimed, completed, silent


@pytest.mark.spec("BKP-068")
async def test_a_volume_without_its_claim_fails_the_pod_but_not_the_other_volumes(tmp_path: Path) -> None:
    backup = a_backup(default_volumes_to_restic=True, storage_location="default")
    pod = {"apiVersion": "v1", "kind": "Pod", **a_pod(claimed("one", "missing"), claimed("two", "there"))}
    cluster = two_a_page().put_all(PODS, pod).add_all(PODS, "shop/other")
    with PodVolumeScene(tmp_path) as scene:
        scene.cluster.add("persistentvolumeclaims", "there", "shop", spec={"volumeName": "pv"})
        scene.cluster.add("persistentvolumes", "pv", "", spec={"csi": {}})
        scene.answer = silent
        saver = PodVolumeBackups(scene.cluster.client, backup, scene.run())
        running = asyncio.create_task(
            run_backup(tmp_path, cluster, backup, collaborators=BackupCollaborators(pod_volumes=saver))
        )
        await scene.created.wait()
        (obj,) = scene.cluster.of("podvolumebackups")
        done, _ = await asyncio.wait((running,), timeout=0)
        assert not done, "the volume that can be saved is waited for"
        scene.outcomes.seen({**obj, "status": completed(obj)})
        outcome = await running

    assert obj["spec"]["volume"] == "two"
    assert [each["spec"]["volume"] for each in saver.pod_volume_backups] == ["two"]
    assert outcome.items == ["pods/shop/other"]
    assert outcome.errors == 1
    assert "error getting persistent volume claim for volume: " in outcome.log


@pytest.mark.found("V01")
async def test_a_claim_that_no_container_mounts_is_left_out_with_a_warning_that_names_it(
    tmp_path: Path,
) -> None:
    """Another pod that mounts the claim saves it."""
    backup = a_backup(default_volumes_to_restic=True, storage_location="default")
    mounts = [{"name": "used", "mountPath": "/used"}]
    first = a_pod(claimed("used", "one"), claimed("unused", "two"), name="first")
    first["spec"]["containers"] = [{"name": "main", "volumeMounts": mounts}]
    second = a_pod(claimed("used", "two"), name="second")
    second["spec"]["containers"] = [{"name": "main", "volumeMounts": mounts}]
    cluster = two_a_page()
    for pod in (first, second):
        cluster.put_all(PODS, {"apiVersion": "v1", "kind": "Pod", **pod})
    with PodVolumeScene(tmp_path) as scene:
        for claim in ("one", "two"):
            scene.cluster.add("persistentvolumeclaims", claim, "shop", spec={"volumeName": "pv"})
        scene.cluster.add("persistentvolumes", "pv", "", spec={"csi": {}})
        saver = PodVolumeBackups(scene.cluster.client, backup, scene.run())
        outcome = await run_backup(
            tmp_path, cluster, backup, collaborators=BackupCollaborators(pod_volumes=saver)
        )

    saved = {(each["spec"]["pod"]["name"], each["spec"]["volume"]) for each in saver.pod_volume_backups}
    assert saved == {("first", "used"), ("second", "used")}
    assert (outcome.errors, outcome.warnings) == (0, 1)
    assert "Volume unused is not saved from its files: no container of the pod mounts it" in outcome.log
