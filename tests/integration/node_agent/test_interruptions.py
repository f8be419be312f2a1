"""Agents killed or stopped, and PodVolumeBackups and pods deleted, in the middle of the work."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from hack.cluster.processes import ManagedProcess
from pinnace.api.objects import JSONObject
from pinnace.controllers.node.holding import ATTEMPTS_ANNOTATION
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import PODS
from tests.support.volumes.node_stages import Stage, volume_pod
from tests.support.waiting import eventually

SAVE = ("backup", "create")
"""The commands of restic and kopia that save."""


async def application(stage: Stage) -> str:
    """Run a pod with content; return the content."""
    await stage.run_pod(volume_pod("p", "data"), "data")
    await stage.fill("p", "echo one > /data/file")
    return await stage.content("p", "data")


async def ended(stage: Stage, plural: str) -> JSONObject:
    """The status of the only PodVolumeBackup or PodVolumeRestore, once it has ended."""
    status: JSONObject = {}

    async def check() -> bool:
        pod_volumes = await stage.pod_volumes(plural)
        status.clear()
        for pod_volume in pod_volumes.values():
            status.update(pod_volume.get("status") or {})
        return status.get("phase") in ("Completed", "Failed")

    await eventually(check)
    return status


async def begun_again(stage: Stage, plural: str) -> JSONObject:
    """The only PodVolumeBackup or PodVolumeRestore, once it has ended; agents have begun it twice."""
    await ended(stage, plural)
    [pod_volume] = (await stage.pod_volumes(plural)).values()
    assert pod_volume["metadata"]["annotations"][ATTEMPTS_ANNOTATION] == "2"
    return pod_volume


async def came_back(stage: Stage, before: str) -> None:
    """The backup has the content of the volume."""
    await stage.delete_app()
    restore = await stage.restore()
    assert restore["status"]["phase"] == "Completed"
    await stage.pod("p")
    assert await stage.content("p", "data") == before


@pytest.mark.parametrize("uploader", ["restic", "kopia"])
async def test_an_agent_killed_while_saving_is_succeeded_by_the_next_one(stage: Stage) -> None:
    before = await application(stage)
    stage.hold(*SAVE)
    with stage.agent() as agent:
        await stage.begin_backup()
        await stage.held()
        agent.stop(grace_seconds=0)
    stage.release()
    left = (await stage.pod_volumes("podvolumebackups"))["data"]["status"]
    with stage.agent():
        backup = await stage.site.reached("backups", "b")
        pod_volume = await begun_again(stage, "podvolumebackups")

        assert left["phase"] == "InProgress"
        assert backup["status"]["phase"] == pod_volume["status"]["phase"] == "Completed"
        assert "message" not in pod_volume["status"]
        await came_back(stage, before)


@pytest.mark.parametrize("uploader", ["restic", "kopia"])
async def test_a_snapshot_that_was_complete_when_its_agent_was_killed_does_not_stay(stage: Stage) -> None:
    """No backup would list it, and no deletion find it."""
    before = await application(stage)
    stage.hold_after(*SAVE)
    with stage.agent() as agent:
        await stage.begin_backup()
        await stage.held()
        agent.stop(grace_seconds=0)
    stage.release()
    [orphan] = await stage.snapshots()
    with stage.agent():
        backup = await stage.site.reached("backups", "b")
        pod_volume = await begun_again(stage, "podvolumebackups")

        assert backup["status"]["phase"] == pod_volume["status"]["phase"] == "Completed"
        [kept] = await stage.snapshots()
        assert kept != orphan
        assert kept.startswith(pod_volume["status"]["snapshotID"])
        await came_back(stage, before)


@pytest.mark.parametrize("uploader", ["restic", "kopia"])
async def test_an_agent_killed_while_restoring_is_succeeded_by_the_next_one(stage: Stage) -> None:
    before = await application(stage)
    with stage.agent():
        await stage.back_up()
    await stage.delete_app()
    stage.hold("restore")
    with stage.agent() as agent:
        await stage.begin_restore()
        await stage.held()
        agent.stop(grace_seconds=0)
    stage.release()
    pod = await stage.client.get(PODS, "p", stage.app)
    assert "running" in pod["status"]["initContainerStatuses"][0]["state"], "it has no data yet"
    with stage.agent():
        restore = await stage.site.reached("restores", "r")
        pod_volume = await begun_again(stage, "podvolumerestores")

        assert restore["status"]["phase"] == pod_volume["status"]["phase"] == "Completed"
        await stage.pod("p")
        assert await stage.content("p", "data") == before


async def test_a_pod_that_is_gone_when_the_next_agent_starts_fails_its_volumes(stage: Stage) -> None:
    await application(stage)
    stage.hold("backup")
    with stage.agent() as agent:
        await stage.begin_backup()
        await stage.held()
        agent.stop(grace_seconds=0)
    stage.release()
    await stage.delete_pod("p")
    with stage.agent():
        backup = await stage.site.reached("backups", "b")

    pod_volume = (await stage.pod_volumes("podvolumebackups"))["data"]["status"]
    assert (pod_volume["phase"], pod_volume["message"]) == ("Failed", 'error getting pod: pods "p" not found')
    assert backup["status"]["phase"] == "PartiallyFailed"


@pytest.mark.parametrize("uploader", ["kopia"])
async def test_a_pod_that_is_deleted_while_its_volume_is_saved_fails_it(stage: Stage) -> None:
    """The kubelet deletes the files of an emptyDir, and kopia saves what is left."""
    await application(stage)
    stage.hold_after(*SAVE)
    with stage.agent():
        await stage.begin_backup()
        await stage.held()
        await stage.delete_pod("p")
        stage.release()
        backup = await stage.site.reached("backups", "b")

    pod_volume = (await stage.pod_volumes("podvolumebackups"))["data"]["status"]
    assert (pod_volume["phase"], backup["status"]["phase"]) == ("Failed", "PartiallyFailed")
    assert await stage.snapshots() == []


async def test_an_agent_stopped_while_saving_is_succeeded_by_the_next_one(stage: Stage) -> None:
    """An orderly stop leaves no restic and no lock behind, and its message says what happens next."""
    before = await application(stage)
    stage.hold("backup")
    with stage.agent() as agent:
        await stage.begin_backup()
        await stage.held()
        os.killpg(agent.pid, signal.SIGTERM)
        pod_volume: JSONObject = {}

        async def is_told() -> bool:
            pod_volume.update((await stage.pod_volumes("podvolumebackups"))["data"]["status"])
            return "message" in pod_volume

        await eventually(is_told)
    stage.release()
    assert pod_volume["phase"] == "InProgress"
    assert pod_volume["message"].startswith(
        "the node agent was stopped before the podvolumebackup had ended; "
    )
    with stage.agent():
        backup = await stage.site.reached("backups", "b")

        assert backup["status"]["phase"] == "Completed"
        await came_back(stage, before)


async def test_a_deleted_pod_volume_backup_is_cancelled(stage: Stage) -> None:
    await application(stage)
    stage.hold("backup")
    with stage.agent() as agent:
        await stage.begin_backup()
        await stage.held()
        name = (await stage.pod_volumes("podvolumebackups"))["data"]["metadata"]["name"]
        await stage.client.delete(stage.kind("podvolumebackups"), name, stage.site.namespace)
        backup = await stage.site.reached("backups", "b")
        await said(agent, "it was deleted")
        stage.release()
        again = await stage.back_up("again")

    assert backup["status"]["phase"] == "PartiallyFailed"
    assert again["status"]["phase"] == "Completed"


async def test_a_pod_that_is_deleted_while_its_volume_is_filled_fails_it(stage: Stage) -> None:
    """The pod must not wait for restic, nor the restore for the pod."""
    await application(stage)
    with stage.agent():
        await stage.back_up()
        await stage.delete_app()
        stage.hold("restore")
        await stage.begin_restore()
        await stage.held()
        await stage.client.delete(PODS, "p", stage.app)
        restore = await stage.site.reached("restores", "r")

        await eventually(pod_is_gone(stage))
        pod_volume = (await stage.pod_volumes("podvolumerestores"))["data"]["status"]
    assert restore["status"]["phase"] == "PartiallyFailed"
    assert pod_volume["message"] == f"the pod {stage.app}/p was deleted before its volume was restored"


def pod_is_gone(stage: Stage) -> Callable[[], Any]:
    async def check() -> bool:
        try:
            await stage.client.get(PODS, "p", stage.app)
        except NotFound:
            return True
        return False

    return check


async def said(agent: ManagedProcess, text: str) -> None:
    async def check() -> bool:
        return text in agent.log.read_text()

    await eventually(check)


@pytest.mark.spec("PVL-045")
async def test_a_location_that_is_gone_fails_the_restore_of_a_volume(stage: Stage) -> None:
    await application(stage)
    with stage.agent():
        await stage.back_up()
        await stage.delete_app()
        stage.hold("restore")
        await stage.begin_restore()
        await stage.held()
        # The restic that runs has all that it needs; the next one has not.
        [pod_volume] = (await stage.pod_volumes("podvolumerestores")).values()
        copy = {key: pod_volume[key] for key in ("apiVersion", "kind", "spec")}
        copy["spec"] = {**copy["spec"], "backupStorageLocation": "gone"}
        metadata = {key: pod_volume["metadata"][key] for key in ("labels", "ownerReferences")}
        copy["metadata"] = {**metadata, "name": "second"}
        kind = stage.kind("podvolumerestores")
        await stage.client.create(kind, copy, stage.site.namespace)
        stage.release()
        await stage.site.reached("restores", "r")
        failed = await stage.site.reached("podvolumerestores", "second")

    assert failed["status"]["phase"] == "Failed"
    assert failed["status"]["message"] == (
        'error getting backup storage location: backupstoragelocations.velero.io "gone" not found'
    )
