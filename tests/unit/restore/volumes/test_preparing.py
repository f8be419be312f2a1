"""PersistentVolumes and claims: the decision table, renaming, waiting, and the changes of claims."""

import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from pinnace.api.meta import ObjectMeta, ObjectReference
from pinnace.api.objects import JSONObject
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.backup import BackupSpec
from pinnace.api.velero.pod_volume import PodVolumeBackup, PodVolumeBackupSpec, PodVolumeBackupStatus
from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.kube.errors import Forbidden
from pinnace.restore.collaborators import RestoreCollaborators
from pinnace.restore.request import RestoreSettings
from pinnace.restore.volumes.preparing import PreparedVolumes, VolumeSource, adjust_claim, decide
from pinnace.runs.activity import Activity
from tests.support.volumes.snapshotters import Snapshotter, snapshot
from tests.unit.restore.world import (
    Harness,
    claim,
    obj,
    volume,
)

BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}


def claimed(name: str = "pv-1", namespace: str = "ns-1", pvc: str = "pvc-1", **fields: Any) -> dict[str, Any]:
    ref = {"namespace": namespace, "name": pvc, "uid": "old", "resourceVersion": "1"}
    return volume(name, spec={"claimRef": ref, **fields.pop("spec", {})}, **fields)


def with_snapshot(harness: Harness, maker: Snapshotter | None, *snapshots: VolumeSnapshot) -> None:
    harness.collaborators = RestoreCollaborators(volume_restorer=maker)
    harness.request_fields = {"snapshots": snapshots or (snapshot(),)}


@pytest.mark.parametrize(
    ("policy", "has_snapshot", "has_backup", "source"),
    [
        ("Delete", True, True, VolumeSource.FROM_SNAPSHOT),
        ("Retain", True, False, VolumeSource.FROM_SNAPSHOT),
        ("Retain", False, True, VolumeSource.POD_VOLUME_BACKUP),
        ("Delete", False, False, VolumeSource.PROVISION_ANEW),
        ("Retain", False, False, VolumeSource.AS_IT_IS),
        ("Recycle", False, False, VolumeSource.AS_IT_IS),
        (None, False, False, VolumeSource.AS_IT_IS),
    ],
)
def test_the_first_rule_that_applies_decides(
    policy: str | None, has_snapshot: bool, has_backup: bool, source: VolumeSource
) -> None:
    item = volume("pv-1", policy=policy)
    assert decide(item, has_snapshot=has_snapshot, has_pod_volume_backup=has_backup) is source


@pytest.mark.spec("RST-077")
async def test_a_volume_to_delete_is_provisioned_anew(harness: Harness) -> None:
    results = await harness.restore(
        claimed(policy="Delete"),
        claim("pvc-1", annotations=BOUND | {"foo": "bar"}, spec={"volumeName": "pv-1"}),
    )

    assert results.errors.count == 0
    assert harness.world.created_of("persistentvolumes") == []
    restored = harness.world.item("persistentvolumeclaims", "ns-1", "pvc-1")
    assert "volumeName" not in restored["spec"]
    assert restored["metadata"]["annotations"] == {"foo": "bar"}


@pytest.mark.spec("BEY-052")
@pytest.mark.parametrize(
    ("policy", "backups", "warned"),
    [("Delete", [], True), ("Retain", [], False), ("Delete", ["abc"], False)],
    ids=["no data", "kept volume", "saved from its pod"],
)
async def test_a_claim_that_comes_back_empty_is_a_warning(
    harness: Harness, policy: str, backups: list[str], warned: bool
) -> None:
    harness.request_fields = {"pod_volume_backups": [pod_volume_backup(each) for each in backups]}
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=NothingToFill())

    await harness.restore(claimed(policy=policy), claim("pvc-1", spec={"volumeName": "pv-1"}))

    assert harness.log.warnings == int(warned)


NO_DATA = "its reclaim policy is Delete, and the backup has no data of it"


@pytest.mark.parametrize(
    ("item", "spec", "lost"),
    [
        (claimed(policy="Delete"), {}, "its claim ns-1/pvc-1 gets a new and empty volume"),
        (
            claimed(policy="Delete"),
            {"namespace_mapping": {"ns-1": "m1"}},
            "its claim m1/pvc-1 gets a new and empty volume",
        ),
        (volume("pv-1", policy="Delete"), {}, "no claim uses it"),
    ],
    ids=["claimed", "mapped", "unclaimed"],
)
async def test_a_volume_that_is_left_out_with_its_data_is_a_warning(
    harness: Harness, item: JSONObject, spec: dict[str, Any], lost: str
) -> None:
    results = await harness.restore(item, claim("other"), **spec)

    assert [text for _, text in results.warnings.notices()] == [
        f"persistentvolumes/pv-1 was not restored: {NO_DATA}; {lost}"
    ]
    assert results.errors.count == 0


