"""Pure choices: hooks of a pod, volumes of a pod, namespaces and resources of a plan."""

from typing import Any

import pytest

from pinnace.api.meta import LabelSelector
from pinnace.api.pod_hooks import parse_command
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.resource_filters import CommonFilter
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import (
    BackupHooks,
    BackupResourceHook,
    BackupResourceHookSpec,
    BackupSpec,
    ExecHook,
)
from pinnace.backup.namespaces import NamespaceFacts
from pinnace.backup.plan import BackupFilter, plan_collection
from pinnace.hooks.backup_selection import HookChoice, HookPhase, hook_of_annotations
from pinnace.kube.resources import NAMESPACES, PERSISTENT_VOLUMES, PODS
from pinnace.volumes.selection import HandledClaims, wanted_volumes
from tests.unit.backup.fakes import discovery_of, thing

COMMAND = "hook.backup.velero.io/command"


@pytest.mark.spec("BKP-058")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[blarg", ["[blarg"]),
        ('["a","b","c"]', ["a", "b", "c"]),
        ("/usr/bin/foo", ["/usr/bin/foo"]),
        ("[1, 2]", ["[1, 2]"]),
        ("a b", ["a b"]),
    ],
)
def test_commands_of_annotations(text: str, words: list[str]) -> None:
    assert parse_command(text) == words


@pytest.mark.spec("BKP-059")
def test_legacy_annotation_is_for_pre_only() -> None:
    hook = hook_of_annotations(HookPhase.PRE, {COMMAND: "old"})
    assert hook is not None
    assert hook.exec.command == ["old"]
    assert hook_of_annotations(HookPhase.POST, {COMMAND: "old"}) is None
    both = {COMMAND: "old", f"pre.{COMMAND}": "new"}
    hook = hook_of_annotations(HookPhase.PRE, both)
    assert hook is not None
    assert hook.exec.command == ["new"]


@pytest.mark.parametrize(
    ("text", "timeout", "bad"), [("5m3s", Duration.seconds(303), False), ("invalid", Duration(), True)]
)
def test_timeouts_of_annotations(text: str, timeout: Duration, bad: bool) -> None:
    hook = hook_of_annotations(
        HookPhase.PRE, {f"pre.{COMMAND}": "x", "pre.hook.backup.velero.io/timeout": text}
    )
    assert hook is not None
    assert (hook.exec.timeout, bool(hook.warnings)) == (timeout, bad)


def choice(**entry: Any) -> HookChoice:
    hook = BackupResourceHook(exec=ExecHook(command=["spec"]))
    without_exec = BackupResourceHook()
    spec = BackupResourceHookSpec(name="entry", pre=[hook, without_exec], post=[hook], **entry)
    return HookChoice.of(BackupHooks(resources=[spec]), canonical=discovery_of().canonical)


@pytest.mark.parametrize(
    ("entry", "runs"),
    [
        ({}, True),
        ({"included_namespaces": ["ns"]}, True),
        ({"included_namespaces": ["other"]}, False),
        pytest.param({"excluded_namespaces": ["*"]}, False, marks=pytest.mark.spec("BKP-070")),
        ({"included_resources": ["po"]}, True),
        ({"included_resources": ["deployments"]}, False),
        ({"label_selector": LabelSelector(match_labels={"app": "web"})}, True),
        ({"label_selector": LabelSelector(match_labels={"app": "db"})}, False),
    ],
)
def test_which_hooks_of_the_spec_run(entry: dict[str, Any], runs: bool) -> None:
    pod = thing(PODS, "p", "ns", labels={"app": "web"})
    found = choice(**entry).for_pod(HookPhase.PRE, pod)
    assert [hook.exec.command for hook in found] == ([["spec"]] if runs else [])


@pytest.mark.spec("BKP-059")
def test_annotation_replaces_the_hooks_of_its_phase() -> None:
    pod = thing(PODS, "p", "ns", annotations={f"pre.{COMMAND}": "mine"})
    assert [hook.exec.command for hook in choice().for_pod(HookPhase.PRE, pod)] == [["mine"]]
    assert [hook.exec.command for hook in choice().for_pod(HookPhase.POST, pod)] == [["spec"]]


@pytest.mark.spec("BKP-054")
def test_volumes_of_a_pod_unless_opted_out() -> None:
    volumes = [
        {"name": "resticPV1", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "resticPV2", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": "/"}},
        {"name": "secret", "secret": {}},
        {"name": "map", "configMap": {}},
        {"name": "projected", "projected": {}},
        {"name": "default-token-5xq45", "emptyDir": {}},
        {"name": "left-out", "emptyDir": {}},
        {"name": "resticPV3", "csi": {}},
    ]
    annotations = {"backup.velero.io/backup-volumes-excludes": "left-out,other"}
    pod = thing(PODS, "p", "ns", annotations=annotations, spec={"volumes": volumes})
    assert wanted_volumes(pod, opt_out=True) == ["resticPV1", "resticPV2", "resticPV3"]
    assert wanted_volumes(pod, opt_out=False) == []


@pytest.mark.parametrize(("text", "names"), [("", []), ("a", ["a"]), ("a, b", ["a", " b"])])
def test_volumes_of_a_pod_that_opted_in(text: str, names: list[str]) -> None:
    pod = thing(PODS, "p", "ns", annotations={"backup.velero.io/backup-volumes": text})
    assert wanted_volumes(pod, opt_out=False) == names


def test_claims_without_volumes_or_spec() -> None:
    claims = HandledClaims()
    assert claims.choose(thing(PODS, "p", "ns"), ["unknown"]) == ["unknown"]
    assert not claims.has("ns", "unknown")


EVERY_KIND = CommonFilter(resources=IncludesExcludes(), include_cluster=None)


@pytest.mark.parametrize(
    ("spec", "listed"),
    [
        ({}, None),
        ({"included_namespaces": ["*"]}, None),
        ({"excluded_namespaces": ["a"]}, None),
        ({"included_namespaces": ["b", "a"]}, ("a", "b")),
        ({"included_namespaces": ["b", "a"], "excluded_namespaces": ["b*"]}, ("a",)),
        ({"included_namespaces": ["app-*", "z"]}, ("app-1", "app-2", "z")),
        ({"included_namespaces": ["a", "hidden"]}, ("a",)),
    ],
)
def test_which_namespaces_are_listed(spec: dict[str, Any], listed: tuple[str, ...] | None) -> None:
    facts = NamespaceFacts(existing=frozenset({"app-1", "app-2", "other"}), labelled=frozenset({"hidden"}))
    scope = BackupFilter.of(BackupSpec(**spec), resources=EVERY_KIND, facts=facts)
    assert scope.listed_namespaces == listed


def test_unresolvable_versions_are_reported_not_planned() -> None:
    scope = BackupFilter.of(BackupSpec(), resources=EVERY_KIND, facts=NamespaceFacts())
    plan = plan_collection([PODS, NAMESPACES, PERSISTENT_VOLUMES], scope, lambda name: None)
    assert plan.resources == ()
    assert plan.unresolved == (PODS, NAMESPACES, PERSISTENT_VOLUMES)
