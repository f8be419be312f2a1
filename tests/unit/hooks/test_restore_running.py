"""Exec hooks of restored pods: when they run, what follows from their errors, and what they wait for."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.meta import LabelSelector
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.api.velero.restore import (
    ExecRestoreHook,
    InitRestoreHook,
    RestoreHooks,
    RestoreResourceHook,
    RestoreResourceHookSpec,
)
from pinnace.archive.runlog import RunLog
from pinnace.hooks.records import HookKey, HookRecord
from pinnace.hooks.restore_running import COMMANDS_AT_ONCE, LOOK_SECONDS, PodExecHooks
from pinnace.hooks.restore_selection import ExecHookFinder, PodExecHook, pod_wait_seconds
from pinnace.kube.errors import ExecTimeout, Forbidden, KubeError
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.collaborators import RestoreCollaborators
from tests.support.clock import LeapingClock
from tests.support.cluster.containers import Behaviour, FakeContainers
from tests.support.tasks import settled
from tests.unit.restore.world import Harness, pod

Observe = Callable[[JSONObject | None], None]

POST = "post.hook.restore.velero.io/"
SECOND, MINUTE, HOUR = Duration.seconds(1), Duration.minutes(1), Duration.hours(1)


def a_pod(name: str = "p", *containers: str, running: tuple[str, ...] = (), **fields: Any) -> JSONObject:
    """A pod with these containers (`app` if none are named), of which some run."""
    spec = {"containers": [{"name": container} for container in containers or ("app",)]}
    made = pod(name, spec=spec, **fields)
    made["metadata"]["uid"] = f"uid-{name}"
    return in_state(made, *running)


def in_state(made: JSONObject, *running: str, phase: str = "Pending", ready: bool = False) -> JSONObject:
    statuses = [
        {
            "name": each["name"],
            "ready": ready and each["name"] in running,
            "state": {"running": {}} if each["name"] in running else {"waiting": {}},
        }
        for each in made["spec"]["containers"]
    ]
    return {**made, "status": {"phase": phase, "containerStatuses": statuses}}


def hook(*command: str, container: str = "app", on_error: str = "", **fields: Any) -> PodExecHook:
    given = {"exec_timeout": Duration(), "wait_timeout": Duration(), **fields}
    return PodExecHook(
        source="restoreSpec", name="h", container=container, command=command, on_error=on_error, **given
    )


@dataclass
class FakeSight:
    """Shows pods as the test wants them to be seen."""

    pods: dict[str, JSONObject | None] = field(default_factory=dict)
    observers: dict[str, Observe] = field(default_factory=dict)
    looks: int = 0
    error: KubeError | None = None

    @asynccontextmanager
    async def following(self, pod: JSONObject, observe: Observe) -> AsyncIterator[None]:
        name = pod["metadata"]["name"]
        self.observers[name] = observe
        try:
            yield
        finally:
            del self.observers[name]

    async def look(self, pod: JSONObject) -> JSONObject | None:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return self.pods.get(pod["metadata"]["name"])

    def put(self, *pods: JSONObject) -> None:
        for each in pods:
            self.pods[each["metadata"]["name"]] = each

    def show(self, state: JSONObject) -> None:
        """A new state, by the watch."""
        self.put(state)
        self.observers[state["metadata"]["name"]](state)


class StoppedTimer(LeapingClock):
    """Time that stands still: nothing is ever late."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class Stage:
    """What a test of the runner works with."""

    def __init__(self, path: Path, timer: LeapingClock | None = None) -> None:
        self.containers = FakeContainers()
        self.sight = FakeSight()
        self.clock = timer or StoppedTimer()
        self.log = RunLog(path, fields={})
        self.hooks = PodExecHooks(self.containers, self.sight, clock=self.clock)
        self._path = path

    async def run(self, made: JSONObject, *hooks: PodExecHook) -> list[Notice]:
        self.sight.pods.setdefault(made["metadata"]["name"], made)
        return await self.hooks.run(made, hooks, self.log)

    def start(self, made: JSONObject, *hooks: PodExecHook) -> asyncio.Task[list[Notice]]:
        return asyncio.create_task(self.run(made, *hooks))

    def log_text(self) -> str:
        self.log.close()
        return gzip.decompress(self._path.read_bytes()).decode()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A runner for whom no time passes."""
    made = Stage(tmp_path / "log.gz")
    yield made
    made.log.close()


@pytest.fixture
def fast(tmp_path: Path) -> Iterator[Stage]:
    """A runner for whom waiting takes no time."""
    made = Stage(tmp_path / "log.gz", LeapingClock())
    yield made
    made.log.close()


# --- which hooks a pod has --------------------------------------------------------------------------------


def finder(*hooks: ExecRestoreHook, **selector: Any) -> ExecHookFinder:
    entries = [RestoreResourceHook(exec=each) for each in hooks]
    entries.insert(0, RestoreResourceHook(init=InitRestoreHook(init_containers=[{"name": "i"}])))
    group = RestoreResourceHookSpec(name="h", post_hooks=entries, **selector)
    return ExecHookFinder(RestoreHooks(resources=[group]))


SPEC = ExecRestoreHook(command=["spec"])


def test_hooks_of_the_spec_come_in_order_with_the_first_container() -> None:
    second = ExecRestoreHook(command=["b"], container="two", on_error="Fail", exec_timeout=SECOND)
    found = finder(SPEC, second).hooks_of(a_pod("p", "one", "two"))
    assert found == [
        hook("spec", container="one"),
        hook("b", container="two", on_error="Fail", exec_timeout=SECOND),
    ]
    assert [each.must_succeed for each in found] == [False, True]


@pytest.mark.spec("RST-106")
@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ({}, 1),
        ({"included_namespaces": ["ns-1"]}, 1),
        ({"included_namespaces": ["other"]}, 0),
        ({"excluded_namespaces": ["ns-1"]}, 0),
        ({"label_selector": LabelSelector(match_labels={"app": "x"})}, 1),
        ({"label_selector": LabelSelector(match_labels={"app": "y"})}, 0),
        ({"excluded_resources": ["pods"]}, 1),
    ],
)
def test_selectors_of_hooks_choose_pods(selector: dict[str, Any], count: int) -> None:
    assert len(finder(SPEC, **selector).hooks_of(a_pod("p", labels={"app": "x"}))) == count


@pytest.mark.spec("RST-106")
def test_a_pod_without_hooks_gets_none() -> None:
    assert ExecHookFinder(RestoreHooks()).hooks_of(a_pod()) == []
    nil = RestoreResourceHookSpec(name="nil", post_hooks=[RestoreResourceHook()])
    assert ExecHookFinder(RestoreHooks(resources=[nil])).hooks_of(a_pod()) == []


def test_an_annotation_is_the_only_hook() -> None:
    annotations = {
        f"{POST}command": '["/bin/x", "y"]',
        f"{POST}container": "two",
        f"{POST}on-error": "Fail",
        f"{POST}exec-timeout": "5m3s",
        f"{POST}wait-timeout": "1h",
    }
    (found,) = finder(SPEC).hooks_of(a_pod("p", "one", "two", annotations=annotations))
    assert found == PodExecHook(
        source="annotation",
        name="<from-annotation>",
        container="two",
        command=("/bin/x", "y"),
        on_error="Fail",
        exec_timeout=Duration.seconds(303),
        wait_timeout=HOUR,
    )


def test_an_empty_command_annotation_is_none() -> None:
    (found,) = finder(SPEC).hooks_of(a_pod(annotations={f"{POST}command": "", f"{POST}container": "two"}))
    assert found.command == ("spec",)


@pytest.mark.spec("RST-105")
async def test_a_duration_that_is_none_is_ignored_with_a_warning(stage: Stage) -> None:
    annotations = {f"{POST}command": "x", f"{POST}exec-timeout": "none", f"{POST}wait-timeout": "1d"}
    made = a_pod(running=("app",), annotations=annotations)
    hooks = finder().hooks_of(made)
    assert await stage.run(made, *hooks) == []
    assert stage.containers.timeouts == [30.0]
    assert stage.log.warnings == 2
    assert f"Ignoring annotation {POST}exec-timeout: 'none' is not a duration" in stage.log_text()


@pytest.mark.spec("RST-102")
@pytest.mark.parametrize(
    ("waits", "limit"),
    [
        ([SECOND, Duration()], None),
        ([SECOND, HOUR], 3600.0),
        ([SECOND, Duration.seconds(-1)], None),
        ([], None),
    ],
)
def test_a_pod_is_waited_for_as_long_as_its_longest_hook_waits(
    waits: list[Duration], limit: float | None
) -> None:
    assert pod_wait_seconds([hook("x", wait_timeout=wait) for wait in waits]) == limit


# --- when they run ----------------------------------------------------------------------------------------


@pytest.mark.spec("RST-095")
async def test_a_container_that_runs_gets_its_hook_once(stage: Stage) -> None:
    annotations = {f"{POST}command": "x", f"{POST}exec-timeout": "10s"}
    made = a_pod(running=("app",), annotations=annotations)
    stage.containers.behaviours["x"] = Behaviour(stdout=[b"done\n"])
    assert await stage.run(made, *finder().hooks_of(made)) == []
    assert stage.containers.ran == ["ns-1/p/app: x"]
    assert stage.containers.timeouts == [10.0]
    text = stage.log_text()
    for part in ("hookSource=annotation", "hookType=exec", "hookPhase=post", 'stdout="done\\n"'):
        assert part in text


@pytest.mark.spec("RST-097")
async def test_a_container_that_waits_gets_its_hook_when_it_runs(stage: Stage) -> None:
    made = a_pod()
    running = stage.start(made, hook("x"))
    await settled()
    assert stage.containers.ran == []
    stage.sight.show(in_state(made, "app", phase="Running"))
    assert await running == []
    assert stage.containers.ran == ["ns-1/p/app: x"]
    assert stage.sight.observers == {}


@pytest.mark.spec("RST-099", "API-028")
async def test_hooks_run_in_the_order_in_which_containers_start(stage: Stage) -> None:
    made = a_pod("p", "c1", "c2")
    hooks = [hook("a", container="c1"), hook("b", container="c1"), hook("c", container="c2")]
    running = stage.start(made, *hooks)
    await settled()
    stage.sight.show(in_state(made, "c2"))
    await settled()
    assert stage.containers.ran == ["ns-1/p/c2: c"]
    stage.sight.show(in_state(made, "c1", "c2"))
    assert await running == []
    assert stage.containers.ran == ["ns-1/p/c2: c", "ns-1/p/c1: a", "ns-1/p/c1: b"]
    assert stage.containers.most_at_once == 1


async def test_hooks_of_running_containers_run_in_the_order_of_the_pod(stage: Stage) -> None:
    made = a_pod("p", "c1", "c2", running=("c1", "c2"))
    await stage.run(made, hook("b", container="c2"), hook("a", container="c1"))
    assert stage.containers.ran == ["ns-1/p/c1: a", "ns-1/p/c2: b"]


@pytest.mark.spec("RST-100", "API-028", "BEY-039")
@pytest.mark.parametrize("on_error", ["Fail", "Continue", ""])
async def test_a_container_that_the_pod_lacks_is_an_error_and_no_reason_to_wait(
    stage: Stage, on_error: str
) -> None:
    errors = await stage.run(a_pod(), hook("x", container="nosuch", on_error=on_error))
    assert errors == ["pod ns-1/p: Hook h not executed: the pod has no such container: nosuch"]
    assert (stage.containers.ran, stage.sight.looks) == ([], 0)
    assert (stage.log.warnings, stage.log.errors) == (0, 1)


async def test_hooks_of_several_pods_run_at_once_up_to_a_limit(stage: Stage) -> None:
    go = asyncio.Event()
    stage.containers.behaviours["x"] = Behaviour(until=go)
    pods = [a_pod(f"p{n}", running=("app",)) for n in range(COMMANDS_AT_ONCE + 8)]
    running = [stage.start(each, hook("x")) for each in pods]
    await settled()
    assert stage.containers.running == COMMANDS_AT_ONCE
    go.set()
    assert await asyncio.gather(*running) == [[]] * len(pods)
    assert len(stage.containers.ran) == len(pods)


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.spec("RST-096", "API-028")
@pytest.mark.parametrize(
    ("on_error", "ends"), [("Fail", True), ("Continue", False), ("", False), ("bogus", False)]
)
async def test_a_failing_hook_is_an_error_and_ends_the_others_only_where_asked_for(
    stage: Stage, on_error: str, ends: bool
) -> None:
    stage.containers.behaviours["bad"] = Behaviour(code=1, stderr=[b"why"])
    found = await stage.run(a_pod(running=("app",)), hook("bad", on_error=on_error), hook("next"))
    message = "pod ns-1/p: Hook h in container app failed: command terminated with exit code 1"
    not_run = "pod ns-1/p: Hook h in container app in pod ns-1/p not executed: a restore hook failed"
    assert found == [message] + [f"{not_run}: context canceled"] * ends
    assert stage.containers.ran == ["ns-1/p/app: bad"] + ["ns-1/p/app: next"] * (not ends)
    text = stage.log_text()
    assert "stderr=why" in text
    assert "Hook h in container app failed" in text


async def test_a_hook_that_times_out_is_an_error(stage: Stage) -> None:
    stage.containers.behaviours["x"] = Behaviour(error=ExecTimeout("late"))
    (error,) = await stage.run(a_pod(running=("app",)), hook("x", on_error="Fail"))
    assert error.endswith("failed: timed out after 30s")


async def test_an_empty_command_is_an_error(stage: Stage) -> None:
    (error,) = await stage.run(a_pod(running=("app",)), hook(on_error="Fail"))
    assert error.endswith("failed: command is required")


async def test_the_error_for_a_pod_that_never_runs_has_the_reasons_in_its_status(fast: Stage) -> None:
    pod = a_pod()
    pod["status"] = {
        "phase": "Pending",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no nodes left"}
        ],
        "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
    }
    (error,) = await fast.run(pod, hook("x", on_error="Fail", wait_timeout=SECOND))
    assert error.endswith(
        "not executed: the phase of the pod is Pending; app: ImagePullBackOff; no nodes left: "
        "context deadline exceeded"
    )


@pytest.mark.spec("RST-098", "API-028", "API-037")
@pytest.mark.parametrize("on_error", ["Fail", "Continue", ""])
async def test_the_hook_of_a_container_that_never_runs_is_not_executed(fast: Stage, on_error: str) -> None:
    found = await fast.run(a_pod(), hook("x", on_error=on_error, wait_timeout=SECOND))
    text = (
        "Hook h in container app in pod ns-1/p not executed: "
        "the phase of the pod is Pending: context deadline exceeded"
    )
    assert found == [f"pod ns-1/p: {text}"]
    assert fast.containers.ran == []
    assert fast.clock.time == 1.0
    assert text in fast.log_text()


@pytest.mark.parametrize(("on_error", "ran"), [("Fail", 0), ("Continue", 1), ("", 1)])
async def test_a_hook_whose_wait_is_over_expires_while_others_run(
    fast: Stage, on_error: str, ran: int
) -> None:
    made = a_pod()
    fast.clock.on_sleep = lambda: fast.sight.show(in_state(made, "app"))
    hooks = [hook("late", on_error=on_error, wait_timeout=SECOND), hook("x", wait_timeout=HOUR)]
    found = await fast.run(made, *hooks)
    assert found[0] == "pod ns-1/p: Hook h in container app expired before executing"
    assert len(found) == 2 - ran
    assert fast.containers.ran == ["ns-1/p/app: x"] * ran


@pytest.mark.spec("API-028")
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_the_hooks_of_a_pod_that_ends_first_are_not_executed(stage: Stage, phase: str) -> None:
    made = a_pod()
    running = stage.start(made, hook("a"), hook("b", on_error="Fail"))
    await settled()
    stage.sight.show(in_state(made, phase=phase))
    text = f"Hook h in container app in pod ns-1/p not executed: the pod is {phase}: context canceled"
    assert await running == [f"pod ns-1/p: {text}"] * 2
    assert stage.log.errors == 2


async def test_the_hook_of_a_deleted_pod_is_not_executed(stage: Stage) -> None:
    running = stage.start(a_pod(), hook("x", on_error="Fail"))
    await settled()
    stage.sight.observers["p"](None)
    (error,) = await running
    assert error.endswith("not executed: the pod was deleted: context canceled")


@pytest.mark.parametrize("successor", [False, True])
async def test_the_hook_of_a_pod_deleted_before_the_first_read_is_not_executed(
    stage: Stage, successor: bool
) -> None:
    after = a_pod(running=("app",))
    after["metadata"]["uid"] = "another"
    stage.sight.pods["p"] = after if successor else None
    (error,) = await stage.run(a_pod(), hook("x", on_error="Fail"))
    assert error.endswith("not executed: the pod was deleted: context canceled")
    assert stage.containers.ran == []


async def test_a_missed_deletion_is_found_by_the_next_read_and_the_wait_is_logged(fast: Stage) -> None:
    def vanish() -> None:
        if fast.clock.time >= 3 * LOOK_SECONDS:
            fast.sight.pods["p"] = None

    fast.clock.on_sleep = vanish
    await fast.run(a_pod(), hook("x"))
    assert fast.clock.time == 3 * LOOK_SECONDS
    assert fast.log_text().count("Waiting for containers to run") == 3


async def test_a_pod_that_cannot_be_read_is_still_watched(stage: Stage) -> None:
    stage.sight.error = Forbidden(403, message="you may not get pods")
    made = a_pod()
    running = stage.start(made, hook("x"))
    await settled()
    stage.sight.show(in_state(made, "app"))
    assert await running == []
    assert stage.containers.ran == ["ns-1/p/app: x"]
    assert "you may not get pods" in stage.log_text()


@pytest.mark.spec("RST-101", "API-037")
async def test_an_error_in_one_pod_ends_the_hooks_of_the_others(stage: Stage) -> None:
    stage.containers.behaviours["bad"] = Behaviour(code=1)
    waiting = stage.start(a_pod("b"), hook("x", on_error="Fail"))
    await settled()
    failing = await stage.run(a_pod("a", running=("app",)), hook("bad", on_error="Fail"))
    assert failing == ["pod ns-1/a: Hook h in container app failed: command terminated with exit code 1"]
    (error,) = await waiting
    assert error == (
        "pod ns-1/b: Hook h in container app in pod ns-1/b not executed: "
        "a restore hook failed: context canceled"
    )


async def test_a_command_that_runs_is_not_interrupted(stage: Stage) -> None:
    go = asyncio.Event()
    stage.containers.behaviours |= {"long": Behaviour(until=go), "bad": Behaviour(code=1)}
    busy = stage.start(a_pod("b", running=("app",)), hook("long"), hook("next", on_error="Fail"))
    await settled()
    await stage.run(a_pod("a", running=("app",)), hook("bad", on_error="Fail"))
    await settled()
    assert not busy.done()
    go.set()
    (error,) = await busy
    assert error.endswith("not executed: a restore hook failed: context canceled")
    assert stage.containers.ran == ["ns-1/b/app: long", "ns-1/a/app: bad"]


async def test_a_hook_after_a_failed_one_is_not_begun(stage: Stage) -> None:
    go = asyncio.Event()
    stage.containers.behaviours["bad"] = Behaviour(until=go, code=1)
    pods = [a_pod(f"p{n}", running=("app",)) for n in range(COMMANDS_AT_ONCE)]
    running = [stage.start(each, hook("bad", on_error="Fail")) for each in pods]
    await settled()
    late = stage.start(a_pod("late", running=("app",)), hook("x", on_error="Fail"))
    await settled()
    go.set()
    (error,) = await late
    assert error.endswith("not executed: a restore hook failed: context canceled")
    assert len(await asyncio.gather(*running)) == len(stage.containers.ran) == COMMANDS_AT_ONCE


@pytest.mark.spec("RST-109")
async def test_pods_created_after_an_error_get_no_hooks(stage: Stage) -> None:
    stage.containers.behaviours["bad"] = Behaviour(code=1)
    await stage.run(a_pod("a", running=("app",)), hook("bad", on_error="Fail"))
    (error,) = await stage.run(a_pod("b", running=("app",)), hook("x", on_error="Fail"))
    assert error.endswith("context canceled")
    assert stage.containers.ran == ["ns-1/a/app: bad"]


async def test_cancellation_ends_waiting_and_following(stage: Stage) -> None:
    running = stage.start(a_pod(), hook("x", on_error="Fail"))
    await settled()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stage.sight.observers == {}


# --- with the engine --------------------------------------------------------------------------------------


@pytest.mark.found("V30")
async def test_a_pod_that_will_never_start_is_given_up(stage: Stage) -> None:
    made, other = a_pod("p", "app"), a_pod("q", "app")
    given_up, waiting = stage.start(made, hook("a"), hook("b")), stage.start(other, hook("c"))
    await settled()

    stage.hooks.give_up(made, "its data will not come")
    errors = await given_up
    await settled()

    text = "Hook h in container app in pod ns-1/p not executed: its data will not come: context canceled"
    assert errors == [f"pod ns-1/p: {text}"] * 2
    assert stage.hooks.counts.failed == 2
    assert not waiting.done(), "another pod may start"
    waiting.cancel()
    await asyncio.wait([waiting])


@pytest.mark.spec("API-029")
@pytest.mark.found("U5")
@pytest.mark.parametrize(("namespace", "count"), [("m1", 1), ("ns-1", 0)])
async def test_hooks_of_both_kinds_see_the_new_namespace(
    harness: Harness, namespace: str, count: int
) -> None:
    containers, sight = FakeContainers(), FakeSight()
    harness.collaborators = RestoreCollaborators(
        exec_hooks=PodExecHooks(containers, sight, clock=StoppedTimer())
    )
    group = RestoreResourceHookSpec(
        name="both",
        included_namespaces=[namespace],
        post_hooks=[
            RestoreResourceHook(exec=ExecRestoreHook(command=["x"])),
            RestoreResourceHook(init=InitRestoreHook(init_containers=[{"name": "added"}])),
        ],
    )

    async def look(made: JSONObject) -> JSONObject:
        return in_state(made, "app")

    sight.look = look  # type: ignore[method-assign, assignment]
    results = await harness.restore(
        pod("p", spec={"containers": [{"name": "app"}]}),
        hooks=RestoreHooks(resources=[group]),
        namespace_mapping={"ns-1": "m1"},
    )

    assert (results.errors.count, results.warnings.count) == (0, 1 - count)
    assert containers.ran == ["m1/p/app: x"] * count
    init = harness.world.item("pods", "m1", "p")["spec"].get("initContainers", [])
    assert [each["name"] for each in init] == ["added"] * count


async def test_hooks_are_counted_and_a_defective_one_does_not_end_the_others(stage: Stage) -> None:
    made = a_pod("p", "app", running=("app",))
    await stage.run(made, hook("a", container="none", on_error="Fail"), hook("b"))

    assert stage.containers.ran == ["ns-1/p/app: b"]
    assert (stage.hooks.counts.attempted, stage.hooks.counts.failed) == (2, 1)


@pytest.mark.spec("BEY-040")
async def test_a_hook_can_wait_until_its_container_is_ready(stage: Stage) -> None:
    made = a_pod("p", "app", running=("app",))
    running = stage.start(made, hook("a", wait_for_ready=True))
    await settled()
    stage.sight.show(in_state(made, "app"))
    await settled()
    assert stage.containers.ran == []
    stage.sight.show(in_state(made, "app", ready=True))
    assert await running == []
    assert stage.containers.ran == ["ns-1/p/app: a"]


@pytest.mark.spec("BEY-040")
async def test_a_container_that_is_never_ready_fails_its_hook(fast: Stage) -> None:
    made = a_pod("p", "app", running=("app",))
    impatient = hook("a", wait_for_ready=True, wait_timeout=Duration.seconds(10), on_error="Fail")
    (error,) = await fast.run(made, impatient)
    assert "context deadline exceeded" in error
    assert fast.containers.ran == []
    status = fast.hooks.counts.status()
    assert status is not None
    assert (status.hooks_attempted, status.hooks_failed) == (1, 1)


def test_the_annotation_asks_for_a_ready_container() -> None:
    notes = {f"{POST}command": "a", f"{POST}wait-for-ready": "true"}
    (found,) = ExecHookFinder(RestoreHooks()).hooks_of(a_pod(annotations=notes))
    assert found.wait_for_ready


@pytest.mark.spec("AFT-170")
async def test_a_hook_of_a_sidecar_is_run_when_the_sidecar_runs(stage: Stage) -> None:
    made = a_pod()
    made["spec"]["initContainers"] = [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}]
    made["status"]["initContainerStatuses"] = [
        {"name": "setup", "ready": True, "state": {"terminated": {}}},
        {"name": "proxy", "ready": True, "state": {"running": {}}},
    ]

    assert await stage.run(made, hook("warm", container="proxy")) == []
    assert stage.containers.ran == ["ns-1/p/proxy: warm"]


# --- after an interruption --------------------------------------------------------------------------------


class Records:
    """What an interrupted restore has recorded of the hooks of a pod, and what is recorded now."""

    def __init__(self, **before: HookRecord) -> None:
        self.before = before
        self.noted: list[tuple[str, int]] = []
        self.commands: list[int] = []
        self.containers = FakeContainers()

    def known(self, key: HookKey) -> HookRecord | None:
        return self.before.get(f"h{key.position}")

    async def begins(self, key: HookKey) -> None:
        assert len(self.containers.commands) == len(self.noted) // 2, "recorded before it is sent"
        self.noted.append(("begins", key.position))

    async def ended(self, key: HookKey, failure: Notice | None) -> None:
        self.noted.append(("failed" if failure is not None else "ended", key.position))


async def test_hooks_that_an_interrupted_restore_began_are_not_run_again(stage: Stage) -> None:
    failure = Notice(Code.HOOK_FAILED, "Hook h in container app failed: exit code 3")
    records = Records(h0=HookRecord(), h1=HookRecord(failure=failure), h2=HookRecord(has_ended=False))
    stage.containers = records.containers
    stage.hooks = PodExecHooks(stage.containers, stage.sight, clock=stage.clock, records=records)
    hooks = [hook(name) for name in ("ended", "failed", "unknown", "new")]

    errors = await stage.run(a_pod("p", running=("app",)), *hooks)

    assert stage.containers.commands == [["new"]]
    assert records.noted == [("begins", 3), ("ended", 3)]
    assert [error.code for error in errors] == [Code.HOOK_FAILED, Code.HOOK_END_UNKNOWN]
    assert errors[0] == "pod ns-1/p: Hook h in container app failed: exit code 3"
    assert "was running when the restore was interrupted" in errors[1]
    counts = stage.hooks.counts
    assert (counts.attempted, counts.failed) == (4, 2)


async def test_the_unknown_end_of_a_hook_that_must_succeed_cancels_the_others(stage: Stage) -> None:
    records = Records(h0=HookRecord(has_ended=False))
    stage.hooks = PodExecHooks(stage.containers, stage.sight, clock=stage.clock, records=records)

    errors = await stage.run(a_pod("p", running=("app",)), hook("a", on_error="Fail"), hook("b"))

    assert records.noted == []
    assert [error.code for error in errors] == [Code.HOOK_END_UNKNOWN, Code.HOOKS_NOT_RUN]
