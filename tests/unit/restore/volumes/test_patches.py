"""Newly provisioned volumes get the reclaim policy and the labels of the old ones. (BEY 5.7)"""

from typing import Any

import pytest

from pinnace.api.volume_info import PersistentVolumeInfo, VolumeInfo
from pinnace.restore.request import RestoreOptions
from pinnace.restore.volumes.patches import volume_patch
from tests.unit.restore.world import Harness, claim, obj, volume

OLD = PersistentVolumeInfo(reclaim_policy="Retain", labels={"tier": "gold"})


def info(method: str = "CSISnapshot", *, of_volume: PersistentVolumeInfo | None = OLD) -> VolumeInfo:
    return VolumeInfo(pvc_namespace="ns-1", pvc_name="data", backup_method=method, pv_info=of_volume)


class Cluster:
    """Binds the restored claim after some looks at it."""

    def __init__(
        self, harness: Harness, *, after: int, owner: str = "data", binding: str = "Immediate"
    ) -> None:
        self.world = harness.world
        self.looks_left = after
        self.owner = owner
        harness.options = RestoreOptions(features={"EnableCSI"}, resource_timeout_seconds=5)
        self.world.on_get = self.on_get
        self.world.put(
            obj("StorageClass", "fast", api_version="storage.k8s.io/v1", volumeBindingMode=binding)
        )

    def on_get(self, key: tuple[str, str, str]) -> None:
        if key[0] != "persistentvolumeclaims" or key not in self.world.objects:
            return
        self.looks_left -= 1
        if self.looks_left == 0:
            self.world.objects[key] |= {"status": {"phase": "Bound"}}
            self.world.objects[key]["spec"]["volumeName"] = "pv-new"
            owner = {"namespace": key[1], "name": self.owner}
            self.world.put(volume("pv-new", policy="Delete", labels={"zone": "a"}, spec={"claimRef": owner}))


async def restored(harness: Harness, *infos: VolumeInfo, **spec: Any) -> list[str]:
    harness.request_fields = {"volume_infos": infos}
    csi = obj(
        "VolumeSnapshot",
        "s",
        "ns-1",
        api_version="snapshot.storage.k8s.io/v1",
        labels={"velero.io/backup-name": "backup-1"},
        annotations={"velero.io/csi-volumesnapshot-handle": "h"},
        spec={"source": {"persistentVolumeClaimName": "data"}},
    )
    results = await harness.restore(claim("data", spec={"storageClassName": "fast"}), csi, **spec)
    return [text for texts in results.errors.namespaces.values() for text in texts]


@pytest.mark.spec("BEY-053")
async def test_a_bound_volume_gets_policy_and_labels_back_in_a_mapped_namespace_too(harness: Harness) -> None:
    Cluster(harness, after=2)

    assert await restored(harness, info(), namespace_mapping={"ns-1": "ns-2"}) == []

    found = harness.world.item("persistentvolumes", "", "pv-new")
    assert found["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert found["metadata"]["labels"] == {"zone": "a", "tier": "gold"}


@pytest.mark.spec("BEY-053")
@pytest.mark.parametrize(
    ("of_backup", "binding", "owner", "after", "problem"),
    [
        (info(), "WaitForFirstConsumer", "data", 99, ""),
        (info(), "Immediate", "data", 99, "it was not bound within 5 seconds"),
        (info(), "Immediate", "other", 2, "it was not bound within 5 seconds"),
        (info(of_volume=None), "Immediate", "data", 99, ""),
        (info("NativeSnapshot"), "Immediate", "data", 99, ""),
    ],
    ids=[
        "waits for a pod",
        "not bound in time",
        "bound to another claim",
        "nothing known",
        "not provisioned anew",
    ],
)
async def test_a_volume_that_cannot_be_patched_is_an_error(
    harness: Harness, of_backup: VolumeInfo, binding: str, owner: str, after: int, problem: str
) -> None:
    Cluster(harness, after=after, owner=owner, binding=binding)

    errors = await restored(harness, of_backup)

    assert len(errors) == (1 if problem else 0)
    assert all(problem in text for text in errors)
    assert harness.world.patches == []


async def test_records_of_an_untrusted_location_change_no_volume(harness: Harness) -> None:
    Cluster(harness, after=1)
    harness.world.put(obj("Namespace", "ns-1"))
    harness.request_fields = {"volume_infos": [info()], "trusted": False}

    await harness.restore(claim("data", spec={"storageClassName": "fast"}), restore_pvs=False)

    assert harness.world.patches == []


def test_only_what_differs_is_patched() -> None:
    assert volume_patch(volume("v", policy="Retain", labels={"tier": "gold"}), OLD) == {}
    assert volume_patch(volume("v", policy="Delete", labels={"tier": "tin"}), OLD) == {
        "spec": {"persistentVolumeReclaimPolicy": "Retain"},
        "metadata": {"labels": {"tier": "gold"}},
    }
