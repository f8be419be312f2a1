"""Snapshots of persistent volumes in a backup: locations, records, errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.codec import encode
from pinnace.api.objects import JSONObject
from pinnace.api.velero.snapshots import VolumeSnapshotPhase
from pinnace.backup.collaborators import BackupCollaborators
from pinnace.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_SNAPSHOT_LOCATIONS,
)
from pinnace.plugins.builtin.backup.pod import PodAction
from pinnace.plugins.builtin.backup.pv import PersistentVolumeAction
from pinnace.plugins.protocols import VolumeInfo
from pinnace.volumes.native.snapshots_backup import NativeSnapshots
from pinnace.volumes.native.snapshotters import Snapshotters
from tests.unit.backup.fakes import Outcome, a_backup, run_backup, thing, two_a_page

ITEM = "resources/persistentvolumes/cluster/{}.json"


@dataclass
class Provider:
    """Knows the volumes whose `spec.disk` begins with its name.

    Attributes:
        fails: methods that raise; with "id" new snapshots get none.
        inits: the configurations it was given; made again for each location.
    """

    name: str
    fails: set[str] = field(default_factory=set)
    inits: list[Mapping[str, str]] = field(default_factory=list)
    taken: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)

    def _call(self, method: str) -> None:
        if method in self.fails:
            raise RuntimeError(f"{method} broke")

    async def init(self, config: Mapping[str, str]) -> None:
        self._call("init")
        self.inits.append(config)

    async def get_volume_id(self, persistent_volume: JSONObject) -> str:
        self._call("get_volume_id")
        disk: str = persistent_volume["spec"].get("disk", "")
        return disk if disk.startswith(self.name) else ""

    async def get_volume_info(self, volume_id: str, volume_az: str) -> VolumeInfo:
        self._call("get_volume_info")
        return VolumeInfo(volume_type="type-1", iops=100)

    async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
        self._call("create_snapshot")
        self.taken.append((volume_id, volume_az, tags))
        return "" if "id" in self.fails else f"{volume_id}-snapshot"

    async def create_volume_from_snapshot(
        self, snapshot_id: str, volume_type: str, volume_az: str, iops: int | None
    ) -> str:
        raise NotImplementedError

    async def delete_snapshot(self, snapshot_id: str) -> None:
        raise NotImplementedError

    async def set_volume_id(self, persistent_volume: JSONObject, volume_id: str) -> JSONObject:
        raise NotImplementedError


def disk(name: str, disk_id: str, **fields: Any) -> JSONObject:
    return thing(PERSISTENT_VOLUMES, name, spec={"disk": disk_id}, **fields)


class Scene:
    """A cluster with volumes and snapshot locations, and providers of the locations' names."""

    def __init__(self, tmp_path: Path) -> None:
        self.cluster = two_a_page()
        self.providers: dict[str, Provider] = {}
        self._tmp_path = tmp_path
        self.snapshots: list[dict[str, Any]] = []

    def add_location(self, name: str, *, known: bool = True, **config: str) -> Provider:
        provider = Provider(name)
        if known:
            self.providers[name] = provider
        spec = {"provider": name, "config": config}
        self.cluster.put_all(
            VOLUME_SNAPSHOT_LOCATIONS, thing(VOLUME_SNAPSHOT_LOCATIONS, name, "velero", spec=spec)
        )
        return provider

    async def back_up(self, *locations: str, pods: bool = False, **spec: Any) -> Outcome:
        backup = a_backup(volume_snapshot_locations=list(locations), **spec)
        backup.metadata.labels = {"team": "red", "velero.io/pv": "not this one"}
        native = NativeSnapshots(backup, Snapshotters(self.cluster, "velero", self.providers.__getitem__))
        outcome = await run_backup(
            self._tmp_path,
            self.cluster,
            backup,
            actions=[PersistentVolumeAction(), PodAction()],
            collaborators=BackupCollaborators(snapshots=native),
        )
        self.snapshots = [encode(record) for record in native.snapshots]
        return outcome


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.spec("BKP-047")
@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ""),
        ({"failure-domain.beta.kubernetes.io/zone": "zone-1"}, "zone-1"),
        (
            {
                "failure-domain.beta.kubernetes.io/zone": "zone-1-deprecated",
                "topology.kubernetes.io/zone": "zone-1-ga",
            },
            "zone-1-ga",
        ),
    ],
    ids=["no zone", "old label", "both labels"],
)
async def test_a_snapshot_is_recorded(scene: Scene, labels: dict[str, str], zone: str) -> None:
    provider = scene.add_location("default", region="r1")
    scene.cluster.put_all(PERSISTENT_VOLUMES, disk("pv-1", "default-vol-1", labels=labels))

    outcome = await scene.back_up("default")

    assert (outcome.errors, outcome.warnings) == (0, 0)
    assert ITEM.format("pv-1") in outcome.names
    assert provider.inits == [{"region": "r1"}]
    (record,) = scene.snapshots
    assert record["spec"] == {
        "backupName": "b1",
        "backupUID": "backup-uid",
        "location": "default",
        "PersistentVolumeName": "pv-1",
        "providerVolumeID": "default-vol-1",
        "volumeType": "type-1",
        "volumeIOPS": 100,
        **({"volumeAZ": zone} if zone else {}),
    }
    assert record["status"] == {
        "providerSnapshotID": "default-vol-1-snapshot",
        "phase": VolumeSnapshotPhase.COMPLETED.value,
    }
    tags = {"team": "red", "velero.io/backup": "b1", "velero.io/pv": "pv-1"}
    assert provider.taken == [("default-vol-1", zone, tags)]


