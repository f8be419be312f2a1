"""A snapshotter whose writes pass a fence, for a server that may lose its lease. (docs/adr/078)"""

from collections.abc import Mapping
from typing import Any

from pinnace.aio.fence import Fence, write_of
from pinnace.volumes.native.snapshotters import FindSnapshotter, Snapshotter


def fenced(find: FindSnapshotter, fence: Fence | None) -> FindSnapshotter:
    """Find snapshotters that begin no write while the fence is closed; FenceClosed is raised instead."""
    if fence is None:
        return find
    return lambda provider: _FencedSnapshotter(find(provider), fence)


class _FencedSnapshotter:
    """See Snapshotter; the methods that are not here change nothing."""

    def __init__(self, snapshotter: Snapshotter, fence: Fence) -> None:
        self._snapshotter = snapshotter
        self._fence = fence

    async def init(self, config: Mapping[str, str]) -> None:
        await self._snapshotter.init(config)

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        await self._fence.passed()
        with write_of(self._fence):
            return await self._snapshotter.create_volume_from_snapshot(
                snapshot_id, volume_type, volume_az, iops
            )

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        await self._fence.passed()
        with write_of(self._fence):
            return await self._snapshotter.create_snapshot(volume_id, volume_az, tags)

    async def delete_snapshot(self, snapshot_id: str) -> None:
        await self._fence.passed()
        with write_of(self._fence):
            await self._snapshotter.delete_snapshot(snapshot_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._snapshotter, name)
