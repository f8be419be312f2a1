"""A real API server accepts the example, its controllers complete it, and nothing of it stays behind."""

from collections.abc import AsyncIterator

import pytest

from examples.application import application
from examples.compare import Key, World, compare_worlds
from examples.documented import DOCUMENTED
from examples.stage import Stage
from pinnace.kube.client import KubeClient


@pytest.fixture
async def stage(client: KubeClient) -> AsyncIterator[Stage]:
    made = Stage(client, application())
    await made.destroy()  # another test's objects of these names may still be going
    yield made
    await made.destroy()


def named(world: World, kind: str, name: str) -> list[Key]:
    return [key for key in world if key.kind == kind and key.name.startswith(name)]


async def test_the_example_is_installed_completed_and_removed(stage: Stage) -> None:
    await stage.install()
    world = await stage.settle()

    assert set(stage.keys) <= world.keys()
    assert len(named(world, "Pod", "storefront-")) == 3
    assert len(named(world, "PersistentVolumeClaim", "data-database-")) == 2
    archive = world[Key("", "PersistentVolumeClaim", "shop-data", "archive")]
    assert archive["spec"]["volumeName"] == "shop-archive-0"
    operator = world[Key("rbac.authorization.k8s.io", "ClusterRole", "", "shop-operator")]
    assert {resource for rule in operator["rules"] for resource in rule.get("resources", [])} == {
        "promotions",
        "promotions/status",
        "regions",
    }
    promotion = world[Key("shop.example.com", "Promotion", "shop", "summer")]
    assert promotion["status"]["redemptions"] == 12_345_678_901

    again = await stage.settle()
    assert compare_worlds(world, world, again, DOCUMENTED).unexplained == []
    assert await stage.destroy() == {}
