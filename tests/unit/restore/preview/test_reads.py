"""The requests of a preview: lists where they are cheaper than a request for each object."""

from collections import Counter
from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.restore_outcomes import Outcome
from pinnace.kube.errors import Forbidden
from pinnace.restore.errors import RestoreFailed
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.restore.preview.foreseeing import Foresee, foreseer
from tests.unit.restore.world import Harness, configmap, obj


@pytest.fixture
def foresee(harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foresee:
    return foreseer(harness, tmp_path, monkeypatch)


def config_maps(count: int, *namespaces: str, value: str = "1") -> list[JSONObject]:
    """So many in each namespace."""
    return [
        configmap(f"c{number}", namespace, data={"v": value})
        for namespace in namespaces
        for number in range(count)
    ]


def put(world: ScriptedCluster, *items: JSONObject) -> None:
    for item in items:
        world.put(item)
        world.put(obj("Namespace", item["metadata"]["namespace"]))


def calls(world: ScriptedCluster) -> Counter[str]:
    """How often config maps were asked for, by verb."""
    return Counter(call[0] for call in world.calls if call[1] == "configmaps")


async def test_objects_that_exist_cost_no_request_each(harness: Harness, foresee: Foresee) -> None:
    put(harness.world, *config_maps(99, "ns-1"), configmap("c99", "ns-1", data={"v": "2"}))

    preview = await foresee(*config_maps(101, "ns-1"))

    assert preview.outcomes.counts == {Outcome.UNCHANGED: 99, Outcome.DIFFERENT: 1, Outcome.CREATED: 1}
    asked = calls(harness.world)
    assert asked["list"] == 1
    assert asked["get"] <= 4


async def test_objects_of_many_namespaces_are_listed_at_once(harness: Harness, foresee: Foresee) -> None:
    namespaces = [f"ns-{number:02}" for number in range(40)]
    put(harness.world, *config_maps(10, *namespaces))

    preview = await foresee(*config_maps(10, *namespaces))

    assert preview.outcomes.counts == {Outcome.UNCHANGED: 400}
    assert calls(harness.world).total() < 40


async def test_a_namespace_with_far_more_objects_than_are_asked_for_is_not_listed(
    harness: Harness, foresee: Foresee
) -> None:
    put(harness.world, *config_maps(2_000, "ns-1"))

    preview = await foresee(*config_maps(6, "ns-1"))

    assert preview.outcomes.counts == {Outcome.UNCHANGED: 6}
    asked = calls(harness.world)
    assert asked["get"] == 6
    assert asked["list"] == 1, "its first page says how many there are"


async def test_where_lists_are_forbidden_each_object_is_asked_for_once(
    harness: Harness, foresee: Foresee
) -> None:
    put(harness.world, *config_maps(50, "ns-1"))
    for namespace in ("", "ns-1"):
        harness.world.refuse("list", ("configmaps", namespace, ""), Forbidden(403, reason="Forbidden"))

    preview = await foresee(*config_maps(51, "ns-1"))

    assert preview.outcomes.counts == {Outcome.UNCHANGED: 50, Outcome.CREATED: 1}
    assert calls(harness.world)["get"] == 51


async def test_a_full_disk_ends_the_preview_with_one_error(
    harness: Harness, foresee: Foresee, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(harness.world, *config_maps(50, "ns-1"))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)

    with pytest.raises(RestoreFailed, match="writing a temporary file: No space left on device in"):
        await foresee(*config_maps(50, "ns-1"))
