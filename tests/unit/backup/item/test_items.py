"""The item pipeline: actions, additional items, collaborators, renames, failures."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.meta import LabelSelector, LabelSelectorRequirement
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import (
    BackupHooks,
    BackupResourceHook,
    BackupResourceHookSpec,
    ExecHook,
    HookStatus,
)
from pinnace.archive.runlog import RunLog
from pinnace.backup.collaborators import (
    BackupCollaborators,
)
from pinnace.backup.errors import FatalBackupError
from pinnace.hooks.backup_selection import PodHook
from pinnace.hooks.errors import HookFailed
from pinnace.kube.errors import status_error
from pinnace.kube.resources import (
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    APIResource,
    velero,
)
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.builtin.backup.pod import PodAction
from pinnace.plugins.builtin.backup.pv import PersistentVolumeAction
from pinnace.plugins.protocols import BackupItemAction, ResourceIdentifier, ResourceSelector
from pinnace.volumes.errors import PodVolumeBackupFailed
from pinnace.volumes.pods.in_flight import VolumesInFlight
from tests.support.runs.backup_runs import FakeSnapshots, bound_pod, pod, volume
from tests.unit.backup.fakes import (
    FakeAction,
    a_backup,
    discovery_of,
    related,
    run_backup,
    two_a_page,
)


class FakeHooks:
    """Notes the hooks it is given; those whose first word is in `failing` fail."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.ran: list[str] = []

    async def run(self, hook: PodHook, pod: JSONObject, log: RunLog) -> None:
        self.ran.append(f"{pod['metadata']['name']}: {' '.join(hook.exec.command)}")
        if hook.exec.command[0] in self.failing:
            raise HookFailed(Notice(Code.DEFECT, f"{hook.exec.command[0]} failed"))


