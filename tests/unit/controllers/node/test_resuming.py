"""What an agent does about objects that other agents of its node have left InProgress. (docs/adr/043)"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.controllers.node.holding import (
    AGENT_ANNOTATION,
    ATTEMPTS_ANNOTATION,
    MAX_ATTEMPTS,
    NODE_ANNOTATION,
)
from tests.unit.controllers.fakes import NAMESPACE, fail_once
from tests.unit.controllers.node.world import AGENT, NODE, RESTORE_UID, SNAPSHOT, NodeWorld, waiting

BEGUN = "2021-08-11T21:00:00Z"
FORMER = "node-agent-former/1"


@pytest.fixture
def world(tmp_path: Path) -> NodeWorld:
    """A pod that waits for its volume, which can be saved as well."""
    made = NodeWorld(tmp_path)
    made.add_pod(**waiting("restic-wait"))
    made.volume()
    return made


def left(obj: JSONObject, *, agent: str = FORMER, attempts: str = "1", node: str = NODE) -> JSONObject:
    """The object as an agent has left it."""
    obj["metadata"]["annotations"] = {
        NODE_ANNOTATION: node,
        AGENT_ANNOTATION: agent,
        ATTEMPTS_ANNOTATION: attempts,
    }
    obj["status"] |= {"phase": "InProgress", "startTimestamp": BEGUN, "message": "it was interrupted"}
    return obj


def add_agent_pod(world: NodeWorld, name: str, **status: Any) -> None:
    world.cluster.add("pods", name, NAMESPACE, status=status)


@asynccontextmanager
async def in_flight(world: NodeWorld) -> AsyncIterator[asyncio.Task[JSONObject]]:
    """The saving of a volume, which goes on until the end of the context."""
    world.restic.until = asyncio.Event()
    task = asyncio.create_task(world.save())
    await world.restic.working.wait()
    yield task
    world.restic.until.set()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "former",
    [FORMER, f"{AGENT.pod}/1"],
    ids=["of a pod that is gone", "of the same pod"],
)
async def test_work_that_a_former_agent_left_is_begun_again_and_counted(
    world: NodeWorld, former: str
) -> None:
    obj = left(world.add_backup(), agent=former)

    assert world.backup_reconciler.is_left(obj)
    status = await world.save()

    assert (status["phase"], status["snapshotID"]) == ("Completed", SNAPSHOT)
    assert status["startTimestamp"] == BEGUN
    assert "message" not in status, "it would be taken for a warning of the backup"
    marks = world.cluster.stored("podvolumebackups", "pvb")["metadata"]["annotations"]
    assert (marks[AGENT_ANNOTATION], marks[ATTEMPTS_ANNOTATION]) == (str(AGENT), "2")
    assert not world.backup_reconciler.is_left(world.cluster.stored("podvolumebackups", "pvb"))


@pytest.mark.parametrize(
    ("agent", "node", "phase"),
    [
        (str(AGENT), NODE, "InProgress"),
        ("", NODE, "InProgress"),
        (FORMER, "other", "InProgress"),
        (FORMER, NODE, "Failed"),
    ],
    ids=["of this process", "of another version", "of another node", "ended"],
)
async def test_objects_that_no_agent_left_are_not_taken_up(
    world: NodeWorld, agent: str, node: str, phase: str
) -> None:
    obj = left(world.add_backup(), agent=agent, node=node)
    obj["status"]["phase"] = phase

    assert not world.backup_reconciler.is_left(obj)
    await world.save()
    assert world.restic.calls == []


@pytest.mark.parametrize(("phase", "taken"), [("Running", False), ("Failed", True), ("Succeeded", True)])
async def test_work_of_another_agent_is_not_taken_up_until_its_pod_has_ended(
    world: NodeWorld, phase: str, taken: bool
) -> None:
    add_agent_pod(world, "node-agent-former", phase=phase)
    left(world.add_backup())

    status = await world.save()

    assert bool(world.restic.calls) is taken
    assert (status["phase"] == "Completed") is taken


async def test_work_that_ended_its_agent_too_often_fails(world: NodeWorld) -> None:
    left(world.add_backup(), attempts=str(MAX_ATTEMPTS))

    status = await world.save()

    assert status["phase"] == "Failed"
    assert status["message"].startswith(
        "the work on the podvolumebackup was begun 5 times, and its node agent"
    )
    assert world.restic.calls == []
    assert world.metrics.calls == [("backup_dequeued",)]


TAGS = {"backup": "b1", "backup-uid": "u1", "ns": "shop", "pod": "p", "pod-uid": "uid-p", "volume": "data"}


async def test_snapshots_of_a_former_agent_are_removed_before_a_volume_is_saved_again(
    world: NodeWorld,
) -> None:
    """A snapshot whose agent died before it stored the id is in no backup, and never deleted with one."""
    left(world.add_backup())["spec"]["tags"] = TAGS

    status = await world.save()

    assert status["phase"] == "Completed"
    assert world.restic.forgotten == [TAGS]


@pytest.mark.parametrize("missing", ["backup-uid", "pod-uid", "volume"])
async def test_nothing_is_removed_by_tags_that_others_may_have(world: NodeWorld, missing: str) -> None:
    left(world.add_backup())["spec"]["tags"] = {**TAGS, missing: ""}

    await world.save()

    assert world.restic.forgotten == []


@pytest.mark.parametrize("why", ["canceled", "too often"])
async def test_work_that_is_not_begun_again_leaves_no_snapshot(world: NodeWorld, why: str) -> None:
    obj = left(world.add_backup(), attempts=str(MAX_ATTEMPTS) if why == "too often" else "1")
    obj["spec"] |= {"tags": TAGS, "cancel": why == "canceled"}

    status = await world.save()

    assert status["phase"] in ("Canceled", "Failed")
    assert world.restic.forgotten == [TAGS]


@pytest.mark.parametrize("end", ["deleted", "failed by the server", "taken by another agent"])
async def test_a_snapshot_that_cannot_be_stored_any_more_is_removed(world: NodeWorld, end: str) -> None:
    world.add_backup()["spec"]["tags"] = TAGS
    async with in_flight(world):
        stored = world.cluster.stored("podvolumebackups", "pvb")
        if end == "deleted":
            world.cluster.vanish("podvolumebackups", "pvb")
        elif end == "failed by the server":
            stored["status"] |= {"phase": "Failed"}
        else:
            stored["metadata"]["annotations"][AGENT_ANNOTATION] = FORMER

    assert world.restic.forgotten == [SNAPSHOT]


async def test_a_snapshot_whose_end_is_stored_stays_though_the_answer_was_lost(world: NodeWorld) -> None:
    world.add_backup()["spec"]["tags"] = TAGS
    lost = fail_once("patch", "podvolumebackups")

    def after(*call: str) -> None:
        if world.cluster.status("podvolumebackups", "pvb").get("snapshotID"):
            lost(*call)

    world.cluster.after = after
    status = await world.save()

    assert (status["phase"], status["snapshotID"]) == ("Completed", SNAPSHOT)
    assert world.restic.forgotten == []


async def test_work_that_was_canceled_meanwhile_is_not_begun_again(world: NodeWorld) -> None:
    left(world.add_backup())["spec"]["cancel"] = True

    status = await world.save()

    assert status["phase"] == "Canceled"
    assert world.restic.calls == []


async def test_a_volume_whose_pod_is_gone_meanwhile_fails_with_the_reason(world: NodeWorld) -> None:
    left(world.add_backup())
    left(world.add_restore())
    world.seen_pods.discard(world.cluster.stored("pods", "p", "shop"))
    world.cluster.vanish("pods", "p", "shop")

    saved, filled = await world.save(), await world.fill()

    assert saved["phase"] == filled["phase"] == "Failed"
    assert saved["message"].startswith("error getting pod: ")
    assert filled["message"] == "the pod shop/p was deleted before its volume was restored"


async def test_a_volume_is_filled_again_while_its_pod_waits(world: NodeWorld) -> None:
    obj = left(world.add_restore())

    assert world.restore_reconciler.is_left(obj)
    assert (await world.fill())["phase"] == "Completed"
    assert world.restic.calls == [("restore", world.volume(), SNAPSHOT)]
    assert (world.volume() / ".velero" / RESTORE_UID).exists()


async def test_a_volume_is_not_filled_again_where_only_the_phase_is_missing(world: NodeWorld) -> None:
    """The agent died after it had told the pod: its containers may write to the volume by now."""
    marks = world.volume() / ".velero"
    marks.mkdir()
    (marks / RESTORE_UID).touch()
    left(world.add_restore("told"))
    assert (await world.fill("told"))["phase"] == "Completed"

    ended = {"name": "restic-wait", "state": {"terminated": {"exitCode": 0}}}
    world.add_pod("q", **waiting("restic-wait") | {"status": {"initContainerStatuses": [ended]}})
    left(world.add_restore("started", pod="q"))
    assert (await world.fill("started"))["phase"] == "Completed"

    assert world.restic.calls == []


async def test_a_volume_waits_while_the_node_starts_its_pod_again(world: NodeWorld) -> None:
    pod = world.add_pod("q", **waiting("restic-wait", running=""))
    obj = left(world.add_restore("of-q", pod="q"))

    assert (await world.fill("of-q"))["phase"] == "InProgress"
    assert world.restic.calls == []
    assert [str(each) for each in world.restores.keys_of_waiting(pod)] == ["velero/of-q"]
    assert obj["status"]["phase"] == "InProgress"


async def test_the_end_of_an_object_that_another_agent_has_taken_is_not_stored(world: NodeWorld) -> None:
    world.add_backup()
    async with in_flight(world):
        stored = world.cluster.stored("podvolumebackups", "pvb")
        stored["metadata"]["annotations"][AGENT_ANNOTATION] = "node-agent-next/1"

    status = world.cluster.status("podvolumebackups", "pvb")
    assert status["phase"] == "InProgress"
    assert "completionTimestamp" not in status


async def test_work_that_another_agent_or_the_server_has_taken_away_is_given_up(world: NodeWorld) -> None:
    world.add_backup()
    async with in_flight(world) as task:
        stored = world.cluster.stored("podvolumebackups", "pvb")
        ours = {
            **stored,
            "metadata": {**stored["metadata"], "annotations": dict(stored["metadata"]["annotations"])},
        }
        older = left({**ours, "metadata": {**ours["metadata"]}, "status": dict(stored["status"])})
        world.backup_reconciler.changed(older)
        assert not task.done(), "the watch shows what was before"
        world.backup_reconciler.changed(ours)
        world.backup_reconciler.changed(older)
        await task
    assert world.cluster.status("podvolumebackups", "pvb")["phase"] == "InProgress"

    world.add_backup("second")
    world.restic.working.clear()
    world.restic.until = asyncio.Event()
    task = asyncio.create_task(world.save("second"))
    await world.restic.working.wait()
    stored = world.cluster.stored("podvolumebackups", "second")
    stored["status"] |= {"phase": "Failed", "message": "no node agent"}
    world.backup_reconciler.changed(stored)

    assert (await task)["message"] == "no node agent"


async def test_a_claim_is_left_to_the_agent_that_came_first(world: NodeWorld) -> None:
    obj = left(world.add_backup())

    def other_agent(*call: str) -> None:
        if call[:2] == ("patch", "podvolumebackups"):
            world.cluster.before = lambda *_call: None
            left(obj, agent="node-agent-next/1")["metadata"]["resourceVersion"] = "77"
            add_agent_pod(world, "node-agent-next", phase="Running")

    world.cluster.before = other_agent
    await world.save()

    assert world.restic.calls == []
