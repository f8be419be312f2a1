"""Pods that never get so far that an agent fills their volumes."""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.controllers.shared.restored_pods import (
    AGENT_SECONDS,
    HELPER_SECONDS,
    LOOK_SECONDS,
    START_SECONDS,
    RestoredPods,
    trouble_of,
)
from pinnace.controllers.shared.waiting_pods import POD_INDEX, by_pod
from pinnace.hooks.pod_watches import Observe
from pinnace.kube.errors import ConnectionFailed, KubeError
from pinnace.runtime.cache import ObjectCache
from pinnace.runtime.informer import Informer
from pinnace.runtime.logfields import RECORD_ATTRIBUTE
from pinnace.volumes.pods.pod_volume_restores import TIMED_OUT
from tests.support.clock import LeapingClock
from tests.support.waiting import eventually
from tests.unit.controllers.fakes import World as Surroundings

GONE = "the pod shop/p was deleted before its volume was restored"
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    ],
}


def a_pod(status: JSONObject | None = None, **metadata: Any) -> JSONObject:
    return {
        "metadata": {"namespace": "shop", "name": "p", "uid": "uid-p", **metadata},
        "spec": {"nodeName": "node-1", "initContainers": [{"name": "first"}, {"name": "restic-wait"}]},
        "status": status or {"phase": "Pending"},
    }


def helper_waits(reason: str, message: str = "") -> JSONObject:
    waiting = {"reason": reason, "message": message} if message else {"reason": reason}
    statuses = [{"name": "first", "state": {}}, {"name": "restic-wait", "state": {"waiting": waiting}}]
    return {"phase": "Pending", "initContainerStatuses": statuses}


def without_helper() -> JSONObject:
    pod = a_pod({"phase": "Running"})
    del pod["spec"]["initContainers"][1]
    return pod


@pytest.mark.spec("AFT-173")
@pytest.mark.parametrize(
    ("pod", "text", "lost"),
    [
        (None, GONE, True),
        (a_pod(uid="another"), GONE, True),
        (a_pod(deletionTimestamp="2021-08-11T21:43:26Z"), GONE, True),
        (
            a_pod({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
            "the pod shop/p ended before its volume was restored: Failed: Evicted: low on memory",
            True,
        ),
        (a_pod(UNSCHEDULABLE), "the pod shop/p is not scheduled: Unschedulable: 0/1 nodes", False),
        (
            a_pod(helper_waits("ImagePullBackOff", "no such image")),
            "restic-wait of the pod shop/p does not start: ImagePullBackOff: no such image",
            False,
        ),
        *(
            (a_pod(helper_waits(reason)), f"restic-wait of the pod shop/p does not start: {reason}", lost)
            for reason, lost in (
                ("ErrImagePull", False),
                ("CreateContainerConfigError", False),
                ("CreateContainerError", False),
                ("CrashLoopBackOff", False),
                ("ErrImageNeverPull", True),
                ("InvalidImageName", True),
            )
        ),
        (
            without_helper(),
            "the pod shop/p has no init container restic-wait: an admission webhook of the cluster may have"
            " removed it",
            True,
        ),
    ],
)
def test_trouble_that_keeps_a_pod_is_recognized(pod: JSONObject | None, text: str, lost: bool) -> None:
    trouble = trouble_of(pod, a_pod())

    assert trouble is not None
    assert (trouble.text, trouble.lost) == (text, lost)


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]},
        helper_waits("PodInitializing"),
        helper_waits("ContainerCreating"),
        {"phase": "Pending", "initContainerStatuses": [{"name": "restic-wait", "state": {"running": {}}}]},
    ],
    ids=["new", "scheduled", "initializing", "creating", "running"],
)
def test_a_pod_that_starts_normally_has_no_trouble(status: JSONObject) -> None:
    assert trouble_of(a_pod(status), a_pod()) is None


SNAPSHOTS = {"data": SavedSnapshot("1")}


