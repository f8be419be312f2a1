"""Which claims that exist get data, and what is said of all others. (docs/spec: AFT 6)"""

from typing import Any

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.catalogue.pod_volumes import SavedPodVolumes, pod_volumes
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.objects import MovedVolume
from pinnace.csi.movement.rebinding import FILLED_BY
from pinnace.plugins.item_operations import StartedOperations
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.restore.volumes.in_place import NOT_BOUND, ExistingClaims
from pinnace.restore.volumes.moved_data import MovedData
from pinnace.restore.volumes.records import RestoredVolumes
from tests.unit.restore.world import world_of

LABELS = {"velero.io/restore-name": "r1", "velero.io/backup-name": "b1"}
CLAIM = ItemRef(
    group_resource="persistentvolumeclaims", original_namespace="shop", target_namespace="shop", name="data"
)
POD = ItemRef(group_resource="pods", original_namespace="shop", target_namespace="shop", name="db-0")
SAVED = {
    "metadata": {"annotations": {"velero.io/pvc-name": "data"}},
    "spec": {"pod": {"namespace": "shop", "name": "db-0"}, "volume": "v", "uploaderType": "kopia"},
    "status": {"phase": "Completed", "snapshotID": "s1"},
}


def claim(phase: str = "Bound") -> JSONObject:
    metadata = {"namespace": "shop", "name": "data"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {},
        "status": {"phase": phase},
    }


def pod(name: str = "db-0", *, phase: str = "Running", **metadata: Any) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "shop", "name": name, **metadata},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
        "status": {"phase": phase},
    }


class Starter:
    """Notes the claims that moved data would be written into."""

    name = "starter"

    def __init__(self, error: str = "") -> None:
        self.started: list[tuple[str, str, str]] = []
        self.error = error

    async def start(self, _restore: Restore, claim: JSONObject, moved: MovedVolume, location: str) -> str:
        if self.error:
            raise MovementError(self.error)
        self.started.append((claim["metadata"]["name"], moved.snapshot, location))
        return "dd-1.2"


def moved_data(starter: Starter | None = None) -> MovedData:
    """The data of the claim is moved data if something can restore it."""
    return MovedData(
        volumes={("shop", "data"): MovedVolume(snapshot="k1", source_namespace="shop")},
        starter=starter,
        location="default",
        started=StartedOperations(),
        records=RestoredVolumes(made={}, pod_volumes=None),
    )


def existing(
    *objects: JSONObject,
    saved: bool = True,
    policy: str = "full",
    starter: Starter | None = None,
    **more: Any,
) -> ExistingClaims:
    return ExistingClaims(
        client=world_of(*objects),
        restore=Restore(metadata=ObjectMeta(name="r1"), spec=RestoreSpec(existing_volume_data_policy=policy)),
        labels=LABELS,
        moved=moved_data(starter),
        pod_volumes=SavedPodVolumes(pod_volumes([SAVED] if saved else [])),
        **more,
    )


def errors(results: Results) -> list[str]:
    return [str(notice) for _, notice in results.errors.notices()]


async def test_a_bound_claim_that_no_pod_uses_gets_its_data() -> None:
    claims, results = existing(claim(), pod("done", phase="Succeeded")), Results()
    await claims.found(CLAIM, results)

    assert await claims.admits_pod(POD, pod(), results)
    assert results.empty
    assert claims.left().empty


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ((claim("Pending"),), NOT_BOUND),
        ((claim(), pod("web-1"), pod("web-0")), "pods use it: web-0, web-1."),
        ((claim(), pod("db-0")), "pods use it: db-0."),
        ((claim(), *(pod(f"web-{n}") for n in range(7))), "web-4 and 2 more."),
    ],
    ids=["not bound", "other pods", "the pod itself", "many pods"],
)
async def test_no_data_is_written_into_a_claim_that_is_in_use_or_not_bound(
    objects: tuple[JSONObject, ...], said: str
) -> None:
    claims, results = existing(*objects), Results()
    await claims.found(CLAIM, results)

    assert not await claims.admits_pod(POD, pod(), results)

    (error,) = errors(results)
    assert said in error
    assert claims.left().empty  # it is reported once


async def test_a_running_pod_of_a_former_restore_of_the_name_is_a_user_like_others() -> None:
    claims, results = existing(claim(), pod("db-1", labels=LABELS)), Results()
    await claims.found(CLAIM, results)

    assert not await claims.admits_pod(POD, pod(), results)
    (error,) = errors(results)
    assert "pods use it: db-1." in error


async def test_pods_of_the_same_restore_may_share_the_claim() -> None:
    claims = existing(claim(), pod("db-1", phase="Pending", labels=LABELS))

    assert await claims.admits_pod(POD, pod(), Results())


