"""Pods of Jobs are left to the Jobs that come back. (docs/adr/085)"""

from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.meta import LabelSelector, ObjectReference
from pinnace.api.objects import JSONObject
from pinnace.api.velero.pod_volume import PodVolumeBackup, PodVolumeBackupSpec, PodVolumeBackupStatus
from tests.unit.restore.world import Harness, claim, job, pod

FAILED = {"conditions": [{"type": "Failed", "status": "True"}]}


def pod_of_job(name: str, owner: str, **fields: Any) -> JSONObject:
    found = pod(name, status={"phase": "Running"}, **fields)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"uid-of-{owner}"}
    found["metadata"]["ownerReferences"] = [reference | {"controller": True}]
    return found


@pytest.mark.found("O15b")
@pytest.mark.parametrize(
    ("owner", "spec", "is_restored"),
    [
        (job("j"), {}, False),
        (job("j", status=FAILED), {}, False),
        (job("other"), {}, True),
        (job("j", spec={"manualSelector": True}), {}, True),
        (job("j"), {"excluded_resources": ["jobs"]}, True),
        (job("j"), {"included_resources": ["pods"]}, True),
        (job("j"), {"label_selector": LabelSelector(match_labels={"app": "x"})}, True),
        (job("j", labels={"app": "x"}), {"label_selector": LabelSelector(match_labels={"app": "x"})}, False),
        (job("j"), {"namespace_mapping": {"ns-1": "m1"}}, False),
    ],
    ids=[
        "its Job",
        "a finished Job",
        "no such Job in the backup",
        "a Job that adopts",
        "Jobs excluded",
        "only pods",
        "a Job without the label",
        "a Job with the label",
        "mapped",
    ],
)
async def test_a_pod_is_left_to_the_job_that_is_restored(
    harness: Harness, owner: JSONObject, spec: dict[str, Any], is_restored: bool
) -> None:
    """A restored Job makes new pods: two would do its work, and one of them belong to nobody."""
    mounted = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    results = await harness.restore(
        owner,
        claim("c", labels={"app": "x"}),
        pod_of_job("p", "j", labels={"app": "x"}, spec=mounted),
        **spec,
    )

    assert results.empty
    assert bool(harness.world.created_of("pods")) == is_restored
    if "included_resources" not in spec:
        assert harness.world.created_of("persistentvolumeclaims"), "the Job's new pods mount it too"


@pytest.mark.found("O15b")
async def test_a_job_of_the_same_name_that_is_younger_than_the_pod_does_not_count(harness: Harness) -> None:
    younger = job("j")
    younger["metadata"]["uid"] = "another"

    await harness.restore(younger, pod_of_job("p", "j"))

    assert harness.world.created_of("pods") == ["ns-1/p"]


@pytest.mark.found("O15b")
async def test_a_pod_with_the_data_of_its_volumes_is_restored_beside_its_job(harness: Harness) -> None:
    saved = PodVolumeBackup(
        spec=PodVolumeBackupSpec(pod=ObjectReference(namespace="ns-1", name="p"), volume="data"),
        status=PodVolumeBackupStatus(snapshot_id="r1"),
    )
    harness.request_fields = {"pod_volume_backups": [saved]}
    harness.annotations = {labels.WITHOUT_VOLUME_DATA: "true"}

    results = await harness.restore(
        job("j"), pod_of_job("p", "j", spec={"volumes": [{"name": "data", "emptyDir": {}}]})
    )

    assert harness.world.created_of("pods") == ["ns-1/p"]
    assert (
        "pods/ns-1/p is restored for the data of its volumes, though its Job j makes new pods"
        in (results.warnings.namespaces["ns-1"][0])
    )
