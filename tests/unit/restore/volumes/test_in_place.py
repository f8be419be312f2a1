"""Which claims that exist get data, and what is said of all others. (docs/spec: AFT 6)"""

from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.catalogue.pod_volumes import SavedPodVolumes, pod_volumes
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.restore.volumes.in_place import NOT_BOUND, ExistingClaims
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


def existing(*objects: JSONObject, saved: bool = True, **more: Any) -> ExistingClaims:
    return ExistingClaims(
        client=world_of(*objects),
        is_wanted=True,
        labels=LABELS,
        pod_volumes=SavedPodVolumes(pod_volumes([SAVED] if saved else [])),
        **more,
    )


def errors(results: Results) -> list[str]:
    return [str(notice) for _, notice in results.errors.notices()]


async def test_a_bound_claim_that_no_pod_uses_gets_its_data() -> None:
    claims, results = existing(claim(), pod("done", phase="Succeeded")), Results()
    claims.found(CLAIM, results)

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
    claims.found(CLAIM, results)

    assert not await claims.admits_pod(POD, pod(), results)

    (error,) = errors(results)
    assert said in error
    assert claims.left().empty  # it is reported once


async def test_a_running_pod_of_a_former_restore_of_the_name_is_a_user_like_others() -> None:
    claims, results = existing(claim(), pod("db-1", labels=LABELS)), Results()
    claims.found(CLAIM, results)

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
    claims.found(CLAIM, results)

    (error,) = errors(claims.left())
    assert "shop/db-0" in error
    assert results.empty


async def test_a_claim_without_data_in_the_backup_is_left_alone_with_a_warning() -> None:
    claims, results = existing(claim(), saved=False), Results()
    claims.found(CLAIM, results)

    assert [str(each) for _, each in results.warnings.notices()] == [
        "persistentvolumeclaims/shop/data exists and keeps the data that it has: the backup has no data of"
        " pod volumes for it (native and CSI snapshots become new volumes only)"
    ]
    assert claims.left().empty


async def test_moved_data_is_refused_by_name() -> None:
    claims, results = existing(claim(), saved=False, elsewhere={("shop", "data"): "it was moved"}), Results()
    claims.found(CLAIM, results)

    (error,) = errors(results)
    assert error.endswith("exists, and its data is not restored into it: it was moved")


async def test_without_the_policy_nothing_is_checked_or_said() -> None:
    claims, results = existing(pod("web-0")), Results()
    claims.is_wanted = False
    claims.found(CLAIM, results)

    assert await claims.admits_pod(POD, pod(), results)
    assert results.empty
    assert claims.left().empty