class Sight:
    """Shows the pod as the test wants it to be seen."""

    def __init__(self) -> None:
        self.pod: JSONObject | None = a_pod()
        self.observe: Observe | None = None
        self.error: KubeError | None = None
        self.looks = 0
        self.shown: Callable[[], JSONObject] | None = None
        self.line = "ERROR: /restores/data/.velero/uid: Permission denied"

    @asynccontextmanager
    async def following(self, pod: JSONObject, observe: Observe) -> AsyncIterator[None]:
        self.observe = observe
        yield
        self.observe = None

    async def look(self, pod: JSONObject) -> JSONObject | None:
        self.looks += 1
        if self.shown is not None:
            self.pod = self.shown()
        if self.error is not None:
            raise self.error
        return self.pod

    async def last_line(self, pod: JSONObject, container: str) -> str:
        assert container == "restic-wait"
        if self.error is not None:
            raise self.error
        return self.line

    def show(self, pod: JSONObject | None) -> None:
        """As its watch does."""
        self.pod = pod
        if self.observe is not None:
            self.observe(pod)


class Timer(LeapingClock):
    """Time passes a second at a time while others work."""

    async def sleep(self, seconds: float) -> None:
        end = self.time + seconds
        while self.time < end:
            await asyncio.sleep(0)
            self.time += 1.0


class World:  # it is the `PodVolumeRestorer` too
    """A restore of one pod with orders, whose end the test decides."""

    def __init__(self, folder: Path) -> None:
        self.clock = Timer()
        surroundings = Surroundings(folder, self.clock)
        self.cluster = surroundings.cluster
        self.sight = Sight()
        self.orders = ObjectCache({POD_INDEX: by_pod})
        self.over = asyncio.Event()
        self.errors: list[str] = []
        self.pods = RestoredPods(surroundings.scope, self, cast("Informer", self.orders), self.sight)

    def order(self, name: str, phase: str = "") -> None:
        spec = {"volume": name, "pod": {"namespace": "shop", "name": "p", "uid": "uid-p"}}
        marks = {"velero.io/pod-uid": "uid-p"}
        status = {"phase": phase} if phase else {}
        self.cluster.add("podvolumerestores", name, labels=marks, spec=spec, status=status)
        self.see()

    def see(self) -> None:
        """Let the cache know what there is."""
        for obj in self.cluster.of("podvolumerestores"):
            self.orders.put(copy.deepcopy(obj))

    def status(self, name: str) -> JSONObject:
        return self.cluster.status("podvolumerestores", name)

    async def restore_pod_volumes(self, *_: Any) -> list[str]:
        await self.over.wait()
        return self.errors

    async def until(self, condition: Callable[[], bool]) -> None:
        async def check() -> bool:
            return condition()

        await eventually(check)

    @asynccontextmanager
    async def restoring(self) -> AsyncIterator[asyncio.Task[list[str]]]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.pods.restore_pod_volumes(a_pod(), "shop", SNAPSHOTS))
            await self.until(lambda: self.sight.looks > 0)
            yield task
            self.over.set()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_the_pod_volume_restores_of_a_lost_pod_are_failed(world: World) -> None:
    world.order("new")
    world.order("done", "Completed")
    async with world.restoring():
        world.sight.show(None)
        await world.until(lambda: world.status("new").get("phase") == "Failed")
        world.order("late")
        await world.until(lambda: world.status("late").get("phase") == "Failed")

    assert world.status("new")["message"] == GONE
    assert world.status("new")["completionTimestamp"]
    assert world.status("done") == {"phase": "Completed"}


async def test_a_restore_in_progress_is_left_to_its_agent_for_a_while(world: World) -> None:
    world.order("begun", "InProgress")
    async with world.restoring():
        begun = world.clock.time
        world.sight.show(None)
        await world.until(lambda: world.status("begun")["phase"] == "Failed")

    assert world.clock.time - begun >= AGENT_SECONDS