@pytest.mark.spec("BKP-048")
@pytest.mark.parametrize(
    ("fails", "reason"),
    [("create_snapshot", "create_snapshot broke"), ("id", "the provider gave no id for it")],
)
async def test_a_snapshot_that_fails_keeps_the_volume_out(scene: Scene, fails: str, reason: str) -> None:
    scene.add_location("default").fails.add(fails)
    scene.cluster.put_all(PERSISTENT_VOLUMES, disk("pv-1", "default-vol-1"))

    outcome = await scene.back_up("default")

    (record,) = scene.snapshots
    assert record["status"] == {"phase": VolumeSnapshotPhase.FAILED.value}
    assert outcome.errors == 1
    assert f"error taking snapshot of volume: {reason}" in outcome.log
    assert ITEM.format("pv-1") not in outcome.names


async def test_a_volume_without_information_keeps_the_volume_out(scene: Scene) -> None:
    scene.add_location("default").fails.add("get_volume_info")
    scene.cluster.put_all(PERSISTENT_VOLUMES, disk("pv-1", "default-vol-1"))

    outcome = await scene.back_up("default")

    assert scene.snapshots == []
    assert outcome.errors == 1
    assert "error getting volume info: get_volume_info broke" in outcome.log
    assert ITEM.format("pv-1") not in outcome.names


@pytest.mark.spec("BKP-049")
@pytest.mark.parametrize(
    ("locations", "wanted", "known", "fails", "errors"),
    [
        (["default"], False, True, None, 0),
        ([], None, True, None, 0),
        (["default"], None, False, None, 1),
        (["default"], None, True, "init", 1),
        (["default"], None, True, "get_volume_id", 1),
        (["missing"], None, True, None, 1),
    ],
    ids=["not wanted", "no location", "unknown provider", "bad configuration", "no id", "location is gone"],
)
async def test_without_a_snapshot_the_volume_is_saved_as_an_object(
    scene: Scene, locations: list[str], wanted: bool | None, known: bool, fails: str | None, errors: int
) -> None:
    provider = scene.add_location("default", known=known)
    if fails:
        provider.fails.add(fails)
    scene.cluster.put_all(PERSISTENT_VOLUMES, disk("pv-1", "default-vol-1"))

    outcome = await scene.back_up(*locations, snapshot_volumes=wanted)

    assert scene.snapshots == []
    assert outcome.errors == errors
    assert ITEM.format("pv-1") in outcome.names


@pytest.mark.spec("BKP-050")
async def test_the_first_location_that_knows_a_volume_takes_it(scene: Scene) -> None:
    one, two = scene.add_location("one"), scene.add_location("two")
    scene.cluster.put_all(
        PERSISTENT_VOLUMES, disk("pv-1", "one-vol"), disk("pv-2", "two-vol"), disk("pv-3", "x")
    )

    outcome = await scene.back_up("one", "two")

    found = {each["spec"]["PersistentVolumeName"]: each["spec"]["location"] for each in scene.snapshots}
    assert found == {"pv-1": "one", "pv-2": "two"}
    assert outcome.errors == 0
    assert all(ITEM.format(name) in outcome.names for name in ("pv-1", "pv-2", "pv-3"))
    assert (len(one.inits), len(two.inits)) == (1, 1)


async def test_a_location_that_could_not_be_opened_is_tried_again(scene: Scene) -> None:
    provider = scene.add_location("default")
    provider.fails.add("init")
    scene.cluster.put_all(
        PERSISTENT_VOLUMES, disk("pv-1", "default-1"), disk("pv-2", "default-2"), disk("pv-3", "default-3")
    )
    calls: list[str] = []

    def find(name: str) -> Provider:
        calls.append(name)
        if len(calls) == 2:
            provider.fails.clear()
        return provider

    scene.providers = Finder(find)
    outcome = await scene.back_up("default")

    assert [each["spec"]["PersistentVolumeName"] for each in scene.snapshots] == ["pv-2", "pv-3"]
    assert outcome.errors == 1
    assert calls == ["default", "default"]


class Finder(dict[str, Provider]):
    """A dict whose members are made by a function."""

    def __init__(self, find: Any) -> None:
        self._find = find

    def __getitem__(self, name: str) -> Provider:
        found: Provider = self._find(name)
        return found


@pytest.mark.spec("BKP-055")
async def test_the_error_of_a_snapshot_leaves_out_all_items_that_need_it_and_counts_once(
    scene: Scene,
) -> None:
    scene.add_location("default").fails.add("create_snapshot")
    scene.cluster.put_all(
        PODS,
        thing(
            PODS,
            "pod-1",
            "ns-1",
            spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "pvc-1"}}]},
            status={"phase": "Running"},
        ),
    )
    spec, status = {"volumeName": "pv-1"}, {"phase": "Bound"}
    claim = thing(PERSISTENT_VOLUME_CLAIMS, "pvc-1", "ns-1", spec=spec, status=status)
    scene.cluster.put_all(PERSISTENT_VOLUME_CLAIMS, claim)
    scene.cluster.put_all(PERSISTENT_VOLUMES, disk("pv-1", "default-vol-1"))

    outcome = await scene.back_up("default")

    assert outcome.errors == 1
    assert [name for name in outcome.items if "-1" in name] == []
    assert [record["status"]["phase"] for record in scene.snapshots] == ["Failed"]
