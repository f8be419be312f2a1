"""The zone of a volume, and which volumes get native snapshots."""

from typing import Any, cast
from unittest.mock import Mock

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.archive.runlog import RunLog
from pinnace.volumes.native.snapshots_backup import NativeSnapshots, zone_of
from pinnace.volumes.native.snapshotters import Snapshotters


def affinity(key: str, *zones: str, operator: str = "In") -> dict[str, Any]:
    wanted = {"key": key, "operator": operator, "values": list(zones)}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}}


@pytest.mark.found("U11")
@pytest.mark.parametrize(
    ("labels", "spec", "zone"),
    [
        ({}, {}, ""),
        ({}, affinity("topology.ebs.csi.aws.com/zone", "eu-west-1a"), "eu-west-1a"),
        (
            {},
            affinity("topology.gke.io/zone", "us-central1-b", "us-central1-a"),
            "us-central1-a__us-central1-b",
        ),
        ({}, affinity("topology.ebs.csi.aws.com/zone", "us-east-2c", "us-east-2b"), "us-east-2c"),
        ({}, affinity("topology.cinder.csi.openstack.org/zone", "nova"), "nova"),
        ({}, affinity("topology.manila.csi.openstack.org/zone", "nova"), "nova"),
        ({}, affinity("topology.disk.csi.azure.com/zone", ""), ""),
        ({}, affinity("topology.kubernetes.io/zone", "a", operator="NotIn"), ""),
        ({}, affinity("kubernetes.io/hostname", "node"), ""),
        ({"topology.kubernetes.io/zone": "b"}, affinity("topology.gke.io/zone", "a"), "b"),
    ],
)
def test_the_zone_of_a_volume(labels: dict[str, str], spec: dict[str, Any], zone: str) -> None:
    assert zone_of({"metadata": {"name": "pv", "labels": labels}, "spec": spec}) == zone


async def test_volumes_of_csi_drivers_get_no_native_snapshots() -> None:
    backup = Backup(metadata=ObjectMeta(name="b1"), spec=BackupSpec(volume_snapshot_locations=["default"]))
    asked = Mock(spec=Snapshotters)
    native = NativeSnapshots(backup, asked, csi=True)
    volume = {"metadata": {"name": "pv"}, "spec": {"csi": {"driver": "ebs.csi.aws.com"}}}

    assert await native.snapshot(volume, cast(RunLog, Mock(spec=RunLog))) == ()
    assert native.snapshots == []
    asked.of.assert_not_called()
