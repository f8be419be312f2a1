"""Volumes from native snapshots, and deleting those."""

from collections.abc import Mapping
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.velero.snapshots import VolumeSnapshot, VolumeSnapshotSpec, VolumeSnapshotStatus
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import APIResource
from pinnace.plugins.protocols import VolumeInfo
from pinnace.volumes.native.snapshots_restore import SnapshotVolumes, delete_snapshots
from pinnace.volumes.native.snapshotters import SnapshotError, Snapshotters


class Provider:
    """Makes volumes `new-<snapshot>`.

    Attributes:
        fails: snapshots that cannot be used or deleted; with "id" new volumes get none.
        rename: the name that a persistent volume gets; None to keep it.
    """

    def __init__(self) -> None:
        self.fails: set[str] = set()
        self.rename: str | None = None
        self.made: list[tuple[str, str, str, int | None]] = []
        self.deleted: list[str] = []

    async def init(self, config: Mapping[str, str]) -> None:
        assert config == {"region": "r1"}

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        self._check(snapshot_id)
        self.made.append((snapshot_id, volume_type, volume_az, iops))
        return "" if "id" in self.fails else f"new-{snapshot_id}"

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject:
        name = persistent_volume["metadata"]["name"] if self.rename is None else self.rename
        return {**persistent_volume, "metadata": {"name": name}, "spec": {"disk": volume_id}}

    async def delete_snapshot(self, snapshot_id: str) -> None:
        self._check(snapshot_id)
        self.deleted.append(snapshot_id)

    async def get_volume_info(self, volume_id: str, volume_az: str) -> VolumeInfo:
        raise NotImplementedError

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        raise NotImplementedError

    async def get_volume_id(self, persistent_volume: JSONObject) -> str:
        raise NotImplementedError

    def _check(self, snapshot_id: str) -> None:
        if snapshot_id in self.fails:
            raise RuntimeError("the cloud said no")


class Locations:
    """One location, `default`."""

    async def get(self, _resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        assert namespace == "velero"
        if name != "default":
            raise NotFound(404, reason="NotFound", message=f'"{name}" not found')
        return {
            "apiVersion": "velero.io/v1",
            "kind": "VolumeSnapshotLocation",
            "metadata": {"name": name},
            "spec": {"provider": "cloud", "config": {"region": "r1"}},
        }


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def snapshotters(provider: Provider) -> Snapshotters:
    return Snapshotters(Locations(), "velero", {"cloud": provider}.__getitem__)


def record(snapshot_id: str = "snap-1", location: str = "default", **spec: Any) -> VolumeSnapshot:
    return VolumeSnapshot(
        spec=VolumeSnapshotSpec(location=location, persistent_volume_name="pv-1", **spec),
        status=VolumeSnapshotStatus(provider_snapshot_id=snapshot_id),
    )


@pytest.mark.spec("RST-086")
@pytest.mark.parametrize("iops", [None, 100])
async def test_a_volume_is_made_as_the_record_says(
    snapshotters: Snapshotters, provider: Provider, iops: int | None
) -> None:
    volume = {"metadata": {"name": "pv-1"}, "spec": {"disk": "old"}}
    snapshot = record(volume_type="gp2", volume_az="us-east-1b", volume_iops=iops)

    changed = await SnapshotVolumes(snapshotters).restore_volume(volume, snapshot)

    assert provider.made == [("snap-1", "gp2", "us-east-1b", iops)]
    assert changed == {"metadata": {"name": "pv-1"}, "spec": {"disk": "new-snap-1"}}


@pytest.mark.parametrize(
    ("name", "location", "fails", "rename", "problem"),
    [
        ("", "default", set(), None, "PersistentVolume is missing its name"),
        ("pv-1", "gone", set(), None, 'error getting volume snapshot location gone: "gone" not found'),
        ("pv-1", "default", {"snap-1"}, None, "from snapshot snap-1: the cloud said no"),
        ("pv-1", "default", {"id"}, None, "from snapshot snap-1: the provider gave no id for it"),
        ("pv-1", "default", set(), "", "without a name"),
    ],
    ids=["no name", "no location", "provider", "no id", "name lost"],
)
async def test_errors_name_their_reason(
    snapshotters: Snapshotters,
    provider: Provider,
    name: str,
    location: str,
    fails: set[str],
    rename: str | None,
    problem: str,
) -> None:
    provider.fails, provider.rename = fails, rename
    volume = {"metadata": {"name": name} if name else {}, "spec": {}}
    with pytest.raises(SnapshotError, match=problem):
        await SnapshotVolumes(snapshotters).restore_volume(volume, record(location=location))


async def test_an_error_deleting_a_snapshot_does_not_stop_the_others(
    snapshotters: Snapshotters, provider: Provider
) -> None:
    provider.fails = {"snap-2"}
    records = [record("snap-1"), record("snap-2"), record(""), record("snap-3", "gone"), record("snap-4")]

    errors = await delete_snapshots(records, snapshotters)

    assert provider.deleted == ["snap-1", "snap-4"]
    assert errors == [
        "error deleting snapshot snap-2: its provider refused: the cloud said no",
        'error deleting snapshot snap-3: error getting volume snapshot location gone: "gone" not found',
    ]