async def test_a_claim_that_this_restore_made_needs_no_check() -> None:
    claims = existing(claim("Pending"))
    claims.created(CLAIM)

    assert await claims.admits_pod(POD, pod(), Results())


async def test_a_claim_whose_pod_is_not_restored_is_an_error_that_names_the_pod() -> None:
    claims, results = existing(claim()), Results()
    await claims.found(CLAIM, results)

    (error,) = errors(claims.left())
    assert "shop/db-0" in error
    assert results.empty


async def test_a_claim_without_data_in_the_backup_is_left_alone_with_a_warning() -> None:
    claims, results = existing(claim(), saved=False), Results()
    await claims.found(CLAIM, results)

    assert [str(each) for _, each in results.warnings.notices()] == [
        "persistentvolumeclaims/shop/data exists and keeps the data that it has: the backup has no data of"
        " pod volumes for it, and no moved data (native and CSI snapshots become new volumes only)"
    ]
    assert claims.left().empty


async def test_data_that_cannot_be_restored_at_all_is_refused_by_name() -> None:
    claims, results = existing(claim(), saved=False, elsewhere={("shop", "data"): "no agents"}), Results()
    await claims.found(CLAIM, results)

    (error,) = errors(results)
    assert error.endswith("exists, and its data is not restored into it: no agents")


def withheld(**own_labels: str) -> tuple[JSONObject, JSONObject]:
    """A claim that has lost its volume."""
    lost = claim("Lost")
    lost["spec"]["volumeName"] = "pv"
    metadata = {"name": "pv", "labels": own_labels}
    return lost, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": {}}


@pytest.mark.parametrize(
    ("objects", "failure", "said"),
    [
        ((claim(),), "", ""),
        (withheld(**{FILLED_BY: "u1"}), "", ""),
        (withheld(), "", NOT_BOUND),
        ((claim("Pending"),), "", NOT_BOUND),
        ((claim(), pod("web-0")), "", "pods use it: web-0."),
        ((claim(), pod("db-0", phase="Pending", labels=LABELS)), "", "pods use it: db-0."),
        ((claim(),), "the server did not take it", "the server did not take it"),
    ],
    ids=["free", "withheld", "lost", "pending", "in use", "in use by a pod of this restore", "not taken"],
)
async def test_moved_data_is_written_into_a_claim_that_no_pod_uses(
    objects: tuple[JSONObject, ...], failure: str, said: str
) -> None:
    starter = Starter(failure)
    claims, results = existing(*objects, saved=False, starter=starter), Results()
    await claims.found(CLAIM, results)

    assert starter.started == ([] if said else [("data", "k1", "default")])
    assert len(claims.moved.records.found) == (0 if said else 1)
    assert [said in error for error in errors(results)] == ([True] if said else [])


OWNED = {"apiVersion": "apps/v1", "controller": True}
OWNERS: tuple[tuple[str, str], ...] = (
    ("StatefulSet", "scale statefulset/x --replicas=0"),
    ("ReplicaSet", "scale deployment/web --replicas=0"),
    ("DaemonSet", "delete daemonset/x"),
    ("Job", "delete job/x"),
)


@pytest.mark.parametrize(("kind", "command"), OWNERS)
@pytest.mark.parametrize("is_moved", [True, False], ids=["moved", "of a pod"])
async def test_the_error_says_how_to_stop_the_pods(kind: str, command: str, *, is_moved: bool) -> None:
    """A workload with 0 replicas would delete the restored pod, which waits for the data of its volume."""
    deployment = {**OWNED, "kind": "Deployment", "name": "web"}
    metadata = {"namespace": "shop", "name": "x", "ownerReferences": [deployment]}
    replicas = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata}
    user = pod("db-0", ownerReferences=[{**OWNED, "kind": kind, "name": "x"}])
    claims = existing(claim(), replicas, user, saved=not is_moved, starter=Starter() if is_moved else None)
    results = Results()
    await claims.found(CLAIM, results)
    await claims.admits_pod(POD, pod(), results)

    (error,) = errors(results)
    if not is_moved:
        command = command.replace("scale", "delete").removesuffix(" --replicas=0")
    assert error.endswith(f"and restore again: kubectl -n shop {command}")


async def test_a_workload_that_kubectl_cannot_stop_is_named() -> None:
    user = pod("db-0", ownerReferences=[{**OWNED, "kind": "Cluster", "name": "pg"}])
    claims, results = existing(claim(), user, saved=False, starter=Starter()), Results()
    await claims.found(CLAIM, results)

    (error,) = errors(results)
    assert error.endswith("pods use it: db-0. Stop them, and restore again: stop Cluster pg")


async def test_without_the_policy_nothing_is_checked_or_said() -> None:
    claims, results = existing(pod("web-0"), policy="none"), Results()
    await claims.found(CLAIM, results)

    assert await claims.admits_pod(POD, pod(), results)
    assert results.empty
    assert claims.left().empty
