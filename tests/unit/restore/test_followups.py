"""The follow-ups of a created object: definitions, pod volumes, hooks."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest

from pinnace.api.codec import encode
from pinnace.api.meta import LabelSelector, ObjectMeta, ObjectReference
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.pod_volume import PodVolumeBackup, PodVolumeBackupSpec, PodVolumeBackupStatus
from pinnace.api.velero.restore import (
    ExecRestoreHook,
    InitRestoreHook,
    RestoreHooks,
    RestoreResourceHook,
    RestoreResourceHookSpec,
)
from pinnace.api.volume_info import BackupVolumeInfo, PersistentVolumeInfo
from pinnace.archive.eventlog import EventLog
from pinnace.catalogue.pod_volumes import SavedPodVolumes, pod_volumes
from pinnace.hooks.restore_selection import PodExecHook
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Forbidden, Gone, ServerFault
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.collaborators import RestoreCollaborators
from pinnace.restore.definitions import is_ready
from pinnace.restore.request import RestoreSettings
from pinnace.runs.activity import Activity
from tests.support.cluster.server_rules import established
from tests.unit.restore.world import (
    Harness,
    claim,
    deployment,
    discovery,
    obj,
    pod,
)


def definition(name: str = "ships.sea.io") -> dict[str, Any]:
    plural, _, group = name.partition(".")
    spec = {"group": group, "names": {"plural": plural, "kind": plural.title()}}
    return obj("CustomResourceDefinition", name, api_version="apiextensions.k8s.io/v1", spec=spec)


def refuse_names(crd: dict[str, Any]) -> None:
    condition = {"type": "NamesAccepted", "status": "False", "message": '"ships" is already in use'}
    crd["status"] = {"conditions": [condition]}


SHIPS = ("sea.io", "v1", "ships", "Ship", True)
KEY = ("customresourcedefinitions.apiextensions.k8s.io", "", "ships.sea.io")


def test_a_definition_needs_both_conditions() -> None:
    assert is_ready({"status": established()})
    assert not is_ready({})
    assert not is_ready({"status": {"conditions": []}})
    assert not is_ready({"status": {"conditions": [{"type": "Established", "status": "True"}]}})
    with pytest.raises(ValueError, match="conditions"):
        is_ready({"status": {"conditions": ["Established"]}})


async def test_a_definition_that_never_gets_ready_is_an_error_of_the_cluster(harness: Harness) -> None:
    del harness.world.defaults[KEY[0]]

    results = await harness.restore(definition())

    (problem,) = results.errors.cluster
    assert problem.startswith(
        "error verifying custom resource definition ships.sea.io is ready to use: it was not established"
    )
    assert 60 <= harness.clock.time < 90, "ten minutes only if objects wait for it"
    assert harness.loads == 1, "its kind is not waited for in discovery"


async def test_a_definition_that_cannot_be_read_is_an_error(harness: Harness) -> None:
    harness.world.refuse("watch", "", Forbidden(403, message="you may not"))
    harness.world.refuse("get", KEY, Forbidden(403, message="you may not"))

    results = await harness.restore(definition())

    assert results.errors.cluster == [
        "error verifying custom resource definition ships.sea.io is ready to use: you may not"
    ]


async def test_an_existing_definition_that_is_ready_is_not_waited_for(harness: Harness) -> None:
    harness.world.put(definition() | {"status": established()})

    results = await harness.restore(definition())

    assert results.empty
    assert harness.world.gets == [KEY], "looked at once, to compare"


async def test_waits_for_definitions_overlap(harness: Harness) -> None:
    del harness.world.defaults[KEY[0]]

    results = await harness.restore(*(definition(f"kind{index}.sea.io") for index in range(5)))

    assert results.errors.count == 5
    first = [key[2] for key in harness.world.gets[:5]]
    assert len(set(first)) == 5, "all were asked for before any was asked for again"


class SlowServer:
    """Establishes one definition at a time, each in so many seconds, in the order of their creation."""

    def __init__(self, harness: Harness, seconds_each: float) -> None:
        self._harness = harness
        self._seconds_each = seconds_each
        del harness.world.defaults[KEY[0]]
        harness.clock.ticks.append(self._establish)

    def _due(self) -> list[dict[str, Any]]:
        number = int(self._harness.clock.time / self._seconds_each)
        return self._harness.world.of(CUSTOM_RESOURCE_DEFINITIONS)[:number]

    def _establish(self) -> None:
        for crd in self._due():
            if "status" not in crd:
                name = crd["metadata"]["name"]
                self._harness.world.change(CUSTOM_RESOURCE_DEFINITIONS, name, status=established())

    async def load(self) -> Discovery:
        """Discovery shows a kind when it is established."""
        crds = self._due()
        more = [
            (crd["spec"]["group"], "v1", crd["spec"]["names"]["plural"], crd["spec"]["names"]["kind"], True)
            for crd in crds
        ]
        return discovery(*more)


def fleet(count: int) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """So many definitions, and an object of each kind."""
    definitions = [definition(f"kind{number:03}.sea.io") for number in range(count)]
    files = {
        f"resources/kind{number:03}.sea.io/namespaces/ns-1/one.json": orjson.dumps(
            obj(f"Kind{number:03}", "one", "ns-1", api_version="sea.io/v1")
        )
        for number in range(count)
    }
    return definitions, files


@pytest.mark.found("R8")
async def test_each_of_many_definitions_has_its_time_on_a_slow_server(harness: Harness) -> None:
    """With one minute for all from their creation, 125 of 140 timed out with their objects."""
    harness.load_discovery = SlowServer(harness, 4.0).load  # type: ignore[method-assign]
    definitions, files = fleet(40)
    activity = Activity()
    harness.request_fields = {"activity": activity}
    shown: list[str] = []
    harness.clock.on_sleep = lambda: shown.extend(activity.waiting)

    results = await harness.restore(*definitions, files=files)

    assert results.to_dict() == {"errors": {}, "warnings": {}}
    assert len([key for key in harness.world.created if key[2] == "one"]) == 40
    assert shown[0] == "40 of 40 definitions to be established"
    assert int(shown[-1].removesuffix(" of 40 definitions to be established")) < 10
    assert activity.waiting == []
    reads = [key for key in harness.world.gets if key[0] == KEY[0]]
    watches = [each.resource.name for each in harness.world.done("watch")]
    assert (len(reads), watches) == (40, ["customresourcedefinitions"])


@pytest.mark.found("R8")
async def test_without_a_watch_definitions_are_read_again_until_they_are_ready(harness: Harness) -> None:
    harness.world.refuse("watch", "", Gone(410, message="too old resource version"))
    harness.load_discovery = SlowServer(harness, 5.0).load  # type: ignore[method-assign]
    definitions, files = fleet(3)
    results = await harness.restore(*definitions, files=files)
    assert results.to_dict() == {"errors": {}, "warnings": {}}


@pytest.mark.found("R8")
async def test_a_definition_that_is_deleted_meanwhile_is_not_waited_for(harness: Harness) -> None:
    del harness.world.defaults[KEY[0]]
    harness.clock.ticks.append(lambda: harness.world.remove(CUSTOM_RESOURCE_DEFINITIONS, "ships.sea.io"))

    results = await harness.restore(definition())
    (problem,) = results.errors.cluster
    assert problem.endswith(
        'is ready to use: customresourcedefinitions.apiextensions.k8s.io "ships.sea.io" not found'
    )
    assert harness.clock.time < 30


async def test_objects_of_a_late_definition_are_restored_at_the_end(harness: Harness) -> None:
    """One definition takes five minutes: the restore goes on after one, and comes back to its objects."""
    server = SlowServer(harness, 300.0)
    harness.load_discovery = server.load  # type: ignore[method-assign]
    definitions, files = fleet(1)

    results = await harness.restore(*definitions, pod("p"), files=files)

    assert results.to_dict() == {"errors": {}, "warnings": {}}
    order = [kind for kind, _, _ in harness.world.created]
    assert order.index("pods") < order.index("kind000.sea.io")
    assert harness.clock.time < 310


@pytest.mark.found("R7")
async def test_what_comes_last_comes_after_the_objects_of_late_definitions(harness: Harness) -> None:
    """Webhooks are such kinds: their servers do not run yet, so that they refuse what comes after them."""
    harness.load_discovery = SlowServer(harness, 300.0).load  # type: ignore[method-assign]
    harness.options = RestoreSettings(last=("deploy", "kind000.sea.io"))
    definitions, files = fleet(1)

    results = await harness.restore(*definitions, pod("p"), deployment("last"), files=files)

    assert results.to_dict() == {"errors": {}, "warnings": {}}
    order = [kind for kind, _, _ in harness.world.created]
    assert order[-3:] == ["pods", "kind000.sea.io", "deployments.apps"]
    assert harness.numbers.published[-1] == (5, 5)


async def test_definitions_have_ten_minutes_in_all(harness: Harness) -> None:
    harness.load_discovery = SlowServer(harness, 140.0).load  # type: ignore[method-assign]
    definitions, files = fleet(6)

    results = await harness.restore(*definitions, pod("p"), files=files)

    late = [f"kind{number:03}.sea.io" for number in (4, 5)]
    start = "error verifying custom resource definition"
    assert [problem.partition(" is ready")[0] for problem in results.errors.cluster] == [
        f"{start} {name}" for name in late
    ]
    assert 600 <= harness.clock.time < 700
    assert results.errors.namespaces["ns-1"] == [
        f"error restoring {name}/ns-1/one: the cluster does not serve {name}" for name in late
    ]
    assert harness.world.created_of("pods") == ["ns-1/p"]
    assert len([key for key in harness.world.created if key[2] == "one"]) == 4


async def test_a_definition_whose_names_are_taken_is_not_waited_for(harness: Harness) -> None:
    harness.world.defaults[KEY[0]] = refuse_names
    custom = orjson.dumps(obj("Ships", "one", "ns-1", api_version="sea.io/v1"))
    harness.load_discovery = lambda: _answer(discovery())  # type: ignore[method-assign]

    results = await harness.restore(
        definition(), files={"resources/ships.sea.io/namespaces/ns-1/one.json": custom}
    )

    assert results.errors.cluster == [
        "error verifying custom resource definition ships.sea.io is ready to use:"
        ' NamesAccepted is False: "ships" is already in use'
    ]
    assert results.errors.namespaces["ns-1"] == [
        "error restoring ships.sea.io/ns-1/one: the cluster does not serve ships.sea.io"
    ]
    assert harness.clock.time < 60


async def test_names_that_become_free_during_the_restore_let_the_objects_come_back(harness: Harness) -> None:

    def free_names(created: dict[str, Any]) -> None:
        if created["kind"] == "Pod":
            harness.world.change(CUSTOM_RESOURCE_DEFINITIONS, "ships.sea.io", status=established())

    harness.world.defaults[KEY[0]] = refuse_names
    harness.world.on_create = free_names
    harness.load_discovery = lambda: _answer(  # type: ignore[method-assign]
        discovery(SHIPS) if harness.world.created_of("pods") else discovery()
    )
    custom = orjson.dumps(obj("Ship", "one", "ns-1", api_version="sea.io/v1"))

    results = await harness.restore(
        definition(), pod("p"), files={"resources/ships.sea.io/namespaces/ns-1/one.json": custom}
    )

    assert results.empty
    assert harness.world.created_of("ships.sea.io") == ["ns-1/one"]


async def _answer(found: Discovery) -> Discovery:
    return found


async def test_a_definition_of_an_earlier_try_that_is_not_ready_is_waited_for(harness: Harness) -> None:
    harness.world.put(definition())

    def establish() -> None:
        if harness.clock.time > 30 and "status" not in harness.world.item(*KEY):
            harness.world.change(CUSTOM_RESOURCE_DEFINITIONS, "ships.sea.io", status=established())

    harness.clock.ticks.append(establish)
    custom = orjson.dumps(obj("Ships", "one", "ns-1", api_version="sea.io/v1"))

    results = await harness.restore(
        definition(), files={"resources/ships.sea.io/namespaces/ns-1/one.json": custom}
    )

    assert results.empty
    assert harness.world.created_of("ships.sea.io") == ["ns-1/one"]
    assert 30 < harness.clock.time < 40


async def test_a_definition_that_cannot_be_read_for_a_moment_is_read_again(
    harness: Harness,
) -> None:
    harness.world.refuse("get", KEY, ServerFault(503, message="etcd has no leader"))

    def recover() -> None:
        if harness.clock.time > 5:
            harness.world.relent()

    harness.clock.on_sleep = recover

    results = await harness.restore(definition())

    assert results.empty


async def test_a_failing_discovery_is_a_warning_and_the_restore_continues(harness: Harness) -> None:
    async def fail() -> Any:
        raise Forbidden(403, message="you may not")

    harness.load_discovery = fail  # type: ignore[method-assign]

    results = await harness.restore(definition(), pod("p"))

    assert results.warnings.cluster == ["refresh discovery after restoring CRDs: you may not"]
    assert harness.world.created_of("pods") == ["ns-1/p"]


def pod_volume_backup(volume: str = "data", snapshot_id: str = "snap", name: str = "p") -> PodVolumeBackup:
    return PodVolumeBackup(
        metadata=ObjectMeta(name="pvb"),
        spec=PodVolumeBackupSpec(pod=ObjectReference(namespace="ns-1", name=name), volume=volume),
        status=PodVolumeBackupStatus(snapshot_id=snapshot_id),
    )


@pytest.mark.parametrize(
    ("backups", "fields", "expected"),
    [
        ([pod_volume_backup()], {}, {"data": "snap"}),
        ([pod_volume_backup(snapshot_id="")], {}, {}),
        ([pod_volume_backup(name="other")], {}, {}),
        ([pod_volume_backup(), pod_volume_backup(snapshot_id="later")], {}, {"data": "later"}),
        ([pod_volume_backup()], {"spec": {"volumes": [{"name": "data", "projected": {}}]}}, {}),
        ([pod_volume_backup()], {"spec": {"volumes": [{"name": "data", "downwardAPI": {}}]}}, {}),
        ([], {"annotations": {"snapshot.velero.io/old": "id", "x": "y"}}, {"old": "id"}),
        ([pod_volume_backup()], {"annotations": {"snapshot.velero.io/old": "id"}}, {"data": "snap"}),
    ],
    ids=["one", "empty", "other-pod", "twice", "projected", "downward-api", "annotation", "annotation-loses"],
)
def test_the_snapshots_of_a_pods_volumes_are_found(
    backups: Any, fields: Any, expected: dict[str, str]
) -> None:
    saved_volumes = SavedPodVolumes(pod_volumes(map(encode, backups)))
    found = saved_volumes.snapshots(pod("p", "m1", **fields), "ns-1")
    assert {volume: saved.id for volume, saved in found.items()} == expected


class Filler:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, SavedSnapshot]]] = []

    async def restore_pod_volumes(
        self, pod: dict[str, Any], original_namespace: str, snapshots: Mapping[str, SavedSnapshot]
    ) -> list[str]:
        self.asked.append((pod["metadata"]["uid"], original_namespace, dict(snapshots)))
        await asyncio.sleep(0)
        return [f"pod volume restore failed: {pod['metadata']['name']}"]


class Hooks:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self, pod: dict[str, Any], hooks: Sequence[PodExecHook], log: EventLog) -> list[Notice]:
        commands = [" ".join(hook.command) for hook in hooks]
        self.asked.append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}: {', '.join(commands)}")
        return [Notice(Code.HOOK_FAILED, "a hook failed")]

    def give_up(self, pod: dict[str, Any], reason: str) -> None:
        raise AssertionError("its hooks are done")


class PatientHooks(Hooks):
    """Hooks whose containers never start."""

    def __init__(self) -> None:
        super().__init__()
        self.over = asyncio.Event()
        self.reasons: list[str] = []

    async def run(self, pod: dict[str, Any], hooks: Sequence[PodExecHook], log: EventLog) -> list[Notice]:
        await self.over.wait()
        return await super().run(pod, hooks, log)

    def give_up(self, pod: dict[str, Any], reason: str) -> None:
        self.reasons.append(f"{pod['metadata']['name']}: {reason}")
        self.over.set()


HOOKED = {"post.hook.restore.velero.io/command": "/bin/true"}


async def test_pod_volumes_and_hooks_are_left_to_their_helpers(harness: Harness) -> None:
    filler, hooks = Filler(), Hooks()
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=filler, exec_hooks=hooks)
    harness.request_fields = {"pod_volume_backups": [pod_volume_backup()]}

    results = await harness.restore(
        pod("p", annotations=HOOKED), pod("plain"), namespace_mapping={"ns-1": "m1"}
    )

    uid = harness.world.item("pods", "m1", "p")["metadata"]["uid"]
    assert filler.asked == [(uid, "ns-1", {"data": SavedSnapshot("snap", "kopia")})]
    assert hooks.asked == ["m1/p: /bin/true"]
    assert results.errors.velero == ["pod volume restore failed: p", "a hook failed"]
    assert results.warnings.count == 0


@pytest.mark.found("V30")
async def test_hooks_do_not_wait_for_a_pod_that_never_gets_its_data(harness: Harness) -> None:
    """Without a time limit, which is the default, they would hold the restore for ever."""
    hooks = PatientHooks()
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=Filler(), exec_hooks=hooks)
    harness.request_fields = {"pod_volume_backups": [pod_volume_backup()]}

    results = await harness.restore(pod("p", annotations=HOOKED))

    assert hooks.reasons == ["p: the data of its volumes was not restored, and it does not start without"]
    assert results.errors.velero == ["pod volume restore failed: p", "a hook failed"]


class Failing(Filler):
    """Fails the volumes of one pod only."""

    async def restore_pod_volumes(
        self, pod: dict[str, Any], original_namespace: str, snapshots: Mapping[str, SavedSnapshot]
    ) -> list[str]:
        errors = await super().restore_pod_volumes(pod, original_namespace, snapshots)
        return errors if pod["metadata"]["name"] == "p" else []


@pytest.mark.found("V30")
async def test_the_claims_of_a_pod_that_never_gets_its_data_are_not_waited_for(harness: Harness) -> None:
    """Its class may make their volumes for a pod that is never scheduled."""
    volumes = {
        "p": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "one"}},
            {"name": "e", "ephemeral": {}},
        ],
        "q": [{"name": "data", "persistentVolumeClaim": {"claimName": "two"}}],
    }
    old = PersistentVolumeInfo(reclaim_policy="Retain")
    infos = [
        BackupVolumeInfo(pvc_namespace="ns-1", pvc_name=name, backup_method="PodVolumeBackup", pv_info=old)
        for name in ("one", "p-e", "two")
    ]
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=Failing())
    harness.request_fields = {
        "pod_volume_backups": [pod_volume_backup(), pod_volume_backup(name="q")],
        "volume_infos": infos,
    }

    pods = [pod(name, spec={"volumes": volumes[name]}) for name in ("p", "q")]
    claims = [claim(name) for name in ("one", "p-e", "two")]
    results = await harness.restore(*claims, *pods)

    assert results.errors.velero == ["pod volume restore failed: p"]
    assert [each.name for each in harness.outcomes.unpatched] == ["two"]


async def test_a_pod_that_exists_gets_neither_which_is_said(harness: Harness) -> None:
    filler, hooks = Filler(), Hooks()
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=filler, exec_hooks=hooks)
    harness.request_fields = {"pod_volume_backups": [pod_volume_backup()]}
    harness.world.put(pod("p", annotations=HOOKED))

    results = await harness.restore(pod("p", annotations=HOOKED))

    assert results.errors.count == 0
    assert results.warnings.namespaces == {
        "ns-1": [
            "pods/ns-1/p exists, so the data of its volumes (data) was not restored and its exec restore"
            " hooks were not executed. Delete the pod and restore again to get it"
        ]
    }
    assert (filler.asked, hooks.asked) == ([], [])


async def test_a_pod_that_exists_and_would_get_nothing_is_no_warning(harness: Harness) -> None:
    harness.world.put(pod("p"))

    assert (await harness.restore(pod("p"))).empty


async def test_without_helpers_pods_say_that_hooks_are_not_run(harness: Harness) -> None:
    results = await harness.restore(pod("p", annotations=HOOKED))

    assert harness.world.created_of("pods") == ["ns-1/p"]
    assert results.errors.count == 0
    (hooks,) = results.warnings.namespaces["ns-1"]
    assert hooks.startswith("the exec restore hooks of pods/ns-1/p were not executed")


def hook_spec(hook: RestoreResourceHook, **selector: Any) -> RestoreHooks:
    return RestoreHooks(resources=[RestoreResourceHookSpec(name="h", post_hooks=[hook], **selector)])


EXEC = RestoreResourceHook(exec=ExecRestoreHook(command=["/bin/true"]))
INIT = RestoreResourceHook(init=InitRestoreHook(init_containers=[{"name": "x"}]))


@pytest.mark.parametrize(
    ("hooks", "warned"),
    [
        (hook_spec(EXEC), True),
        (hook_spec(EXEC, included_namespaces=["m1"]), True),
        (hook_spec(EXEC, included_namespaces=["ns-1"]), False),
        (hook_spec(EXEC, label_selector=LabelSelector(match_labels={"a": "b"})), False),
        (hook_spec(INIT), False),
        (RestoreHooks(), False),
    ],
    ids=["all", "target-namespace", "original-namespace", "labels", "init-only", "none"],
)
async def test_exec_hooks_of_the_spec_see_the_target_namespace(
    harness: Harness, hooks: RestoreHooks, warned: bool
) -> None:
    results = await harness.restore(pod("p"), hooks=hooks, namespace_mapping={"ns-1": "m1"})

    unexecuted = [
        text for _, text in results.warnings.notices() if "hooks" in text and "not executed" in text
    ]
    assert (len(unexecuted) == 1) is warned


async def test_a_hook_with_an_invalid_selector_ends_the_restore(harness: Harness) -> None:
    hooks = hook_spec(INIT, label_selector=LabelSelector(match_labels={"not a key": "b"}))

    results = await harness.restore(pod("p"), hooks=hooks)

    (message,) = results.errors.velero
    assert message.startswith("error parsing restore hooks: ")
    assert harness.world.created == []


async def test_each_caveat_of_a_request_is_a_warning_of_its_results(harness: Harness) -> None:
    harness.request_fields = {"caveats": ["spec.x is not known", "spec.y is not known"]}

    results = await harness.restore(pod("plain"))

    assert results.warnings.velero == ["spec.x is not known", "spec.y is not known"]