@pytest.mark.parametrize(
    ("item", "existing", "spec"),
    [
        (claimed(policy="Delete"), claim("pvc-1"), {}),
        (volume("pv-1", policy="Delete"), volume("pv-1", policy="Delete"), {}),
        (claimed(policy="Delete"), None, {"restore_pvs": False}),
    ],
    ids=["claim-there", "volume-there", "unwanted"],
)
async def test_a_volume_that_is_not_lost_or_not_wanted_is_no_warning(
    harness: Harness, item: JSONObject, existing: JSONObject | None, spec: dict[str, Any]
) -> None:
    if existing is not None:
        harness.world.put(existing)

    assert (await harness.restore(item, **spec)).empty


async def test_a_volume_whose_claim_cannot_be_looked_up_is_a_warning(harness: Harness) -> None:
    harness.world.put(claim("pvc-1"))
    harness.world.refuse("get", ("persistentvolumeclaims", "ns-1", "pvc-1"), Forbidden(403, message="no"))

    results = await harness.restore(claimed(policy="Delete"))

    assert (results.errors.count, results.warnings.count) == (0, 1)


@pytest.mark.spec("RST-078")
async def test_a_volume_to_retain_is_restored_unbound(harness: Harness) -> None:
    results = await harness.restore(claimed(annotations=BOUND))

    assert results.empty
    restored = harness.world.item("persistentvolumes", "", "pv-1")
    assert restored["spec"]["claimRef"] == {"namespace": "ns-1", "name": "pvc-1"}
    assert restored["metadata"]["annotations"] == {}


async def test_a_retained_volume_follows_its_claim_into_a_mapped_namespace(harness: Harness) -> None:
    await harness.restore(claimed(), namespace_mapping={"ns-1": "m1"})

    claim_ref = harness.world.item("persistentvolumes", "", "pv-1")["spec"]["claimRef"]
    assert claim_ref == {"namespace": "m1", "name": "pvc-1"}


@pytest.mark.found("S1")
async def test_a_retained_volume_that_comes_back_though_none_is_wanted_is_a_warning(harness: Harness) -> None:
    csi = {"driver": "disks.example.io", "volumeHandle": "vol-1"}
    saved = claimed(spec={"csi": csi})

    results = await harness.restore(saved, restore_pvs=False)

    (told,) = (text for _, text in results.warnings.notices())
    assert "persistentvolumes/pv-1 comes back" in told
    assert "points at its old storage, vol-1 of disks.example.io" in told
    assert (await harness.restore(saved, restore_pvs=False)).empty  # it is there already


@pytest.mark.spec("RST-079")
@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_a_volume_with_a_snapshot_is_made_from_it(harness: Harness, policy: str) -> None:
    maker = Snapshotter()
    with_snapshot(harness, maker)

    results = await harness.restore(claimed(policy=policy))

    assert results.empty
    assert [name for name, _ in maker.made] == ["pv-1"]
    restored = harness.world.item("persistentvolumes", "", "pv-1")
    assert restored["spec"]["disk"] == "new-volume"
    assert restored["spec"]["claimRef"] == {"namespace": "ns-1", "name": "pvc-1"}


@pytest.mark.spec("RST-080")
async def test_no_volume_is_made_for_one_that_is_there(harness: Harness) -> None:
    maker = Snapshotter()
    with_snapshot(harness, maker)
    before = harness.world.put(volume("pv-1"))

    results = await harness.restore(volume("pv-1"))

    assert results.empty
    assert maker.made == []
    assert harness.world.item("persistentvolumes", "", "pv-1") == before


MAPPED: dict[str, Any] = {"namespace_mapping": {"ns-1": "m1"}}


@pytest.mark.spec("RST-081")
async def test_a_volume_whose_name_is_taken_becomes_a_clone(harness: Harness) -> None:
    with_snapshot(harness, Snapshotter())
    before = harness.world.put(claimed())

    results = await harness.restore(claimed(), claim("pvc-1", spec={"volumeName": "pv-1"}), **MAPPED)

    assert results.empty
    (name,) = harness.world.created_of("persistentvolumes")
    assert name.startswith("velero-clone-")
    assert str(uuid.UUID(name.removeprefix("velero-clone-"))) in name
    clone = harness.world.item("persistentvolumes", "", name)
    assert clone["metadata"]["annotations"] == {"velero.io/original-pv-name": "pv-1"}
    assert clone["spec"]["claimRef"] == {"namespace": "m1", "name": "pvc-1"}
    assert harness.world.item("persistentvolumeclaims", "m1", "pvc-1")["spec"]["volumeName"] == name
    assert harness.world.item("persistentvolumes", "", "pv-1") == before


