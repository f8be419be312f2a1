"""Quotas that a restore brings back and that are exceeded."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import Forbidden
from tests.unit.restore.preview.foreseeing import foreseer
from tests.unit.restore.world import Harness, configmap, obj

KEY = ("resourcequotas", "ns-1", "few")


def quota(hard: JSONObject, used: JSONObject | None = None) -> JSONObject:
    status = {"hard": hard, "used": used} if used is not None else {}
    return obj("ResourceQuota", "few", "ns-1", spec={"hard": hard}, status=status)


def count(harness: Harness, used: JSONObject) -> None:
    """Have the cluster count what is in use, a while after the quota was created."""

    def counted() -> None:
        if found := harness.world.objects.get(KEY):
            found["status"] = {"hard": found["spec"]["hard"], "used": used}

    harness.clock.on_sleep = counted


@pytest.mark.found("O17a")
@pytest.mark.parametrize(
    ("hard", "used", "over"),
    [
        ({"pods": "3", "configmaps": "4"}, {"pods": "5", "configmaps": "4"}, "pods: 5 of 3"),
        ({"requests.cpu": "1"}, {"requests.cpu": "1100m"}, "requests.cpu: 1100m of 1"),
        (
            {"memory": "1Gi", "pods": "1"},
            {"memory": "1025Mi", "pods": "2"},
            "memory: 1025Mi of 1Gi, pods: 2 of 1",
        ),
        ({"requests.cpu": "1"}, {"requests.cpu": "1000m"}, ""),
        ({"memory": "1Gi"}, {"memory": "1024Mi"}, ""),
        ({"pods": "3"}, {}, ""),
        ({"pods": "3"}, {"pods": "many"}, ""),
        ({"pods": "3"}, {"pods": "9" * 1_000_000}, ""),
    ],
)
async def test_a_quota_that_is_exceeded_is_a_warning(
    harness: Harness, hard: JSONObject, used: JSONObject, over: str
) -> None:
    count(harness, used)

    results = await harness.restore(quota(hard))

    assert results.errors.count == 0
    warnings = results.warnings.namespaces.get("ns-1", [])
    assert len(warnings) == bool(over)
    if over:
        assert f"resourcequotas/ns-1/few: what is in its namespace exceeds it ({over})." in warnings[0]


@pytest.mark.found("O17a")
@pytest.mark.parametrize("is_dry_run", [False, True], ids=["nothing counts", "dry run"])
async def test_what_was_in_use_is_said_where_the_cluster_does_not_count(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_dry_run: bool
) -> None:
    saved = quota({"pods": "3"}, {"pods": "5"})
    began = harness.clock.time

    if is_dry_run:
        results = (await foreseer(harness, tmp_path, monkeypatch)(saved)).results
    else:
        results = await harness.restore(saved)

    (warning,) = results.warnings.namespaces["ns-1"]
    assert "it was exceeded when it was saved (pods: 5 of 3)" in warning
    assert harness.clock.time - began < 60, "it is waited for only a moment"


async def test_the_count_of_the_cluster_precedes_that_of_the_backup(harness: Harness) -> None:
    count(harness, {"pods": "1"})

    assert (await harness.restore(quota({"pods": "3"}, {"pods": "5"}))).empty


async def test_a_quota_that_exists_is_not_the_restores(harness: Harness) -> None:
    harness.world.put(quota({"pods": "3"}, {"pods": "5"}))

    assert (await harness.restore(quota({"pods": "3"}), configmap("c"))).empty


async def test_a_quota_that_cannot_be_read_ends_nothing(harness: Harness) -> None:
    harness.world.refuse("get", KEY, Forbidden(403, message="no"))

    results = await harness.restore(quota({"pods": "3"}))

    assert results.empty


async def test_a_quota_of_several_namespaces_counts_too(harness: Harness) -> None:
    spec: dict[str, Any] = {"quota": {"hard": {"pods": "3"}}}
    status = {"total": {"hard": {"pods": "3"}, "used": {"pods": "4"}}}
    item = obj("ClusterResourceQuota", "team", api_version="quota.openshift.io/v1", spec=spec, status=status)

    results = await harness.restore(item)

    (warning,) = results.warnings.cluster
    assert "clusterresourcequotas.quota.openshift.io/team: it was exceeded when it was saved" in warning
