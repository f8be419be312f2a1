"""Restored pods that no agent can fill: the reports to the user, and their time."""

import gzip
import json
from collections.abc import AsyncIterator

import pytest

from pinnace.api.labels import POD_VOLUME_TIMEOUT
from pinnace.kube.resources import NODES, PODS
from tests.support.volumes.node_stages import Stage, add_helper_config, volume_pod
from tests.support.waiting import eventually

TIMED_OUT = "timed out waiting for all PodVolumeRestores to complete: "


@pytest.fixture
async def unschedulable(stage: Stage) -> AsyncIterator[Stage]:
    """A backup of the pod `p`, whose namespace is gone, while no node takes pods."""
    await stage.run_pod(volume_pod("p", "data"), "data")
    await stage.fill("p", "echo one > /data/file")
    with stage.agent():
        await stage.back_up()
        await stage.delete_app()
        await cordon(stage, True)
        try:
            yield stage
        finally:
            await cordon(stage, False)


async def cordon(stage: Stage, cordoned: bool) -> None:
    """Make the nodes unschedulable, or schedulable again.

    A label that the pod selects does not work: the kubelet checks labels too, and refuses the pod if it gets
    the label later than the scheduler.
    """
    for node in stage.cluster.nodes:
        await stage.client.patch(NODES, node.name, {"spec": {"unschedulable": cordoned}})


def errors_of(stage: Stage, restore: str) -> list[str]:
    """The errors that `restore describe` shows."""
    path = stage.folder / "bucket-default/restores" / restore / f"restore-{restore}-results.gz"
    results = json.loads(gzip.decompress(path.read_bytes()))
    return [error for errors in results["errors"].values() for error in errors]


async def has_pod_volume(stage: Stage) -> bool:
    return bool(await stage.pod_volumes("podvolumerestores"))


async def test_an_unscheduled_pod_is_waited_for_and_reported(
    unschedulable: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """The pod may still be scheduled: then it gets its data."""
    stage = unschedulable

    async def told() -> bool:
        return any("waits for its volumes" in record.getMessage() for record in caplog.records)

    await stage.begin_restore()
    await eventually(told)
    await eventually(lambda: has_pod_volume(stage))  # the warning may come before
    assert (await stage.pod_volumes("podvolumerestores"))["data"].get("status", {}).get("phase", "") == ""
    await cordon(stage, False)

    restore = await stage.site.reached("restores", "r")

    assert restore["status"]["phase"] == "Completed"
    await stage.pod("p")
    assert "/file" in await stage.content("p", "data")


async def test_a_pod_that_is_deleted_unscheduled_ends_its_restore(unschedulable: Stage) -> None:
    """No agent has ever seen the pod."""
    stage = unschedulable
    await stage.begin_restore()
    await eventually(lambda: has_pod_volume(stage))

    await stage.client.delete(PODS, "p", stage.app)

    restore = await stage.site.reached("restores", "r")
    gone = f"the pod {stage.app}/p was deleted before its volume was restored"
    pod_volume = (await stage.pod_volumes("podvolumerestores"))["data"]["status"]
    assert (pod_volume["phase"], pod_volume["message"]) == ("Failed", gone)
    assert restore["status"]["phase"] == "PartiallyFailed"
    assert errors_of(stage, "r") == [f"pod volume restore failed: {gone}"]


async def test_a_timed_out_restore_says_what_its_pod_waited_for(unschedulable: Stage) -> None:
    stage = unschedulable

    await begin_impatient_restore(stage, "15s")

    await stage.site.reached("restores", "r")
    [error] = errors_of(stage, "r")
    assert error.startswith(f"{TIMED_OUT}the pod {stage.app}/p is not scheduled: Unschedulable: 0/1 nodes")


async def test_a_missing_image_of_the_helper_is_reported(stage: Stage) -> None:
    await stage.run_pod(volume_pod("p", "data"), "data")
    await stage.fill("p", "echo one > /data/file")
    with stage.agent():
        await stage.back_up()
        await stage.delete_app()
        await add_helper_config(stage, image="localhost/no-such/image:1")

        await begin_impatient_restore(stage)

        await stage.site.reached("restores", "r")
    [error] = errors_of(stage, "r")
    assert error.startswith(f"{TIMED_OUT}restic-wait of the pod {stage.app}/p does not start: ")
    assert "localhost/no-such/image:1" in error


async def test_a_node_without_an_agent_is_reported(stage: Stage) -> None:
    await stage.run_pod(volume_pod("p", "data"), "data")
    await stage.fill("p", "echo one > /data/file")
    with stage.agent():
        await stage.back_up()
    await stage.delete_app()

    await begin_impatient_restore(stage)

    await stage.site.reached("restores", "r")
    [error] = errors_of(stage, "r")
    node = stage.cluster.nodes[0].name
    assert error == (
        f"{TIMED_OUT}the pod {stage.app}/p waits on node '{node}' for data (New); "
        "no agent has taken up those that are New: check that a node agent runs there"
    )


async def begin_impatient_restore(stage: Stage, timeout: str = "30s") -> None:
    annotations = {POD_VOLUME_TIMEOUT: timeout}
    await stage.site.create("restores", "r", spec={"backupName": "b"}, annotations=annotations)
