"""How resource policies decide about volumes, and what volumeinfo says of them. (docs/spec: BEY 3.6, 4.7)"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.resource_policies import read_policies
from pinnace.api.velero.snapshots import VolumeSnapshot, VolumeSnapshotSpec, VolumeSnapshotStatus
from pinnace.archive.runlog import RunLog
from pinnace.backup.collaborators import BackupCollaborators
from pinnace.backup.item.volume_records import VolumeRecords
from pinnace.kube.errors import status_error
from pinnace.kube.resources import CONFIGMAPS, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS
from pinnace.plugins.builtin.backup.pv import PersistentVolumeAction
from pinnace.plugins.protocols import BackupItemAction, ResourceSelector
from pinnace.volumes.pods.in_flight import VolumesInFlight
from pinnace.volumes.policies import VolumePolicies
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.runs.backup_runs import FakeSnapshots, bound_pod, claim, pod, volume
from tests.unit.backup.fakes import FakeAction, Outcome, a_backup, related, run_backup, two_a_page

LONG_AGO = "2021-08-11T21:00:00Z"
LOCATIONS = {"volume_snapshot_locations": ["default"]}


class Saver:
    """Notes which volumes of pods it is to save."""

    pod_volume_backups: Sequence[JSONObject] = ()

    def __init__(self) -> None:
        self.saved: list[str] = []

    async def request(self, pod: JSONObject, volumes: Sequence[str], log: RunLog) -> VolumesInFlight:
        self.saved += volumes
        return VolumesInFlight()


async def ways(
    tmp_path: Path, cluster: ScriptedCluster, rules: str, **spec: Any
) -> tuple[list[str], list[str], Outcome]:
    """The volumes saved from pods, those with a snapshot, and the whole outcome."""
    policies = read_policies(f"version: v1\nvolumePolicies:\n{rules}", "rules")
    saver, snapshots = Saver(), FakeSnapshots()
    actions: list[BackupItemAction] = [PersistentVolumeAction()]
    outcome = await run_backup(
        tmp_path,
        cluster,
        a_backup(**LOCATIONS, **spec),
        actions=actions,
        collaborators=BackupCollaborators(
            pod_volumes=saver, snapshots=snapshots, policies=VolumePolicies(cluster, policies)
        ),
    )
    return saver.saved, snapshots.taken, outcome


def rule(action: str, conditions: str = "{}") -> str:
    return f"- {{conditions: {conditions}, action: {{type: {action}}}}}\n"


@pytest.mark.parametrize(
    ("rules", "annotations", "spec", "expected"),
    [
        pytest.param(rule("skip"), {}, {}, ([], []), id="skip"),
        pytest.param(rule("custom"), {}, {}, ([], []), id="custom"),
        pytest.param(rule("snapshot"), {}, {}, ([], ["pv"]), id="snapshot"),
        pytest.param(
            rule("snapshot"),
            {},
            {"default_volumes_to_fs_backup": True},
            ([], ["pv"]),
            id="snapshot although files are saved by default",
            marks=pytest.mark.spec("AFT-072"),
        ),
        pytest.param(
            rule("snapshot"),
            {},
            {"snapshot_volumes": False},
            ([], ["pv"]),
            id="snapshot although off",
        ),
        pytest.param(rule("fs-backup"), {}, {}, (["vol-c"], []), id="fs-backup"),
        pytest.param(
            rule("fs-backup"),
            {"backup.velero.io/backup-volumes-excludes": "vol-c"},
            {"default_volumes_to_restic": True},
            (["vol-c"], []),
            id="fs-backup beats the annotation",
        ),
        pytest.param(
            rule("skip") + rule("fs-backup"),
            {},
            {"default_volumes_to_restic": True},
            ([], []),
            id="first rule",
        ),
        pytest.param(
            rule("skip", "{storageClass: [other]}"), {}, {"snapshot_volumes": False}, ([], []), id="none, off"
        ),
        pytest.param(rule("skip", "{storageClass: [other]}"), {}, {}, ([], ["pv"]), id="none matches"),
    ],
)
@pytest.mark.spec("BEY-036")
async def test_the_first_rule_decides_how_a_volume_is_saved(
    tmp_path: Path,
    rules: str,
    annotations: dict[str, str],
    spec: dict[str, Any],
    expected: tuple[list[str], list[str]],
) -> None:
    cluster = bound_pod()
    cluster.objects["pods", "ns", "p"]["metadata"]["annotations"] = annotations
    saved, taken, outcome = await ways(tmp_path, cluster, rules, **spec)
    assert (saved, taken) == expected
    assert (outcome.errors, outcome.warnings) == (0, 0)
    assert sorted(outcome.items) == ["persistentvolumeclaims/ns/c", "persistentvolumes/pv", "pods/ns/p"]


@pytest.mark.spec("AFT-097")
async def test_the_labels_of_the_claim_count_for_the_snapshot_of_its_volume(tmp_path: Path) -> None:
    cluster = bound_pod()
    cluster.objects["persistentvolumeclaims", "ns", "c"]["metadata"]["labels"] = {"tier": "cache"}
    _, taken, _ = await ways(tmp_path, cluster, rule("skip", "{pvcLabels: {tier: cache}}"))
    assert taken == []


@pytest.mark.spec("AFT-098")
async def test_a_volume_with_a_custom_action_is_recorded_as_skipped(tmp_path: Path) -> None:
    _, _, outcome = await ways(tmp_path, bound_pod(), rule("custom"))
    (info,) = outcome.result.volumes.infos(snapshots=(), csi=(), pod_volume_backups=())
    assert info.skipped_reason == "any: the resource policies rules have the action custom for the volume;"


@pytest.mark.spec("BEY-036")
async def test_a_path_of_the_node_is_never_saved_by_a_rule(tmp_path: Path) -> None:
    volumes = [{"name": "path", "hostPath": {"path": "/"}}, {"name": "scratch", "emptyDir": {}}]
    cluster = two_a_page().put_all(PODS, pod("ns/p", spec={"volumes": volumes}))
    saved, _, _ = await ways(tmp_path, cluster, rule("fs-backup"))
    assert saved == ["scratch"]


@pytest.mark.spec("BEY-037")
async def test_without_a_matching_rule_an_annotation_chooses_and_there_is_no_snapshot(tmp_path: Path) -> None:
    cluster = bound_pod()
    cluster.objects["pods", "ns", "p"]["metadata"]["annotations"] = {
        "backup.velero.io/backup-volumes": "vol-c"
    }
    saved, taken, _ = await ways(tmp_path, cluster, rule("skip", "{nfs: {}}"))
    assert (saved, taken) == (["vol-c"], [])


@pytest.mark.spec("BEY-035")
async def test_a_claim_without_a_volume_can_be_skipped_by_its_phase(tmp_path: Path) -> None:
    waiting = claim("ns/c", "")
    waiting["status"] = {"phase": "Pending"}
    cluster = two_a_page().put_all(PODS, pod("ns/p", "c")).put_all(PERSISTENT_VOLUME_CLAIMS, waiting)
    saved, _, outcome = await ways(
        tmp_path, cluster, rule("skip", "{pvcPhase: [Pending]}"), default_volumes_to_restic=True
    )
    assert (saved, outcome.errors) == ([], 0)
    saved, _, _ = await ways(
        tmp_path, cluster, rule("skip", "{pvcPhase: [Lost]}"), default_volumes_to_restic=True
    )
    assert saved == ["vol-c"]


async def test_what_a_rule_decides_by_is_read_once_for_each_claim(tmp_path: Path) -> None:
    cluster = bound_pod().put_all(PODS, pod("ns/q", "c"))
    await ways(tmp_path, cluster, rule("fs-backup", "{pvcLabels: {}}"))
    assert len([call for call in cluster.placed_calls if call[:2] == ("get", "persistentvolumeclaims")]) == 1


async def test_a_volume_whose_rules_cannot_be_looked_up_is_an_error_of_its_item(tmp_path: Path) -> None:
    cluster = bound_pod()
    cluster.refuse("get", "persistentvolumeclaims", status_error(500, {"message": "broken"}))
    saved, taken, outcome = await ways(tmp_path, cluster, rule("skip"))
    assert (saved, taken) == ([], [])
    assert outcome.errors >= 1
    assert "pods/ns/p" not in outcome.items


async def test_an_include_exclude_policy_is_part_of_the_filter(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(SECRETS, "ns/s").add_all(CONFIGMAPS, "ns/m")
    document = "version: v1\nincludeExcludePolicy: {excludedNamespaceScopedResources: [secrets]}\n"
    policies = VolumePolicies(cluster, read_policies(document))
    outcome = await run_backup(tmp_path, cluster, collaborators=BackupCollaborators(policies=policies))
    assert outcome.items == ["configmaps/ns/m"]


@pytest.mark.parametrize("is_of_action", [True, False])
async def test_only_an_action_can_force_items_into_a_backup(tmp_path: Path, is_of_action: bool) -> None:
    mark = {"backup.velero.io/must-include-additional-items": "true"}
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/m", annotations={} if is_of_action else dict(mark))
    cluster.add_all(SECRETS, "ns/s")

    def change(item: JSONObject) -> JSONObject:
        if is_of_action:
            item["metadata"]["annotations"] = dict(mark)
        return item

    action = FakeAction(additional=lambda _item: [related(SECRETS, "ns/s")], change=change)
    outcome = await run_backup(
        tmp_path, cluster, a_backup(included_resources=["configmaps"]), actions=[action]
    )
    assert outcome.items == (["secrets/ns/s"] if is_of_action else []) + ["configmaps/ns/m"]
    stored = outcome.item("resources/configmaps/namespaces/ns/m.json")
    assert bool(stored["metadata"]["annotations"]) is not is_of_action


async def test_an_action_can_force_items_though_the_user_has_its_mark(tmp_path: Path) -> None:
    """Velero leaves it on each claim that it restores from a snapshot."""
    mark = {"backup.velero.io/must-include-additional-items": "true"}
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/m", annotations=dict(mark)).add_all(SECRETS, "ns/s")

    def change(item: JSONObject) -> JSONObject:
        item["metadata"].setdefault("annotations", {}).update(mark)
        return item

    action = FakeAction(additional=lambda _item: [related(SECRETS, "ns/s")], change=change)
    outcome = await run_backup(
        tmp_path, cluster, a_backup(included_resources=["configmaps"]), actions=[action]
    )
    assert outcome.items == ["secrets/ns/s", "configmaps/ns/m"]
    assert outcome.item("resources/configmaps/namespaces/ns/m.json")["metadata"]["annotations"] == mark


@pytest.mark.spec("AFT-120")
@pytest.mark.parametrize("is_of_action", [True, False])
async def test_only_an_action_can_leave_its_item_out_of_a_backup(tmp_path: Path, is_of_action: bool) -> None:
    marks = {
        "velero.io/skip-from-backup": "true",
        "backup.velero.io/must-include-additional-items": "true",
    }
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/m", annotations={} if is_of_action else dict(marks))
    cluster.add_all(PODS, "ns/p", annotations={} if is_of_action else dict(marks))
    cluster.add_all(SECRETS, "ns/s")

    def change(item: JSONObject) -> JSONObject:
        if is_of_action:
            item["metadata"]["annotations"] = dict(marks)
        return item

    wanted = ResourceSelector(included_resources=("configmaps", "pods"))
    action = FakeAction(wanted, additional=lambda _item: [related(SECRETS, "ns/s")], change=change)
    later = FakeAction(wanted)
    outcome = await run_backup(
        tmp_path, cluster, a_backup(excluded_resources=["secrets"]), actions=[action, later]
    )
    assert sorted(outcome.items) == ([] if is_of_action else ["configmaps/ns/m", "pods/ns/p"])
    assert outcome.errors == 0
    assert outcome.result.progress.items_backed_up == len(outcome.items)
    assert len(later.seen) == (0 if is_of_action else 2)
    assert outcome.result.resource_list == (
        {} if is_of_action else {"v1/ConfigMap": ["ns/m"], "v1/Pod": ["ns/p"]}
    )


def test_volume_infos_have_one_element_for_each_volume() -> None:
    records = VolumeRecords()
    for name, reason in (("skipped", "any: rule"), ("plain", ""), ("native", ""), ("files", "podvolume: x")):
        seen = volume(name, f"ns/{name}")
        seen["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
        records.seen(seen, reason)
    snapshot = VolumeSnapshot(
        spec=VolumeSnapshotSpec(persistent_volume_name="native", volume_type="gp2", volume_az="a"),
        status=VolumeSnapshotStatus(provider_snapshot_id="snap", phase="Completed"),
    )
    saved = {
        "metadata": {"annotations": {"velero.io/pvc-name": "files"}},
        "spec": {
            "pod": {"name": "p", "namespace": "ns"},
            "volume": "v",
            "node": "n",
            "repoIdentifier": "s3:x/ns",
        },
        "status": {
            "phase": "Failed",
            "progress": {"totalBytes": 7},
            "startTimestamp": "2021-08-11T21:00:00Z",
        },
    }
    scratch = {
        "spec": {"pod": {"name": "p", "namespace": "ns"}, "volume": "s"},
        "status": {"phase": "Completed"},
    }
    infos = records.infos(snapshots=[snapshot], csi=[], pod_volume_backups=[saved, scratch])

    assert [(info.pv_name, info.backup_method, info.result, info.skipped_reason) for info in infos] == [
        ("skipped", "", "", "any: rule;"),
        ("plain", "", "", "volumeSnapshot: no applicable volumesnapshotter found;"),
        ("native", "NativeSnapshot", "succeeded", ""),
        ("files", "PodVolumeBackup", "failed", ""),
        ("", "PodVolumeBackup", "succeeded", ""),
    ]
    assert [info.skipped for info in infos] == [True, True, False, False, False]
    assert infos[2].native_snapshot_info is not None
    assert (infos[2].native_snapshot_info.iops, infos[2].pvc_name) == ("0", "native")
    assert infos[3].pv_info is not None
    assert (infos[3].pv_info.reclaim_policy, infos[3].pvc_namespace) == ("Retain", "ns")
    assert infos[3].pvb_info is not None
    assert (infos[3].pvb_info.size, infos[3].pvb_info.uploader_type) == (7, "restic")
    assert infos[4].pv_info is None