async def test_an_agent_that_takes_a_pod_volume_restore_at_that_moment_wins(world: World) -> None:
    world.order("new")
    taken = world.cluster.stored("podvolumerestores", "new")
    taken["metadata"]["resourceVersion"] = "later"
    taken["status"] = {"phase": "InProgress"}
    async with world.restoring():
        world.sight.show(None)
        await world.until(lambda: ("patch", "podvolumerestores", "new") in world.cluster.calls)

    assert world.status("new") == {"phase": "InProgress"}


@pytest.mark.found("V30")
async def test_what_is_canceled_before_an_agent_has_it_is_ended_by_the_server(world: World) -> None:
    """Its pod may never get to a node, and then no agent would; the restore would wait until its time-out."""
    world.order("new")
    world.order("begun", "InProgress")
    async with world.restoring():
        for name in ("new", "begun"):
            obj = world.cluster.stored("podvolumerestores", name)
            obj["spec"]["cancel"] = True
            obj["metadata"]["resourceVersion"] = f"canceled {name}"
        world.see()
        for obj in world.orders.objects():
            world.pods.changed(obj)
        await world.until(lambda: world.status("new").get("phase") == "Canceled")

    assert world.status("new")["message"] == "it was canceled, as spec.cancel asks for it"
    assert world.status("begun") == {"phase": "InProgress"}, "its agent ends it"


async def test_a_temporary_obstacle_is_logged_once_and_waited_for(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.order("new")
    async with world.restoring():
        world.sight.show(a_pod(UNSCHEDULABLE))
        begun = world.sight.looks
        await world.until(lambda: world.sight.looks > begun + 1)

    [said] = [vars(record)[RECORD_ATTRIBUTE] for record in caplog.records if "waits" in record.getMessage()]
    assert said == {"reason": "the pod shop/p is not scheduled: Unschedulable: 0/1 nodes"}


async def test_the_pod_volume_restores_say_why_a_pod_is_not_scheduled_until_it_is(world: World) -> None:
    """Those who wait for the restore were told that a node agent was missing."""
    world.order("new")
    world.order("begun", "InProgress")
    async with world.restoring():
        world.sight.show(a_pod(UNSCHEDULABLE))
        await world.until(lambda: bool(world.status("new").get("message")))
        assert "not scheduled: Unschedulable: 0/1 nodes" in world.status("new")["message"]
        world.order("late")
        world.pods.changed(world.orders.by_index(POD_INDEX, "uid-p")[-1])
        await world.until(lambda: bool(world.status("late").get("message")))
        world.see()
        world.sight.show(a_pod({"phase": "Pending"}))
        await world.until(lambda: not world.status("new").get("message"))

    assert world.status("begun") == {"phase": "InProgress"}


@pytest.mark.spec("AFT-173")
@pytest.mark.parametrize("begins_after", [0.0, 300.0], ids=["never runs", "runs once"])
async def test_a_pod_that_cannot_start_is_given_up_before_its_restore_is(
    world: World, begins_after: float
) -> None:
    """The kubelet tries again, and says one reason or the other."""
    world.order("new")
    ended: list[float] = []

    def shown() -> JSONObject:
        world.see()
        if begins_after <= world.clock.time < 2 * begins_after:
            return a_pod(helper(running={}))
        is_odd = int(world.clock.time / LOOK_SECONDS) % 2
        return a_pod(helper_waits("ErrImagePull" if is_odd else "ImagePullBackOff", "no such image"))

    def note(verb: str, *_names: str) -> None:
        if verb == "patch" and world.status("new").get("phase") == "Failed" and not ended:
            ended.append(world.clock.time)

    world.sight.shown, world.cluster.after = shown, note
    async with world.restoring():
        await world.until(lambda: bool(ended))

    assert world.status("new")["message"].endswith(": no such image")
    waited = ended[0] - 2 * begins_after
    assert START_SECONDS <= waited < START_SECONDS + 3 * LOOK_SECONDS


async def test_a_pod_is_looked_at_periodically(world: World) -> None:
    """A watch may miss its end; and a look may fail."""
    world.order("new")
    async with world.restoring():
        world.sight.error = ConnectionFailed("the connection broke")
        await world.until(lambda: world.sight.looks > 2)
        assert world.clock.time >= 2 * LOOK_SECONDS
        world.sight.error, world.sight.pod = None, None
        await world.until(lambda: world.status("new").get("phase") == "Failed")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (UNSCHEDULABLE, "the pod shop/p is not scheduled: Unschedulable: 0/1 nodes"),
        (
            {"phase": "Pending"},
            "the pod shop/p waits on node 'node-1' for data (New), more (InProgress); "
            "no agent has taken up those that are New: check that a node agent runs there",
        ),
    ],
    ids=["unschedulable", "no agent"],
)
async def test_a_timeout_says_what_the_pod_waits_for(world: World, status: JSONObject, text: str) -> None:
    world.order("data")
    world.order("done", "Completed")
    world.order("more", "InProgress")
    world.errors = ["something else", TIMED_OUT]
    async with world.restoring() as task:
        world.sight.show(a_pod(status))

    assert task.result() == ["something else", f"{TIMED_OUT}: {text}"]


