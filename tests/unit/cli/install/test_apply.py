"""What `install --apply` makes of the API server's book-keeping."""

from typing import cast

import pytest

from pinnace.api.objects import JSONObject
from pinnace.cli.install.apply import MANAGER, adoption, conflicts
from pinnace.cli.install.run import foreign_workloads, warn_of_stopped
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import DEPLOYMENTS
from tests.unit.cli.fake_cluster import FakeCluster


def entry(manager: str, operation: str = "Update", **more: str) -> JSONObject:
    return {"manager": manager, "operation": operation, **more}


@pytest.mark.parametrize(
    ("entries", "index"),
    [
        (None, None),
        ([entry("kubectl-edit")], None),
        ([entry("kubectl-edit"), entry(MANAGER)], 1),
        ([entry(MANAGER, subresource="status")], None),
        ([entry(MANAGER), entry(MANAGER, "Apply")], None),
    ],
    ids=["no book", "not ours", "created by us", "a status", "applied before"],
)
def test_fields_of_an_earlier_install_become_applied_and_no_others(
    entries: list[JSONObject] | None, index: int | None
) -> None:
    patch = adoption({"resourceVersion": "7", "managedFields": entries})

    expected = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "replace", "path": f"/metadata/managedFields/{index}/operation", "value": "Apply"},
    ]
    assert patch == ([] if index is None else expected)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {"details": {"causes": [{"message": 'conflict with "me" using apps/v1', "field": ".spec.x"}]}},
            [".spec.x, which me had set"],
        ),
        ({"details": {"causes": [{"message": "odd"}]}}, ["a field, which another program had set"]),
        ({}, []),
    ],
    ids=["named", "in other words", "nothing"],
)
def test_conflicts_are_reported_with_field_and_manager(status: JSONObject, said: list[str]) -> None:
    assert conflicts(status) == said


@pytest.mark.parametrize(
    ("replicas", "warning"),
    [
        (
            0,
            "WARNING: Deployment/velero has 0 replicas, so it does not run. "
            "Start it: kubectl -n velero scale deployment/velero --replicas=1\n",
        ),
        (1, ""),
        (None, ""),
    ],
)
async def test_a_server_that_is_scaled_to_zero_is_warned_of(
    capsys: pytest.CaptureFixture[str], replicas: int | None, warning: str
) -> None:
    cluster = FakeCluster()
    cluster.add(DEPLOYMENTS, "velero", spec={} if replicas is None else {"replicas": replicas})
    made = [
        {"kind": "Deployment", "metadata": {"name": "velero", "namespace": "velero"}},
        {"kind": "Deployment", "metadata": {"name": "gone", "namespace": "velero"}},
        {"kind": "Secret", "metadata": {"name": "s", "namespace": "velero"}},
    ]

    await warn_of_stopped(cast(KubeClient, cluster), made)

    assert capsys.readouterr().err == warning


def workload(name: str, *images: str) -> JSONObject:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    metadata = {"name": name, "namespace": "velero"}
    spec = {"template": {"spec": {"containers": containers}}}
    return {"kind": "Deployment", "metadata": metadata, "spec": spec}


async def test_a_velero_server_that_was_left_as_it_is_is_not_taken_for_the_installed_one() -> None:
    cluster = FakeCluster()
    for name in ("velero", "other"):
        cluster.add(DEPLOYMENTS, name, spec=workload(name, "velero/velero:v1.18.0")["spec"])
    made = [
        workload("velero", "pinnace:1"),
        workload("other", "velero/velero:v1.18.0"),
        workload("gone", "pinnace:1"),
        {"kind": "Secret", "metadata": {"name": "s", "namespace": "velero"}},
    ]

    found = await foreign_workloads(cast(KubeClient, cluster), made)

    assert found == ["Deployment/velero with velero/velero:v1.18.0"]
