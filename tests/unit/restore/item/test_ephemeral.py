"""Pods with generic ephemeral volumes get their claims."""

from collections.abc import Mapping

import pytest

from pinnace.api import labels
from pinnace.api.meta import ObjectMeta, ObjectReference
from pinnace.api.objects import JSONObject
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.pod_volume import PodVolumeBackup, PodVolumeBackupSpec, PodVolumeBackupStatus
from pinnace.kube.errors import Conflict
from pinnace.restore.collaborators import RestoreCollaborators
from tests.unit.restore.world import Harness, claim, pod

pytestmark = pytest.mark.found("V02")

KEY = ("persistentvolumeclaims", "ns-1", "p-scratch")
VOLUMES: list[JSONObject] = [
    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    {"name": "other", "persistentVolumeClaim": {"claimName": "other"}},
]
OLD_OWNER = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-of-old", "controller": True}]


class Filler:
    def __init__(self) -> None:
        self.pods: list[str] = []

    async def restore_pod_volumes(
        self, pod: JSONObject, original_namespace: str, snapshots: Mapping[str, SavedSnapshot]
    ) -> list[str]:
        self.pods.append(pod["metadata"]["name"])
        return []


@pytest.fixture
def filler(harness: Harness) -> Filler:
    """The volume `scratch` of the pod `p` was saved from its files."""
    saved = PodVolumeBackup(
        metadata=ObjectMeta(),
        spec=PodVolumeBackupSpec(
            pod=ObjectReference(namespace="ns-1", name="p"), volume="scratch", uploader_type="kopia"
        ),
        status=PodVolumeBackupStatus(snapshot_id="abc", phase="Completed"),
    )
    harness.request_fields = {"pod_volume_backups": [saved]}
    made = Filler()
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=made)
    return made


def a_claim(**metadata: object) -> JSONObject:
    made = claim("p-scratch")
    made["metadata"] |= metadata
    return made


def a_pod() -> JSONObject:
    return pod("p", spec={"containers": [], "volumes": VOLUMES})


def owners(harness: Harness, name: str = "p-scratch") -> list[JSONObject]:
    item = harness.world.item("persistentvolumeclaims", "ns-1", name)
    found: list[JSONObject] = item["metadata"].get("ownerReferences", [])
    return found


async def test_the_restored_pod_owns_the_restored_claim(harness: Harness, filler: Filler) -> None:
    own = a_claim(ownerReferences=OLD_OWNER)

    results = await harness.restore(a_pod(), own, claim("other"))

    assert (results.errors.count, results.warnings.count) == (0, 0)
    uid = harness.world.item("pods", "ns-1", "p")["metadata"]["uid"]
    assert owners(harness) == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert owners(harness, "other") == []
    assert filler.pods == ["p"]


async def test_a_claim_that_is_not_restored_is_left_to_the_cluster(harness: Harness, filler: Filler) -> None:
    results = await harness.restore(a_pod(), a_claim(), excluded_resources=["persistentvolumeclaims"])

    assert results.errors.count == 0
    assert harness.world.created_of("persistentvolumeclaims") == []
    assert filler.pods == ["p"]


@pytest.mark.parametrize(
    ("existing", "reason"),
    [
        (a_claim(), "that existed before the restore"),
        (a_claim(ownerReferences=OLD_OWNER), "that belongs to Pod p"),
    ],
    ids=["nobody's", "another's"],
)
async def test_a_claim_of_somebody_else_is_an_error_and_nothing_is_waited_for(
    harness: Harness, filler: Filler, existing: JSONObject, reason: str
) -> None:
    harness.world.put(existing)

    results = await harness.restore(a_pod())

    (error,) = results.errors.namespaces["ns-1"]
    assert error.startswith("error restoring pods/ns-1/p: it was created, but cannot start")
    assert "needs persistentvolumeclaims/ns-1/p-scratch for itself" in error
    assert reason in error
    assert owners(harness) == existing["metadata"].get("ownerReferences", [])
    assert filler.pods == []


async def test_a_claim_whose_owner_cannot_be_set_is_an_error(harness: Harness, filler: Filler) -> None:
    harness.world.refuse("patch", KEY, Conflict(409, message="it was changed"), subresource="")

    results = await harness.restore(a_pod(), a_claim())

    (error,) = results.errors.namespaces["ns-1"]
    assert "its owner could not be set: it was changed" in error
    assert filler.pods == []


@pytest.mark.parametrize("state", ["made by the cluster", "on its way out"])
async def test_a_claim_of_the_cluster_is_no_error(harness: Harness, filler: Filler, state: str) -> None:
    """The cluster makes it as soon as it sees the pod, and another when that of the former pod is gone."""
    if state == "on its way out":
        harness.world.put(a_claim(ownerReferences=OLD_OWNER, deletionTimestamp="2021-08-11T21:43:26Z"))
    else:
        owner = {**OLD_OWNER[0], "uid": "uid-p"}
        harness.world.put(a_claim(ownerReferences=[owner]))

    results = await harness.restore(a_pod())

    assert results.errors.count == 0
    assert filler.pods == ["p"]
    assert labels.RESTORE_NAME in harness.world.item("pods", "ns-1", "p")["metadata"]["labels"]