@pytest.mark.spec("RST-082")
async def test_a_volume_whose_name_is_free_keeps_it(harness: Harness) -> None:
    with_snapshot(harness, Snapshotter())

    results = await harness.restore(claimed(), claim("pvc-1", spec={"volumeName": "pv-1"}), **MAPPED)

    assert results.empty
    restored = harness.world.item("persistentvolumes", "", "pv-1")
    assert restored["spec"]["claimRef"]["namespace"] == "m1"
    assert "annotations" not in restored["metadata"]
    assert harness.world.item("persistentvolumeclaims", "m1", "pvc-1")["spec"]["volumeName"] == "pv-1"


@pytest.mark.spec("RST-083")
@pytest.mark.parametrize("taken", [True, False])
async def test_a_claim_follows_the_name_that_the_snapshotter_chose(harness: Harness, taken: bool) -> None:
    with_snapshot(harness, Snapshotter(rename_to="pv-from-plugin"))
    if taken:
        harness.world.put(claimed())

    results = await harness.restore(claimed(), claim("pvc-1", spec={"volumeName": "pv-1"}), **MAPPED)

    assert results.empty
    restored = harness.world.item("persistentvolumes", "", "pv-from-plugin")
    assert restored["metadata"]["annotations"] == {"velero.io/original-pv-name": "pv-1"}
    claim_spec = harness.world.item("persistentvolumeclaims", "m1", "pvc-1")["spec"]
    assert claim_spec["volumeName"] == "pv-from-plugin"


DELETING = {"deletionTimestamp": "2021-08-11T21:43:26Z"}


def deleting(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "metadata": {**item["metadata"], **DELETING}}


@pytest.mark.spec("RST-084")
@pytest.mark.parametrize(
    "around",
    [
        [claimed(status={"phase": "Released"})],
        [deleting(claimed())],
        [claimed(), deleting(claim("pvc-1")), obj("Namespace", "ns-1")],
        [claimed(), claim("pvc-1"), obj("Namespace", "ns-1", status={"phase": "Terminating"})],
        [claimed(), claim("pvc-1"), deleting(obj("Namespace", "ns-1"))],
        [claimed(), obj("Namespace", "ns-1")],
        [claimed(), claim("pvc-1")],
    ],
    ids=["released", "deleting", "pvc-deleting", "ns-terminating", "ns-deleting", "pvc-gone", "ns-gone"],
)
async def test_a_volume_that_is_being_deleted_is_waited_for(
    harness: Harness, around: list[dict[str, Any]]
) -> None:
    maker = Snapshotter()
    with_snapshot(harness, maker)
    harness.options = RestoreSettings(terminating_timeout_seconds=5)
    activity, shown = Activity(), set[tuple[str, ...]]()
    harness.request_fields = {**harness.request_fields, "activity": activity}
    harness.clock.on_sleep = lambda: shown.add(tuple(activity.waiting))
    for item in around:
        harness.world.put(item)

    results = await harness.restore(claimed())

    assert results.errors.cluster == [
        "error waiting on in-cluster persistentvolume pv-1: timed out waiting for the condition"
    ]
    assert maker.made == []
    assert ("volume pv-1 to be deleted",) in shown
    assert activity.waiting == []


async def test_a_volume_that_is_deleted_in_time_is_made_from_its_snapshot(harness: Harness) -> None:
    maker = Snapshotter()
    with_snapshot(harness, maker)
    harness.world.put(claimed(status={"phase": "Released"}))
    harness.clock.on_sleep = lambda: harness.world.objects.pop(("persistentvolumes", "", "pv-1"), None)

    results = await harness.restore(claimed())

    assert results.empty
    assert len(maker.made) == 1


async def test_a_volume_that_cannot_be_read_is_an_error(harness: Harness) -> None:
    with_snapshot(harness, Snapshotter())
    harness.world.refuse("get", ("persistentvolumes", "", "pv-1"), Forbidden(403, message="you may not"))

    plain = await harness.restore(claimed())
    mapped = await harness.restore(claimed(), **MAPPED)

    assert plain.errors.cluster == ["error waiting on in-cluster persistentvolume pv-1: you may not"]
    assert mapped.errors.cluster == ["error checking if persistent volume exists in the cluster: you may not"]


