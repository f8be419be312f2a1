"""Velero's finalizer on PodVolumeBackups and PodVolumeRestores goes when the server starts."""

import pytest

from pinnace.controllers.former_pod_volumes import FINALIZER, release_former_pod_volumes
from pinnace.kube.errors import Forbidden
from tests.unit.controllers.fakes import World, fail_always, fail_once


def add(world: World, plural: str, name: str, *finalizers: str) -> None:
    world.cluster.add(plural, name, status={"phase": "Failed"})["metadata"]["finalizers"] = list(finalizers)


def finalizers(world: World, plural: str, name: str) -> list[str]:
    found: list[str] = world.cluster.stored(plural, name)["metadata"]["finalizers"]
    return found


@pytest.mark.parametrize("plural", ["podvolumebackups", "podvolumerestores"])
async def test_velero_s_finalizer_is_taken_off_and_others_stay(world: World, plural: str) -> None:
    add(world, plural, "left", "example.com/before", FINALIZER, "example.com/behind")
    add(world, plural, "other", "example.com/other")

    await release_former_pod_volumes(world.scope)

    assert finalizers(world, plural, "left") == ["example.com/before", "example.com/behind"]
    assert finalizers(world, plural, "other") == ["example.com/other"]
    assert [name for verb, _, name in world.cluster.calls if verb == "patch"] == ["left"]


async def test_an_object_that_the_api_server_refuses_to_change_does_not_stop_the_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("one", "two"):
        add(world, "podvolumebackups", name, FINALIZER)
    world.cluster.before = fail_once("patch", "podvolumebackups", error=Forbidden(403, message="no"))

    await release_former_pod_volumes(world.scope)

    assert [finalizers(world, "podvolumebackups", name) for name in ("one", "two")] == [[FINALIZER], []]
    assert "Cannot take Velero's finalizer off a PodVolumeBackup" in caplog.text


async def test_the_finalizer_is_taken_off_an_object_that_changes_meanwhile(world: World) -> None:
    add(world, "podvolumebackups", "left", FINALIZER)

    def change(verb: str, plural: str, name: str) -> None:
        if verb == "patch":
            world.cluster.before = lambda *_: None
            obj = world.cluster.stored("podvolumebackups", "left")
            obj["metadata"]["resourceVersion"] = "changed"
            obj["metadata"]["finalizers"] = [FINALIZER, "example.com/new"]

    world.cluster.before = change
    await release_former_pod_volumes(world.scope)

    assert finalizers(world, "podvolumebackups", "left") == ["example.com/new"]


async def test_a_refused_list_does_not_stop_the_server(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    add(world, "podvolumerestores", "left", FINALIZER)
    denied = Forbidden(403, message="no")
    world.cluster.before = fail_always("list", "podvolumebackups", error=denied)

    await release_former_pod_volumes(world.scope)

    assert finalizers(world, "podvolumerestores", "left") == []
    assert "Cannot look for Velero's finalizer on PodVolumeBackups" in caplog.text