def helper(phase: str = "Pending", **state: JSONObject) -> JSONObject:
    """The status of a pod whose container that waits is in this state."""
    return {"phase": phase, "initContainerStatuses": [{"name": "restic-wait", "state": state}]}


DONE = helper(terminated={"exitCode": 0})


@pytest.mark.found("V03", "V08b")
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (helper(running={}), "it still runs after 60 seconds"),
        (helper(terminated={"exitCode": 1, "reason": "Error"}), "Error"),
        (helper(waiting={"reason": "CrashLoopBackOff"}), "CrashLoopBackOff"),
        ({**helper(terminated={"exitCode": 137, "reason": "OOMKilled"}, phase="Failed")}, "Failed"),
    ],
    ids=["running", "ended badly", "begun again and again", "pod has ended"],
)
async def test_a_pod_that_does_not_go_on_with_its_data_is_an_error(
    world: World, status: JSONObject, reason: str
) -> None:
    world.order("data", "Completed")
    async with world.restoring() as task:
        world.sight.show(a_pod(status))

    [error] = task.result()
    assert error.startswith(
        "the pod shop/p does not start: its volumes have their data, but restic-wait has not ended well:"
        f" {reason}; its last line: ERROR: /restores/data/.velero/uid: Permission denied."
    )
    assert world.clock.time >= HELPER_SECONDS or status["phase"] == "Failed"


@pytest.mark.found("V03")
async def test_a_log_that_cannot_be_read_does_not_hide_the_error(world: World) -> None:
    world.order("data", "Completed")
    async with world.restoring() as task:
        world.sight.error = ConnectionFailed("the connection broke")
        world.sight.show(a_pod(helper(running={})))

    [error] = task.result()
    assert "restic-wait has not ended well" in error
    assert "its log cannot be read: the connection broke" in error


@pytest.mark.found("V03")
@pytest.mark.parametrize(
    "pod",
    [
        a_pod(DONE),
        a_pod({**DONE, "phase": "Succeeded"}),
        a_pod(helper(running={}), deletionTimestamp="2021-08-11T21:43:26Z"),
        a_pod(helper(running={}), uid="another"),
        a_pod(),
        None,
    ],
    ids=["goes on", "has ended well", "is deleted", "is another", "of no kubelet", "gone"],
)
async def test_a_pod_that_goes_on_or_is_gone_is_no_error(world: World, pod: JSONObject | None) -> None:
    world.order("data", "Completed")
    async with world.restoring() as task:
        world.sight.show(pod)

    assert task.result() == []


@pytest.mark.found("V03")
async def test_a_pod_is_given_the_time_to_see_its_data(world: World) -> None:
    """And a watch that ended without a word does not make an error of it."""
    world.order("data", "Completed")
    async with world.restoring() as task:
        world.sight.show(a_pod(helper(running={})))
        world.sight.pod = a_pod(DONE)

    assert task.result() == []