@pytest.mark.spec("RST-085")
@pytest.mark.parametrize("by", ["restore", "backup"])
async def test_volumes_that_are_not_wanted_are_not_made(harness: Harness, by: str) -> None:
    maker = Snapshotter()
    with_snapshot(harness, maker)
    if by == "backup":
        harness.backup.spec = BackupSpec(snapshot_volumes=False)

    results = await harness.restore(claimed(), restore_pvs=False if by == "restore" else None)

    assert results.errors.count == 0
    (told,) = (text for _, text in results.warnings.notices())
    assert told.startswith(
        "persistentvolumes/pv-1 comes back without its data from a snapshot, and points at"
    )
    assert maker.made == []
    assert harness.world.created_of("persistentvolumes") == ["pv-1"]


@pytest.mark.spec("RST-086")
@pytest.mark.parametrize("iops", [3000, None])
async def test_the_first_record_of_a_volume_is_passed_on_as_it_is(harness: Harness, iops: int | None) -> None:
    maker = Snapshotter()
    first = snapshot(volume_type="io1", volume_az="zone-1", volume_iops=iops)
    with_snapshot(harness, maker, first, snapshot(snapshot_id="snap-2"))

    await harness.restore(claimed())

    ((_, used),) = maker.made
    assert used == first


async def test_a_record_without_snapshot_is_no_snapshot_but_is_logged(harness: Harness) -> None:
    with_snapshot(harness, Snapshotter(), snapshot(snapshot_id=""))

    results = await harness.restore(volume("pv-1", policy="Delete"))

    assert (results.errors.count, results.warnings.count) == (0, 1)
    assert harness.world.created == []
    assert harness.log.warnings == 2


@pytest.mark.parametrize(
    ("maker", "problem"),
    [
        (None, "no volume snapshotter is set up to restore it"),
        (Snapshotter(fail="snapshot snap-1 not found"), "snapshot snap-1 not found"),
    ],
    ids=["no-snapshotter", "failing"],
)
async def test_a_volume_that_cannot_be_made_is_an_error(
    harness: Harness, maker: Snapshotter | None, problem: str
) -> None:
    with_snapshot(harness, maker)

    results = await harness.restore(claimed())

    (message,) = results.errors.cluster
    assert message.startswith("error executing PVAction for persistentvolumes/pv-1: ")
    assert problem in message
    assert harness.world.created == []


class NothingToFill:
    async def restore_pod_volumes(
        self, pod: dict[str, Any], original_namespace: str, snapshots: Mapping[str, SavedSnapshot]
    ) -> list[str]:
        raise AssertionError("no pod is restored")


def pod_volume_backup(snapshot_id: str = "abc") -> PodVolumeBackup:
    return PodVolumeBackup(
        metadata=ObjectMeta(annotations={"velero.io/pvc-name": "pvc-1"}),
        spec=PodVolumeBackupSpec(pod=ObjectReference(namespace="ns-1", name="pod-1"), volume="data"),
        status=PodVolumeBackupStatus(snapshot_id=snapshot_id),
    )


@pytest.mark.spec("RST-087")
@pytest.mark.parametrize(("snapshot_id", "warnings"), [("abc", 0), ("", 1)], ids=["good", "failed"])
async def test_a_volume_saved_from_its_pod_is_provisioned_anew(
    harness: Harness, snapshot_id: str, warnings: int
) -> None:
    harness.request_fields = {"pod_volume_backups": [pod_volume_backup(snapshot_id)]}
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=NothingToFill())

    results = await harness.restore(
        claimed(policy="Retain"), claim("pvc-1", spec={"volumeName": "pv-1"}), **MAPPED
    )

    assert results.empty
    assert harness.world.created_of("persistentvolumes") == []
    assert "volumeName" not in harness.world.item("persistentvolumeclaims", "m1", "pvc-1")["spec"]
    assert harness.log.warnings == warnings


@pytest.mark.parametrize("spec", [None, {}, {"volumeName": ""}, {"volumeName": 7}, "text"])
def test_a_claim_that_was_never_bound_keeps_everything(spec: Any) -> None:
    item = claim("pvc-1", spec=spec, annotations=dict(BOUND))

    adjust_claim(item, PreparedVolumes(to_provision={""}))

    assert item == claim("pvc-1", spec=spec, annotations=BOUND)


def test_a_claim_keeps_the_name_of_a_volume_that_was_left_out() -> None:
    item = claim("pvc-1", spec={"volumeName": "pv-9"}, annotations=dict(BOUND))

    adjust_claim(item, PreparedVolumes(to_provision={"pv-1"}, renamed={"pv-2": "x"}))

    assert item["spec"] == {"volumeName": "pv-9"}
    assert item["metadata"]["annotations"] == {}
