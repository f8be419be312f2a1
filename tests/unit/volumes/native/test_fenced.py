"""Snapshots of clouds are neither made nor deleted by a server that may not lead any more."""

from typing import Any, cast

import pytest

from pinnace.aio.fence import FenceClosed, check_request
from pinnace.volumes.native.fenced import fenced
from pinnace.volumes.native.snapshotters import Snapshotter
from tests.support.fences import TestFence

pytestmark = pytest.mark.found("L3")


class Cloud:
    """Notes its calls; each of its writes looks at the fence, as those over HTTP do."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def init(self, config: Any) -> None:
        self.calls.append("init")

    async def get_volume_id(self, volume: Any) -> str:
        return "v"

    async def create_snapshot(self, *_: Any) -> str:
        check_request()
        self.calls.append("create_snapshot")
        return "s"

    async def delete_snapshot(self, *_: Any) -> None:
        self.calls.append("delete_snapshot")

    async def create_volume_from_snapshot(self, *_: Any) -> str:
        self.calls.append("create_volume_from_snapshot")
        return "v"


async def test_writes_pass_the_fence_and_reads_do_not() -> None:
    cloud, fence = Cloud(), TestFence()
    snapshotter = fenced(lambda _: cast(Snapshotter, cloud), fence)("aws")
    await snapshotter.init({})
    assert await snapshotter.create_snapshot("v", "az", {}) == "s"
    await snapshotter.delete_snapshot("s")
    assert await snapshotter.create_volume_from_snapshot("s", "t", "az", None) == "v"
    done = list(cloud.calls)

    fence.closed = "another leads"
    for write in (
        snapshotter.create_snapshot("v", "az", {}),
        snapshotter.delete_snapshot("s"),
        snapshotter.create_volume_from_snapshot("s", "t", "az", None),
    ):
        with pytest.raises(FenceClosed):
            await write
    assert cloud.calls == done
    assert await snapshotter.get_volume_id({}) == "v"


async def test_a_write_of_several_requests_ends_when_the_fence_closes() -> None:
    snapshotter = fenced(lambda _: cast(Snapshotter, Cloud()), TestFence(closes_after=1))("aws")
    with pytest.raises(FenceClosed):
        await snapshotter.create_snapshot("v", "az", {})


def test_without_a_fence_nothing_is_wrapped() -> None:
    cloud = cast(Snapshotter, Cloud())
    assert fenced(lambda _: cloud, None)("aws") is cloud
