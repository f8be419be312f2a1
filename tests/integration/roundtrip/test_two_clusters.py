"""A backup of one real cluster is restored into another, empty one; every object is compared."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import orjson
import pytest

from bench.floor.generate import GROUP, CreateRequest, Generator
from examples import report
from examples.application import application
from examples.compare import Key, World, compare_worlds
from examples.stage import Stage
from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import NAMESPACES
from tests.integration.roundtrip.runs import OTHER_CLUSTER, back_up, items, restore
from tests.support.waiting import eventually

GENERATED = 1600
SPREAD = 20


def assert_same(before: World, after: World) -> None:
    """Every object is there again, and differs only as documented; a Job has as many pods as before."""
    comparison = compare_worlds(before, {}, after, OTHER_CLUSTER)
    assert comparison.unexplained == [], report.unexplained(comparison)
    gone = {each.rule for each in comparison.differences if each.key not in after}
    assert gone <= {"account token", "job pods"}
    pods = [sum(key.kind == "Pod" for key in world) for world in (before, after)]
    assert pods[0] == pods[1]


@pytest.fixture
async def shop(client: KubeClient, second_client: KubeClient) -> AsyncIterator[tuple[Stage, Stage]]:
    """The shop in the first cluster, and its empty place in the second."""
    here, there = Stage(client, application()), Stage(second_client, application())
    await here.destroy()  # another test's objects of these names may still be going
    await here.install()
    yield here, there
    await asyncio.gather(here.destroy(), there.destroy())


@pytest.mark.found("O15b")
async def test_the_shop_moves_to_another_cluster(
    shop: tuple[Stage, Stage], control_plane: ControlPlane, second_cluster: ControlPlane, tmp_path: Path
) -> None:
    here, there = shop
    before = await here.settle()
    assert await there.snapshot() == {}

    backup = await back_up(
        *(control_plane, tmp_path, "shop"),
        included_namespaces=here.namespaces,
        include_cluster_resources=True,
    )
    restored = await restore(second_cluster, tmp_path, "shop", backup="shop")

    assert backup["status"]["phase"] == "Completed"
    after = await there.settle()
    assert_same(before, after)
    assert restored["status"]["progress"]["itemsRestored"] >= len(here.objects)
    assert (await here.snapshot()).keys() == before.keys()


async def create_all(client: KubeClient, requests: Iterable[CreateRequest]) -> None:
    """Create many objects, sixteen at a time."""
    queue = iter(requests)

    async def work() -> None:
        for request in queue:
            await client.request("POST", request.path, body=request.body)

    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(work())


def named(requests: Sequence[CreateRequest]) -> list[dict[str, object]]:
    """The objects of requests for cluster-scoped kinds, as a Stage takes them."""
    kinds = {
        "namespaces": ("v1", "Namespace"),
        "customresourcedefinitions": ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    }
    found = []
    for request in requests:
        api_version, kind = kinds[request.path.rsplit("/", 1)[1]]
        found.append({"apiVersion": api_version, "kind": kind, **orjson.loads(request.body)})
    return found


@pytest.fixture
async def generated(client: KubeClient, second_client: KubeClient) -> AsyncIterator[tuple[Stage, Stage]]:
    """Two thousand objects in the first cluster, and their empty place in the second."""
    generator = Generator(GENERATED, SPREAD)
    foundation = list(generator.foundation())
    here, there = Stage(client, named(foundation)), Stage(second_client, named(foundation))
    await create_all(client, foundation)

    async def served() -> bool:
        try:
            await client.request("GET", f"/apis/{GROUP}/v1/widgets")
        except NotFound:
            return False
        return True

    await eventually(served)
    await create_all(client, generator.accounts())
    await create_all(client, generator.objects())
    yield here, there
    await asyncio.gather(remove(here), remove(there))


async def remove(stage: Stage) -> None:
    """Begin the deletion; the cluster goes away soon."""
    for name in stage.namespaces:
        await stage.client.delete(NAMESPACES, name)


@pytest.mark.spec("BKP-063")
async def test_many_objects_of_each_kind_move_to_another_cluster(
    generated: tuple[Stage, Stage],
    control_plane: ControlPlane,
    second_cluster: ControlPlane,
    tmp_path: Path,
) -> None:
    here, there = generated
    before = await here.settle()
    made = sum(key.name.startswith("object-") for key in before)
    assert made >= GENERATED - SPREAD
    assert await there.snapshot() == {}

    # Without includeClusterResources: the definition comes because its custom resources do.
    backup = await back_up(control_plane, tmp_path, "many", included_namespaces=here.namespaces)
    restored = await restore(second_cluster, tmp_path, "many", backup="many")

    progress = backup["status"]["progress"]
    assert progress["itemsBackedUp"] == progress["totalItems"] == len(items(tmp_path, "many")) > GENERATED
    assert Key.of(here.objects[-1]) in before
    after = await there.settle()
    assert_same(before, after)
    assert restored["status"].get("errors", 0) == 0