class FakePodVolumes:
    """Notes which volumes it is to save."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = errors
        self.saved: list[str] = []
        self.pods: list[JSONObject] = []
        self.pod_volume_backups: Sequence[JSONObject] = ()

    async def request(self, pod: JSONObject, volumes: Sequence[str], log: RunLog) -> VolumesInFlight:
        self.saved += [f"{pod['metadata']['name']}/{name}" for name in volumes]
        self.pods.append(pod)
        failed = [error for error in self.errors if isinstance(error, PodVolumeBackupFailed)]

        async def ended() -> Sequence[Exception]:
            return failed

        return VolumesInFlight([error for error in self.errors if error not in failed], ended)


SNAPSHOTS = {"volume_snapshot_locations": ["default"]}


def hooks(
    *, pre: Sequence[str] = (), post: Sequence[str] = (), on_error: str = "", **rest: Any
) -> BackupHooks:
    def entries(words: Sequence[str]) -> list[BackupResourceHook]:
        return [BackupResourceHook(exec=ExecHook(command=[word], on_error=on_error)) for word in words]

    return BackupHooks(
        resources=[BackupResourceHookSpec(name="h", pre=entries(pre), post=entries(post), **rest)]
    )


async def test_pod_comes_after_its_claim_and_volume(tmp_path: Path) -> None:
    actions: list[BackupItemAction] = [PodAction(), PersistentVolumeAction()]
    outcome = await run_backup(tmp_path, bound_pod(), actions=actions)
    assert outcome.items == ["persistentvolumes/pv", "persistentvolumeclaims/ns/c", "pods/ns/p"]


@pytest.mark.spec("BKP-041")
@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (ResourceSelector(included_resources=("pods",)), ["Pod/ns-1/p", "Pod/ns-2/p"]),
        (ResourceSelector(included_resources=("po",)), ["Pod/ns-1/p", "Pod/ns-2/p"]),
        (ResourceSelector(included_resources=("pv",)), ["PersistentVolume/v"]),
        (ResourceSelector(included_namespaces=("ns-1",)), ["Pod/ns-1/p"]),
        (ResourceSelector(included_resources=("unresolvable",)), []),
        (ResourceSelector(excluded_namespaces=("*",)), []),
        (ResourceSelector(label_selector="app=web", included_resources=("pods",)), ["Pod/ns-2/p"]),
        (ResourceSelector(), ["Pod/ns-1/p", "Pod/ns-2/p", "PersistentVolume/v", "Namespace/ns-1"]),
    ],
)
async def test_actions_see_what_they_select(
    tmp_path: Path, selector: ResourceSelector, expected: list[str]
) -> None:
    cluster = two_a_page().add_all(PODS, "ns-1/p").add_all(PODS, "ns-2/p", labels={"app": "web"})
    cluster.add_all(PERSISTENT_VOLUMES, "v").add_all(NAMESPACES, "ns-1")
    action = FakeAction(selector)
    outcome = await run_backup(tmp_path, cluster, actions=[action])
    assert action.seen == expected
    assert len(outcome.items) == 4


@pytest.mark.spec("BKP-042")
@pytest.mark.parametrize(
    "action",
    [
        FakeAction(selector_error=RuntimeError("broken")),
        FakeAction(ResourceSelector(label_selector="=invalid-selector")),
    ],
)
async def test_action_that_cannot_start_is_fatal(tmp_path: Path, action: FakeAction) -> None:
    with pytest.raises(FatalBackupError, match=r"action example\.io/fake"):
        await run_backup(tmp_path, two_a_page(), actions=[action])


@pytest.mark.spec("BKP-043")
async def test_action_renames_an_item(tmp_path: Path) -> None:
    def rename(item: JSONObject) -> JSONObject:
        metadata = {**item["metadata"], "name": "pod-1-updated", "namespace": "ns-1-updated"}
        return {**item, "metadata": metadata}

    cluster = two_a_page().add_all(PODS, "ns-1/pod-1")
    outcome = await run_backup(tmp_path, cluster, actions=[FakeAction(change=rename)])
    assert outcome.items == ["pods/ns-1-updated/pod-1-updated"]
    stored = outcome.item("resources/pods/namespaces/ns-1-updated/pod-1-updated.json")
    assert stored["metadata"]["name"] == "pod-1-updated"
    assert outcome.result.resource_list == {"v1/Pod": ["ns-1/pod-1"]}


async def test_two_items_never_share_a_path(tmp_path: Path) -> None:
    def rename(item: JSONObject) -> JSONObject:
        names = {"a": "c", "b": "a"}
        name = item["metadata"]["name"]
        return {**item, "metadata": {**item["metadata"], "name": names.get(name, name)}}

    cluster = two_a_page().add_all(CONFIGMAPS, "ns/a", "ns/b", "ns/c")
    outcome = await run_backup(tmp_path, cluster, actions=[FakeAction(change=rename)])
    assert outcome.items == ["configmaps/ns/c", "configmaps/ns/a"]
    assert outcome.errors == 1
    assert outcome.result.resource_list == {"v1/ConfigMap": ["ns/a", "ns/b"]}


@pytest.mark.parametrize("name", ["../../x", "", "a/b"])
async def test_action_cannot_leave_the_archive(tmp_path: Path, name: str) -> None:
    def rename(item: JSONObject) -> JSONObject:
        return {**item, "metadata": {**item["metadata"], "name": name}}

    outcome = await run_backup(
        tmp_path, two_a_page().add_all(PODS, "ns/p"), actions=[FakeAction(change=rename)]
    )
    assert (outcome.items, outcome.errors) == ([], 1)


async def test_the_path_has_the_version_that_the_item_had_before_its_actions(tmp_path: Path) -> None:
    action = FakeAction(change=lambda item: {**item, "apiVersion": "v9"})
    outcome = await run_backup(tmp_path, two_a_page().add_all(PODS, "ns/p"), actions=[action])
    assert "resources/pods/v1-preferredversion/namespaces/ns/p.json" in outcome.names


async def test_failing_action_fails_its_item_only(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(PODS, "ns/p").add_all(CONFIGMAPS, "ns/c")
    action = FakeAction(ResourceSelector(included_resources=("pods",)), error=KeyError("spec"))
    outcome = await run_backup(tmp_path, cluster, actions=[action])
    assert outcome.items == ["configmaps/ns/c"]
    assert outcome.errors == 1
    assert "error executing custom action (groupResource=pods, namespace=ns, name=p): 'spec'" in outcome.log
    assert outcome.result.resource_list == {"v1/ConfigMap": ["ns/c"]}
    assert outcome.result.progress.items_backed_up == 2


ADDITIONAL_CASES: dict[str, tuple[dict[str, Any], ResourceIdentifier, str, bool]] = {
    "already collected": ({}, related(CONFIGMAPS, "ns/c"), "configmaps/ns/c", True),
    "namespace not included": (
        {"included_namespaces": ["ns"]},
        related(CONFIGMAPS, "other/c"),
        "configmaps/other/c",
        False,
    ),
    "cluster-scoped with a namespace filter": (
        {"included_namespaces": ["ns"]},
        related(PERSISTENT_VOLUMES, "v"),
        "persistentvolumes/v",
        True,
    ),
    "resource not included": (
        {"included_resources": ["pods"]},
        related(CONFIGMAPS, "ns/c"),
        "configmaps/ns/c",
        False,
    ),
    "cluster resources off": (
        {"include_cluster_resources": False, "included_resources": ["pods", "pv"]},
        related(PERSISTENT_VOLUMES, "v"),
        "persistentvolumes/v",
        False,
    ),
    "labelled to be excluded": (
        {"included_namespaces": ["ns"]},
        related(PERSISTENT_VOLUMES, "hidden"),
        "persistentvolumes/hidden",
        False,
    ),
    "short name": (
        {"included_namespaces": ["ns"]},
        ResourceIdentifier(group="", resource="pv", namespace="", name="v"),
        "persistentvolumes/v",
        True,
    ),
}


@pytest.mark.spec("BKP-044")
@pytest.mark.parametrize("case", ADDITIONAL_CASES)
async def test_additional_items_are_saved_before_their_parent_if_the_filters_admit_them(
    tmp_path: Path, case: str
) -> None:
    spec, identifier, key, included = ADDITIONAL_CASES[case]
    cluster = (
        two_a_page().add_all(PODS, "ns/p").add_all(CONFIGMAPS, "ns/c", "other/c").add_all(NAMESPACES, "ns")
    )
    cluster.add_all(PERSISTENT_VOLUMES, "v")
    cluster.add_all(PERSISTENT_VOLUMES, "hidden", labels={"velero.io/exclude-from-backup": "true"})
    action = FakeAction(ResourceSelector(included_resources=("pods",)), additional=lambda item: [identifier])

    outcome = await run_backup(tmp_path, cluster, a_backup(**spec), actions=[action])

    # Only the action can have put it before its parent: items without actions are listed at the same time.
    found = [item for item in outcome.items if item in (key, "pods/ns/p")]
    assert found == ([key, "pods/ns/p"] if included else ["pods/ns/p"])
    is_filtered = not included and "labelled" not in case
    assert (outcome.errors, outcome.warnings) == (0, int(is_filtered))
    assert ("are left out by its filters" in outcome.log) == is_filtered
    assert ("left out, as it has the label" in outcome.log) == ("labelled" in case)


async def test_excluded_additional_items_are_one_warning_for_each_kind(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(PODS, *(f"ns/p{number}" for number in range(5)))
    action = FakeAction(
        ResourceSelector(included_resources=("pods",)),
        additional=lambda item: [
            related(SECRETS, f"ns/{item['metadata']['name']}"),
            related(CONFIGMAPS, "ns/c"),
        ],
    )

    outcome = await run_backup(tmp_path, cluster, a_backup(included_resources=["pods"]), actions=[action])

    assert (len(outcome.items), outcome.errors, outcome.warnings) == (5, 0, 2)
    assert "5 object(s) that others in this backup refer to are left out by its filters" in outcome.log
    assert "ns/p0, ns/p1, ns/p2 and 2 more" in outcome.log


@pytest.mark.spec("BKP-044")
async def test_additional_item_not_found_is_a_warning(tmp_path: Path) -> None:
    action = FakeAction(additional=lambda item: [related(CONFIGMAPS, "ns/absent")])
    outcome = await run_backup(tmp_path, two_a_page().add_all(PODS, "ns/p"), actions=[action])
    assert (outcome.items, outcome.errors, outcome.warnings) == (["pods/ns/p"], 0, 1)


@pytest.mark.parametrize(
    "identifier",
    [ResourceIdentifier(group="", resource="nonsense", namespace="", name="x"), related(SECRETS, "ns/s")],
)
async def test_an_additional_item_that_cannot_be_read_fails_its_parent(
    tmp_path: Path, identifier: ResourceIdentifier
) -> None:
    cluster = two_a_page().add_all(PODS, "ns/p")
    cluster.refuse("get", "secrets", status_error(500, {"message": "etcd is gone"}))
    action = FakeAction(ResourceSelector(included_resources=("pods",)), additional=lambda item: [identifier])
    outcome = await run_backup(tmp_path, cluster, actions=[action])
    assert (outcome.items, outcome.errors) == ([], 1)


async def test_a_forbidden_additional_item_is_an_error_and_its_parent_is_saved(tmp_path: Path) -> None:
    cluster = bound_pod()
    for verb in ("get", "list"):
        cluster.refuse(verb, "persistentvolumes", status_error(403, {"message": "volumes are forbidden"}))
    actions: list[BackupItemAction] = [PodAction(), PersistentVolumeAction()]

    outcome = await run_backup(
        tmp_path,
        cluster,
        a_backup(included_resources=["po", "pvc", "pv"], included_namespaces=["ns"]),
        actions=actions,
        discovery=discovery_of([PODS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES]),
    )

    assert (outcome.items, outcome.errors) == (["persistentvolumeclaims/ns/c", "pods/ns/p"], 2)
    assert "volumes are forbidden" in outcome.log


async def test_items_that_name_each_other_are_saved_once(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/a", "ns/b")
    other = {"a": "ns/b", "b": "ns/a"}
    action = FakeAction(additional=lambda item: [related(CONFIGMAPS, other[item["metadata"]["name"]])])
    outcome = await run_backup(tmp_path, cluster, actions=[action])
    assert outcome.items == ["configmaps/ns/b", "configmaps/ns/a"]


async def test_a_failing_snapshot_leaves_claim_and_pod_out(tmp_path: Path) -> None:
    snapshots = FakeSnapshots(RuntimeError("error taking snapshot of volume: no quota"))
    outcome = await run_backup(
        tmp_path,
        bound_pod(),
        a_backup(**SNAPSHOTS),
        actions=[PodAction(), PersistentVolumeAction()],
        collaborators=BackupCollaborators(snapshots=snapshots),
    )
    assert (outcome.items, outcome.errors, snapshots.taken) == ([], 1, ["pv"])
    assert outcome.result.resource_list == {}


@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        (SNAPSHOTS, ["pv"]),
        ({**SNAPSHOTS, "snapshot_volumes": True}, ["pv"]),
        ({**SNAPSHOTS, "snapshot_volumes": False}, []),
        ({}, []),
    ],
)
async def test_which_volumes_are_snapshotted(tmp_path: Path, spec: dict[str, Any], taken: list[str]) -> None:
    snapshots = FakeSnapshots()
    await run_backup(
        tmp_path, bound_pod(), a_backup(**spec), collaborators=BackupCollaborators(snapshots=snapshots)
    )
    assert snapshots.taken == taken


@pytest.mark.spec("BKP-051", "BKP-053")
async def test_volumes_saved_by_restic_are_not_snapshotted(tmp_path: Path) -> None:
    cluster = two_a_page().put_all(
        PODS, pod("ns/p", "c1", "c2", annotations={"backup.velero.io/backup-volumes": "vol-c1,vol-c2"})
    )
    cluster.put_all(
        PERSISTENT_VOLUMES, volume("pv-1", "ns/c1"), volume("pv-2", "ns/c2"), volume("pv-3", "ns/c3")
    )
    saver, snapshots = FakePodVolumes(), FakeSnapshots()
    await run_backup(
        tmp_path,
        cluster,
        a_backup(**SNAPSHOTS),
        collaborators=BackupCollaborators(pod_volumes=saver, snapshots=snapshots),
    )
    assert saver.saved == ["p/vol-c1", "p/vol-c2"]
    assert snapshots.taken == ["pv-3"]


RESTIC = {"default_volumes_to_restic": True}


@pytest.mark.spec("BKP-052", "BKP-067", "PVL-009")
async def test_shared_claim_is_saved_from_the_first_pod(tmp_path: Path) -> None:
    first = pod("ns/first", "c")
    first["spec"]["volumes"].append({"name": "again", "persistentVolumeClaim": {"claimName": "c"}})
    cluster = two_a_page().put_all(PODS, first, pod("ns/second", "c"))
    saver = FakePodVolumes()
    await run_backup(
        tmp_path, cluster, a_backup(**RESTIC), collaborators=BackupCollaborators(pod_volumes=saver)
    )
    assert saver.saved == ["first/vol-c", "first/again"]


async def test_volumes_are_saved_from_the_pod_before_the_actions(tmp_path: Path) -> None:
    def change_in_place(item: JSONObject) -> JSONObject:
        item["spec"]["volumes"].clear()
        return item

    annotations = {"backup.velero.io/backup-volumes": "vol-c"}
    cluster = two_a_page().put_all(PODS, pod("ns/p", "c", annotations=annotations))
    saver = FakePodVolumes()
    await run_backup(
        tmp_path,
        cluster,
        actions=[FakeAction(change=change_in_place)],
        collaborators=BackupCollaborators(pod_volumes=saver),
    )
    assert saver.saved == ["p/vol-c"]
    assert len(saver.pods[0]["spec"]["volumes"]) == 1


async def test_failing_pod_volume_leaves_the_pod_out(tmp_path: Path) -> None:
    saver = FakePodVolumes(RuntimeError("one"), RuntimeError("two"))
    cluster = two_a_page().put_all(PODS, pod("ns/p", "c"))
    outcome = await run_backup(
        tmp_path, cluster, a_backup(**RESTIC), collaborators=BackupCollaborators(pod_volumes=saver)
    )
    assert (outcome.items, outcome.errors) == ([], 2)


async def test_a_failed_pod_volume_backup_keeps_the_pod_and_its_other_volumes(tmp_path: Path) -> None:
    saver = FakePodVolumes(PodVolumeBackupFailed("pod volume backup failed: no room"))
    cluster = two_a_page().put_all(PODS, pod("ns/p", "c"))
    outcome = await run_backup(
        tmp_path, cluster, a_backup(**RESTIC), collaborators=BackupCollaborators(pod_volumes=saver)
    )
    assert (outcome.items, outcome.errors) == (["pods/ns/p"], 1)
    assert "pod volume backup failed: no room" in outcome.log


@pytest.mark.spec("PVL-010")
async def test_pod_that_does_not_run_keeps_its_claims_free(tmp_path: Path) -> None:
    cluster = two_a_page().put_all(PODS, pod("ns/p", "c", status={"phase": "Pending"}))
    cluster.put_all(PERSISTENT_VOLUMES, volume("pv", "ns/c"))
    saver, snapshots = FakePodVolumes(), FakeSnapshots()
    outcome = await run_backup(
        tmp_path,
        cluster,
        a_backup(**RESTIC, **SNAPSHOTS),
        collaborators=BackupCollaborators(pod_volumes=saver, snapshots=snapshots),
    )
    assert (saver.saved, snapshots.taken, outcome.warnings) == ([], ["pv"], 1)
    assert "Volume vol-c is not saved from its files: the pod is not running" in outcome.log
    assert outcome.items == ["pods/ns/p", "persistentvolumes/pv"]


async def test_claims_are_released_when_an_action_fails(tmp_path: Path) -> None:
    cluster = two_a_page().put_all(PODS, pod("ns/p", "c")).put_all(PERSISTENT_VOLUMES, volume("pv", "ns/c"))
    saver, snapshots = FakePodVolumes(), FakeSnapshots()
    action = FakeAction(ResourceSelector(included_resources=("pods",)), error=RuntimeError("no"))
    await run_backup(
        tmp_path,
        cluster,
        a_backup(**RESTIC, **SNAPSHOTS),
        actions=[action],
        collaborators=BackupCollaborators(pod_volumes=saver, snapshots=snapshots),
    )
    assert (saver.saved, snapshots.taken) == ([], ["pv"])


@pytest.mark.spec("BKP-056")
async def test_hooks_run_around_each_pod(tmp_path: Path) -> None:
    runner = FakeHooks()
    cluster = two_a_page().put_all(PODS, pod("ns-1/a"), pod("ns-2/b"))
    backup = a_backup(hooks=hooks(pre=["freeze", "sync"], post=["thaw"]))
    outcome = await run_backup(tmp_path, cluster, backup, collaborators=BackupCollaborators(hooks=runner))
    assert runner.ran == ["a: freeze", "a: sync", "a: thaw", "b: freeze", "b: sync", "b: thaw"]
    assert outcome.items == ["pods/ns-1/a", "pods/ns-2/b"]


@pytest.mark.found("X1")
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("has_runner", [True, False])
async def test_the_hooks_of_a_pod_that_has_ended_are_attempted_and_do_not_fail(
    tmp_path: Path, phase: str, has_runner: bool
) -> None:
    """Every Job leaves such pods; nothing can run in them."""
    runner = FakeHooks("freeze", "thaw")
    cluster = two_a_page().put_all(PODS, pod("ns/done", status={"phase": phase}))
    backup = a_backup(hooks=hooks(pre=["freeze"], post=["thaw"], on_error="Fail"))
    collaborators = BackupCollaborators(hooks=runner if has_runner else None)
    outcome = await run_backup(tmp_path, cluster, backup, collaborators=collaborators)
    assert (runner.ran, outcome.items) == ([], ["pods/ns/done"])
    assert (outcome.errors, outcome.warnings) == (0, 0)
    if has_runner:
        assert outcome.result.hooks == HookStatus(hooks_attempted=2, hooks_failed=0)
        assert "The pre hooks of this pod are not run, as it has ended" in outcome.log


@pytest.mark.spec("BKP-057")
@pytest.mark.parametrize(
    ("on_error", "items", "errors"),
    [
        ("Fail", ["pods/ns-2/b"], 2),
        ("", ["pods/ns-1/a", "pods/ns-2/b"], 1),
        ("Continue", ["pods/ns-1/a", "pods/ns-2/b"], 1),
    ],
)
async def test_a_failing_pre_hook_leaves_the_pod_out_if_its_mode_is_fail(
    tmp_path: Path, on_error: str, items: list[str], errors: int
) -> None:
    runner = FakeHooks("bad")
    cluster = two_a_page().put_all(PODS, pod("ns-1/a"), pod("ns-2/b"))
    backup = a_backup(hooks=hooks(pre=["bad"], on_error=on_error, included_namespaces=["ns-1"]))
    outcome = await run_backup(tmp_path, cluster, backup, collaborators=BackupCollaborators(hooks=runner))
    assert (outcome.items, outcome.errors) == (items, errors)


async def test_post_hooks_run_after_a_failing_action_and_count_too(tmp_path: Path) -> None:
    runner = FakeHooks("thaw")
    cluster = two_a_page().put_all(PODS, pod("ns/p"))
    outcome = await run_backup(
        tmp_path,
        cluster,
        a_backup(hooks=hooks(pre=["freeze"], post=["thaw"], on_error="Fail")),
        actions=[FakeAction(error=RuntimeError("no"))],
        collaborators=BackupCollaborators(hooks=runner),
    )
    assert runner.ran == ["p: freeze", "p: thaw"]
    assert outcome.errors == 3  # the hook's own line, and two reasons why the pod is not there


@pytest.mark.spec("BKP-060")
async def test_invalid_selector_of_a_hook_is_fatal(tmp_path: Path) -> None:
    selector = LabelSelector(
        match_expressions=[LabelSelectorRequirement(key="a", operator="nonexistent-operator")]
    )
    with pytest.raises(FatalBackupError, match="nonexistent-operator"):
        await run_backup(tmp_path, two_a_page(), a_backup(hooks=hooks(pre=["x"], label_selector=selector)))


async def test_invalid_selector_of_the_backup_is_fatal(tmp_path: Path) -> None:
    selector = LabelSelector(match_expressions=[LabelSelectorRequirement(key="a", operator="Near")])
    with pytest.raises(FatalBackupError, match="invalid label selector"):
        await run_backup(tmp_path, two_a_page(), a_backup(label_selector=selector))


async def test_hooks_not_run_are_a_warning_and_volumes_not_saved_are_errors(
    tmp_path: Path,
) -> None:
    annotations = {
        "backup.velero.io/backup-volumes": "vol-c,vol-d",
        "pre.hook.backup.velero.io/command": "freeze",
    }
    running = pod("ns/a", "c", annotations=annotations)
    ended = pod(
        "ns/b", "c", annotations={"backup.velero.io/backup-volumes": "vol-c"}, status={"phase": "Succeeded"}
    )
    cluster = two_a_page().put_all(PODS, running, ended)
    outcome = await run_backup(tmp_path, cluster, a_backup(hooks=hooks(post=["thaw"])))
    # The hook of the pod that has ended could not run with any server.
    assert (outcome.warnings, outcome.errors) == (2, 2)
    assert "2 backup hook(s) of this pod are not run" in outcome.log
    for name in ("vol-c", "vol-d"):
        assert f"The data of volume {name} is not saved: only the node agents of a server save" in outcome.log
    assert "Volume vol-c is not saved from its files: the pod is not running" in outcome.log
    assert outcome.items == ["pods/ns/a", "pods/ns/b"]


async def test_snapshots_without_a_snapshotter_are_warnings(tmp_path: Path) -> None:
    outcome = await run_backup(tmp_path, bound_pod(), a_backup(**SNAPSHOTS))
    assert outcome.warnings == 1
    assert "No snapshot of this volume is taken" in outcome.log


WIDGETS = APIResource(group="example.com", version="v1", name="widgets", kind="Widget", namespaced=True)


@pytest.mark.spec("BKP-040")
@pytest.mark.parametrize(
    ("include_cluster", "namespaces", "expected"),
    [
        (None, [], ["backups", "test", "volumesnapshotlocations"]),
        (False, [], []),
        (True, [], ["backups", "test", "volumesnapshotlocations"]),
        (None, ["foo"], ["volumesnapshotlocations"]),
        (False, ["foo"], []),
        (True, ["foo"], ["backups", "test", "volumesnapshotlocations"]),
    ],
)
async def test_definitions_of_collected_custom_resources_are_in_the_backup(
    tmp_path: Path, include_cluster: bool | None, namespaces: list[str], expected: list[str]
) -> None:
    names = ["backups.velero.io", "volumesnapshotlocations.velero.io", "test.velero.io"]
    cluster = two_a_page().add_all(CUSTOM_RESOURCE_DEFINITIONS, *names).add_all(NAMESPACES, "foo")
    cluster.add_all(velero("volumesnapshotlocations"), "foo/vsl-1")
    backup = a_backup(
        included_namespaces=namespaces, include_cluster_resources=include_cluster, excluded_resources=["ns"]
    )
    outcome = await run_backup(tmp_path, cluster, backup)
    prefix = "customresourcedefinitions.apiextensions.k8s.io/"
    assert [item.removeprefix(prefix) for item in outcome.items if item.startswith(prefix)] == [
        f"{name}.velero.io" for name in expected
    ]


async def test_definition_that_is_not_included_stays_out(tmp_path: Path) -> None:
    cluster = (
        two_a_page().add_all(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com").add_all(WIDGETS, "ns/w")
    )
    served = discovery_of([CUSTOM_RESOURCE_DEFINITIONS, WIDGETS])
    outcome = await run_backup(tmp_path, cluster, a_backup(included_resources=["widgets"]), discovery=served)
    assert outcome.items == ["widgets.example.com/ns/w"]


async def test_definition_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    leases = APIResource(
        group="coordination.k8s.io", version="v1", name="leases", kind="Lease", namespaced=True
    )
    cluster = two_a_page().add_all(NAMESPACES, "ns").add_all(WIDGETS, "ns/w").add_all(leases, "ns/built-in")
    cluster.refuse("get", "customresourcedefinitions", status_error(403, {"message": "no"}))
    served = discovery_of([CUSTOM_RESOURCE_DEFINITIONS, WIDGETS, leases])
    outcome = await run_backup(tmp_path, cluster, a_backup(included_namespaces=["ns"]), discovery=served)
    assert sorted(outcome.items) == ["leases.coordination.k8s.io/ns/built-in", "widgets.example.com/ns/w"]
    assert outcome.errors == 1, "only that of the definition of widgets"


async def test_lists_ahead_are_stopped_with_the_backup(tmp_path: Path) -> None:
    """A cancelled run leaves no task: the guard of all async tests looks."""
    waiting, started = asyncio.Event(), asyncio.Event()

    class Stuck(FakeAction):
        async def execute(
            self, item: JSONObject, backup: object
        ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
            started.set()
            await waiting.wait()
            return item, ()

    cluster = two_a_page().add_all(PODS, "ns/p").add_all(CONFIGMAPS, "ns/c")
    task = asyncio.create_task(run_backup(tmp_path, cluster, actions=[Stuck()]))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "contents.tar.gz").exists()


async def test_debug_lines_name_each_item_and_info_has_none(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(PODS, "ns/p", annotations={"backup.velero.io/backup-volumes": "v"})
    cluster.add_all(CONFIGMAPS, "ns/c")

    quiet = await run_backup(tmp_path, cluster)
    loud = await run_backup(tmp_path, cluster, log_level="debug")

    for text in ("Processing item", "Backing up item"):
        assert text not in quiet.log
        lines = [line for line in loud.log.splitlines() if f'msg="{text}"' in line]
        assert sorted(line.rpartition("resource=")[2] for line in lines) == ["configmaps", "pods"]
        assert all("namespace=ns" in line for line in lines)


@pytest.mark.spec("BEY-038")
@pytest.mark.parametrize(("on_error", "is_saved"), [("Fail", False), ("Continue", True)])
async def test_hooks_are_counted_also_those_that_a_failure_skips(
    tmp_path: Path, on_error: str, is_saved: bool
) -> None:
    backup = a_backup(hooks=hooks(pre=["bad", "good"], on_error=on_error))
    outcome = await run_backup(
        tmp_path, bound_pod(), backup, collaborators=BackupCollaborators(hooks=FakeHooks("bad"))
    )

    assert outcome.result.hooks is not None
    assert (outcome.result.hooks.hooks_attempted, outcome.result.hooks.hooks_failed) == (2, 1)
    assert ("pods/ns/p" in outcome.items) is is_saved
    assert "persistentvolumeclaims/ns/c" in outcome.items
    assert outcome.errors >= 1


async def test_a_backup_without_hooks_has_no_counts(tmp_path: Path) -> None:
    outcome = await run_backup(tmp_path, bound_pod(), collaborators=BackupCollaborators(hooks=FakeHooks()))
    assert outcome.result.hooks is None
