"""Hooks of a backup, from the request to the log."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.codec import encode
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import (
    Backup,
    BackupHooks,
    BackupResourceHook,
    BackupResourceHookSpec,
    ExecHook,
)
from pinnace.backup.collaborators import BackupCollaborators
from pinnace.hooks.backup_running import PodHookRunner
from pinnace.kube.errors import ExecTimeout, NotFound
from pinnace.kube.resources import PODS
from pinnace.plugins.protocols import ResourceSelector
from tests.support.cluster.containers import Behaviour, FakeContainers
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.backup.fakes import FakeAction, Outcome, a_backup, run_backup, thing

PRE, POST = "pre.hook.backup.velero.io/", "post.hook.backup.velero.io/"
LEGACY = "hook.backup.velero.io/"


def pod(name: str, *containers: str, **annotations: str) -> JSONObject:
    """A pod of namespace `ns` with these containers, `app` if none are named."""
    spec = {
        "containers": [{"name": container} for container in containers or ("app",)],
        "initContainers": [{"name": "setup"}],
        "ephemeralContainers": [{"name": "debugger"}],
    }
    return thing(PODS, name, "ns", annotations=annotations, spec=spec)


def hook(*command: str, **fields: Any) -> ExecHook:
    return ExecHook(command=list(command), **fields)


def with_hooks(*, pre: Sequence[ExecHook] = (), post: Sequence[ExecHook] = ()) -> Backup:
    def entries(hooks: Sequence[ExecHook]) -> list[BackupResourceHook]:
        return [BackupResourceHook(exec=hook) for hook in hooks]

    spec = BackupResourceHookSpec(name="group", pre=entries(pre), post=entries(post))
    return a_backup(hooks=BackupHooks(resources=[spec]))


async def back_up(
    tmp_path: Path, containers: FakeContainers, *pods: JSONObject, backup: Backup | None = None
) -> Outcome:
    cluster = ScriptedCluster(page_size=100).put_all(PODS, *pods)
    collaborators = BackupCollaborators(hooks=PodHookRunner(containers))
    return await run_backup(tmp_path, cluster, backup, collaborators=collaborators)


def annotated(prefix: str, **fields: str) -> dict[str, str]:
    return {prefix + name.replace("_", "-"): text for name, text in fields.items()}


async def test_the_output_of_a_hook_and_its_settings_are_logged(tmp_path: Path) -> None:
    containers = FakeContainers({"freeze": Behaviour(stdout=[b"frozen\n"], stderr=[b"slowly"])})
    outcome = await back_up(tmp_path, containers, pod("p"), backup=with_hooks(pre=[hook("freeze", "/data")]))
    assert containers.ran == ["ns/p/app: freeze /data"]
    (running,) = [line for line in outcome.log.splitlines() if "running exec hook" in line]
    for part in ("hookPhase=pre", "hookSource=backupSpec", "hookType=exec", "hookName=group", "name=p"):
        assert part in running
    (output,) = [line for line in outcome.log.splitlines() if "Output of hook" in line]
    assert all("hookCommand=\"['freeze', '/data']\"" in line for line in (running, output))
    assert "level=info" in output
    assert 'stdout="frozen\\n"' in output
    assert "stderr=slowly" in output
    assert (outcome.errors, outcome.warnings) == (0, 0)


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        (Behaviour(code=2), "command terminated with exit code 2"),
        (Behaviour(error=ExecTimeout("late")), "timed out after 30s"),
        (Behaviour(error=NotFound(404, message='pods "p" not found')), 'pods \\"p\\" not found'),
    ],
    ids=["exit-code", "timeout", "pod-gone"],
)
async def test_a_failure_keeps_the_output_and_names_the_hook(
    tmp_path: Path, behaviour: Behaviour, text: str
) -> None:
    says = Behaviour(code=behaviour.code, error=behaviour.error, stderr=[b"because"])
    containers = FakeContainers({"bad": says})
    backup = with_hooks(pre=[hook("bad", on_error="Fail")])
    outcome = await back_up(tmp_path, containers, pod("p"), backup=backup)
    assert outcome.items == []
    assert outcome.errors == 2
    assert "stderr=because" in outcome.log
    executing, backing_up = [line for line in outcome.log.splitlines() if "level=error" in line]
    assert "Error executing hook" in executing
    assert text in executing
    assert "Error backing up item" in backing_up
    assert f"pre hook group failed: {text}" in backing_up


async def test_a_post_hook_that_fails_keeps_the_pod_and_ends_its_phase(tmp_path: Path) -> None:
    containers = FakeContainers({"bad": Behaviour(code=1)})
    backup = with_hooks(post=[hook("bad", on_error="Fail"), hook("never")])
    outcome = await back_up(tmp_path, containers, pod("p"), backup=backup)
    assert containers.ran == ["ns/p/app: bad"]
    assert (outcome.items, outcome.errors) == (["pods/ns/p"], 2)
    assert "Error running post hooks for pod" in outcome.log


async def test_a_hook_without_an_error_mode_is_an_error_and_the_next_one_runs(tmp_path: Path) -> None:
    containers = FakeContainers({"bad": Behaviour(code=1)})
    backup = with_hooks(pre=[hook("bad"), hook("next")], post=[hook("bad"), hook("thaw")])
    outcome = await back_up(tmp_path, containers, pod("p"), backup=backup)
    assert [line.partition(": ")[2] for line in containers.ran] == ["bad", "next", "bad", "thaw"]
    assert (outcome.items, outcome.errors) == (["pods/ns/p"], 2)
    assert "hookOnError=Continue" in outcome.log


@pytest.mark.spec("API-025")
async def test_the_first_failure_that_matters_ends_the_phase(tmp_path: Path) -> None:
    containers = FakeContainers({"bad": Behaviour(code=1)})
    hooks = [
        hook("ok"),
        hook("bad", "1", on_error="Continue"),
        hook("bad", "2", on_error="Fail"),
        hook("never"),
    ]
    outcome = await back_up(tmp_path, containers, pod("p"), backup=with_hooks(pre=hooks, post=[hook("thaw")]))
    assert containers.ran == ["ns/p/app: ok", "ns/p/app: bad 1", "ns/p/app: bad 2"]
    assert outcome.items == []
    assert outcome.errors == 3


@pytest.mark.spec("API-026")
async def test_the_container_is_chosen_for_each_pod_and_the_spec_stays(tmp_path: Path) -> None:
    containers = FakeContainers()
    backup = with_hooks(pre=[hook("x")])
    before = encode(backup)
    outcome = await back_up(tmp_path, containers, pod("a", "one", "two"), pod("b", "three"), backup=backup)
    assert containers.ran == ["ns/a/one: x", "ns/b/three: x"]
    assert outcome.errors == 0
    assert encode(backup) == before


@pytest.mark.parametrize("wanted", ["nosuch", "setup", "debugger"])
@pytest.mark.parametrize(("on_error", "errors"), [("", 1), ("Continue", 1), ("Fail", 2)])
async def test_a_hook_for_a_missing_container_is_an_error_and_keeps_the_pod_unless_it_says_fail(
    tmp_path: Path, wanted: str, on_error: str, errors: int
) -> None:
    containers = FakeContainers()
    backup = with_hooks(pre=[hook("x", container=wanted, on_error=on_error)])
    outcome = await back_up(tmp_path, containers, pod("p"), backup=backup)
    assert containers.ran == []
    assert f'no such container: \\"{wanted}\\"' in outcome.log
    assert (outcome.items, outcome.errors) == ([] if on_error == "Fail" else ["pods/ns/p"], errors)


@pytest.mark.parametrize(
    ("command", "on_error", "kept"), [("[blarg", "", True), ("[blarg", "Fail", False), ("[1]", "", True)]
)
async def test_a_command_that_is_no_json_array_is_run_as_one_word_and_its_failure_keeps_the_pod(
    tmp_path: Path, command: str, on_error: str, kept: bool
) -> None:
    containers = FakeContainers({command: Behaviour(code=127)})
    fields = annotated(PRE, command=command, on_error=on_error)
    outcome = await back_up(tmp_path, containers, pod("p", **fields))
    assert containers.commands == [[command]]
    assert "The hook's command is not a JSON array of strings" in outcome.log
    assert (bool(outcome.items), outcome.warnings >= 1) == (kept, True)
    assert outcome.errors == (1 if kept else 2)


async def test_a_hook_without_container_or_command_is_an_error_and_the_pod_is_saved(tmp_path: Path) -> None:
    containers = FakeContainers()
    empty = thing(PODS, "empty", "ns", spec={"containers": []})
    no_command = pod("p", **annotated(PRE, command="[]", on_error="Continue"))
    outcome = await back_up(tmp_path, containers, empty, no_command, backup=with_hooks(pre=[hook("x")]))
    assert containers.ran == []
    assert "the pod has no container to run the hook in" in outcome.log
    assert "command is required" in outcome.log
    assert (outcome.items, outcome.errors) == (["pods/ns/empty", "pods/ns/p"], 2)


@pytest.mark.spec("API-022")
@pytest.mark.parametrize(
    ("command", "ran"),
    [
        ("/usr/bin/foo", ["/usr/bin/foo"]),
        ('["a","b","c"]', ["a", "b", "c"]),
        ("[blarg", ["[blarg"]),
        ("/usr/bin/data-populator /user-data full", ["/usr/bin/data-populator /user-data full"]),
    ],
)
async def test_a_command_in_an_annotation_is_a_json_array_or_one_word(
    tmp_path: Path, command: str, ran: list[str]
) -> None:
    containers = FakeContainers()
    await back_up(tmp_path, containers, pod("p", **annotated(PRE, command=command)))
    assert containers.commands == [ran]


@pytest.mark.spec("BKP-061", "API-023")
@pytest.mark.parametrize(
    ("timeout", "seconds", "warnings"), [("5m3s", 303.0, 0), ("invalid", 30.0, 1), ("-1s", None, 0)]
)
async def test_an_invalid_timeout_in_an_annotation_is_a_warning(
    tmp_path: Path, timeout: str, seconds: float | None, warnings: int
) -> None:
    containers = FakeContainers()
    outcome = await back_up(tmp_path, containers, pod("p", **annotated(PRE, command="x", timeout=timeout)))
    assert containers.timeouts == [seconds]
    assert outcome.warnings == warnings


@pytest.mark.spec("API-023")
@pytest.mark.parametrize(
    ("on_error", "kept"), [("Continue", True), ("Fail", False), ("bogus", True), ("", True)]
)
async def test_the_error_mode_in_an_annotation_decides_whether_the_pod_is_saved(
    tmp_path: Path, on_error: str, kept: bool
) -> None:
    containers = FakeContainers({"bad": Behaviour(code=1)})
    fields = annotated(PRE, command="bad", on_error=on_error)
    outcome = await back_up(tmp_path, containers, pod("p", **fields))
    assert bool(outcome.items) is kept
    assert "hookName=<from-annotation>" in outcome.log.replace('"', "")


async def test_hooks_run_in_their_container_with_their_timeout(tmp_path: Path) -> None:
    containers = FakeContainers()
    annotations = annotated(PRE, command="a", container="two")
    backup = with_hooks(post=[hook("b", container="two", timeout=Duration.minutes(1))])
    await back_up(tmp_path, containers, pod("p", "one", "two", **annotations), backup=backup)
    assert containers.ran == ["ns/p/two: a", "ns/p/two: b"]
    assert containers.timeouts == [30.0, 60.0]


@pytest.mark.spec("API-024")
@pytest.mark.parametrize(
    ("annotations", "ran"),
    [
        (annotated(LEGACY, command="old"), ["old", "post-spec"]),
        (annotated(PRE, command="a") | annotated(LEGACY, command="old"), ["a", "post-spec"]),
        (annotated(POST, command="b"), ["pre-spec", "b"]),
        (annotated(POST, command=""), ["pre-spec", "post-spec"]),
    ],
    ids=["legacy", "both", "post-only", "empty"],
)
async def test_annotations_take_the_place_of_the_spec_for_their_phase(
    tmp_path: Path, annotations: dict[str, str], ran: list[str]
) -> None:
    containers = FakeContainers()
    backup = with_hooks(pre=[hook("pre-spec")], post=[hook("post-spec")])
    await back_up(tmp_path, containers, pod("p", **annotations), backup=backup)
    assert [line.partition(": ")[2] for line in containers.ran] == ran


@pytest.mark.spec("API-024")
async def test_a_legacy_annotation_alone_runs_before_and_not_after(tmp_path: Path) -> None:
    containers = FakeContainers()
    await back_up(tmp_path, containers, pod("p", **annotated(LEGACY, command="old")))
    assert containers.ran == ["ns/p/app: old"]


async def test_pods_without_hooks_do_not_wait_for_those_with(tmp_path: Path) -> None:
    others_done = asyncio.Event()
    containers = FakeContainers({"freeze": Behaviour(until=others_done)})
    hooked = [pod(f"a{n}", **annotated(PRE, command="freeze")) for n in range(2)]
    cluster = ScriptedCluster(page_size=100).put_all(PODS, *hooked, *[pod(f"b{n}") for n in range(20)])
    action = FakeAction(selector=ResourceSelector(included_resources=("pods",)))

    def let_hooks_end(item: JSONObject) -> JSONObject:
        if len(action.seen) == 20:
            others_done.set()
        return item

    action.change = let_hooks_end
    collaborators = BackupCollaborators(hooks=PodHookRunner(containers))
    outcome = await run_backup(tmp_path, cluster, actions=[action], collaborators=collaborators)
    assert action.seen[-2:] == ["Pod/ns/a0", "Pod/ns/a1"]
    assert containers.most_at_once == 1, "hooks of two pods never overlap"
    assert len(outcome.items) == 22


@pytest.mark.spec("AFT-170")
async def test_a_hook_may_name_a_sidecar_and_no_other_init_container(tmp_path: Path) -> None:
    containers = FakeContainers({"freeze": Behaviour()})
    proxied = pod("p")
    proxied["spec"]["initContainers"] = [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}]
    hooks = [hook("freeze", container="proxy"), hook("freeze"), hook("freeze", container="setup")]
    outcome = await back_up(tmp_path, containers, proxied, backup=with_hooks(pre=hooks))

    assert containers.ran == ["ns/p/proxy: freeze", "ns/p/app: freeze"]
    assert outcome.log.count("no such container") == 1
