"""The comparison in the container of a node agent: which volume, which repository, and when it gives up."""

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from pinnace.api.meta import ObjectReference
from pinnace.controllers.node.reconciler import PodVolumeFailed
from pinnace.controllers.node.volumes import NodeVolumes
from pinnace.server.file_comparison import ComparisonFailed, VolumeComparison
from pinnace.volumes.comparison_request import ComparisonRequest
from pinnace.volumes.pods.host_paths import HostPathError
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.comparing import FileComparison
from pinnace.volumes.uploader.interface import Target, Uploader
from tests.unit.controllers.node.world import NodeWorld

NOTHING = FileComparison(counts={}, names={})
WANTED = ComparisonRequest(
    pod=ObjectReference(namespace="shop", name="p", uid="uid-p"),
    volume="data",
    location="default",
    namespace="old-shop",
    uploader="kopia",
    snapshot="k1",
    keep_unchanged=True,
    delete_extra=True,
)


class Comparer:
    """An uploader that compares.

    Attributes:
        asked: repository, snapshot and target of each comparison.
        until: what it waits for.
        has_notes: whether the snapshots are of the level above.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[Repository, str, Target]] = []
        self.until: asyncio.Event | None = None
        self.begun = asyncio.Event()
        self.has_notes = False

    async def has_file(self, repository: Repository, snapshot: str, name: str) -> bool:
        return self.has_notes

    async def compare(self, repository: Repository, snapshot: str, target: Target) -> FileComparison:
        self.asked.append((repository, snapshot, target))
        self.begun.set()
        if self.until is not None:
            await self.until.wait()
        return NOTHING


class Accesses:
    """Knows the location `default`."""

    async def location(self, name: str) -> Any:
        from pinnace.api.codec import decode
        from pinnace.api.velero.storage_location import BackupStorageLocation

        assert name == "default"
        spec = {
            "provider": "velero.io/gcp",
            "objectStorage": {"bucket": "bucket", "prefix": "some"},
        }
        return decode(
            BackupStorageLocation, {"metadata": {"name": name, "namespace": "velero"}, "spec": spec}
        )


@pytest.fixture
def world(tmp_path: Path) -> NodeWorld:
    return NodeWorld(tmp_path)


def comparison(world: NodeWorld, comparer: Comparer, wanted: ComparisonRequest = WANTED) -> VolumeComparison:
    return VolumeComparison(
        NodeVolumes(world.scope),
        cast(AccessProvider, Accesses()),
        cast(Uploader, comparer),
        wanted,
        clock=world.clock,
    )


@pytest.mark.parametrize("uploader", ["kopia", "restic"])
async def test_the_volume_of_the_pod_is_compared_with_the_repository_of_the_location(
    world: NodeWorld, uploader: str
) -> None:
    world.add_pod()
    path, comparer = world.volume(), Comparer()

    found = await comparison(world, comparer, msgspec.structs.replace(WANTED, uploader=uploader)).result()

    assert found is NOTHING
    [(repository, snapshot, target)] = comparer.asked
    assert (repository.namespace, repository.location, repository.uploader) == (
        "old-shop",
        "default",
        uploader,
    )
    assert repository.identifier == ("gs:bucket:/some/restic/old-shop" if uploader == "restic" else "")
    assert snapshot == "k1"
    assert target == Target(path=path, keep_unchanged=True, delete_extra=True)


async def test_a_volume_that_is_not_on_the_node_is_an_error(world: NodeWorld) -> None:
    world.add_pod()

    with pytest.raises(HostPathError):
        await comparison(world, Comparer()).result()


async def test_a_pod_that_took_the_name_is_not_taken_for_the_one_that_is_asked_for(world: NodeWorld) -> None:
    world.add_pod()
    world.volume()
    other = msgspec.structs.replace(WANTED, pod=ObjectReference(namespace="shop", name="p", uid="former"))

    with pytest.raises((PodVolumeFailed, ComparisonFailed)):
        await comparison(world, Comparer(), other).result()


async def test_it_ends_when_the_pod_is_to_go_as_its_volume_cannot_be_unmounted_before(
    world: NodeWorld,
) -> None:
    world.add_pod()
    world.volume()
    comparer = Comparer()
    comparer.until = asyncio.Event()
    comparing = asyncio.create_task(comparison(world, comparer).result())
    await comparer.begun.wait()

    world.cluster.vanish("pods", "p", "shop")
    await world.clock.advance(2.0)

    with pytest.raises(ComparisonFailed, match="is being deleted"):
        await comparing
