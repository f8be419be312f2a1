"""Which snapshot is a parent."""

from datetime import UTC, datetime

import pytest

from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.pod_volume import PodVolumeBackup, PodVolumeBackupSpec, PodVolumeBackupStatus
from pinnace.volumes.pods.parents import parent_snapshot


def backup(
    day: int | None = None,
    snapshot: str = "",
    *,
    phase: str = "Completed",
    location: str = "A",
    claim: str = "c",
) -> PodVolumeBackup:
    started = datetime(2021, 8, day, tzinfo=UTC) if day is not None else None
    return PodVolumeBackup(
        metadata=ObjectMeta(labels={labels.PVC_UID: claim} if claim else {}),
        spec=PodVolumeBackupSpec(backup_storage_location=location),
        status=PodVolumeBackupStatus(phase=phase, snapshot_id=snapshot, start_timestamp=started),
    )


@pytest.mark.spec("PVL-047", "PVL-048", "CTL-055")
@pytest.mark.parametrize(
    ("new", "others", "parent"),
    [
        (
            backup(),
            [backup(1, "t1"), backup(2, "t2", location="B"), backup(3, "t3", phase="Failed")],
            "t1",
        ),
        (backup(), [backup(2, "newer"), backup(1, "older")], "newer"),
        (backup(), [backup(1, "old"), backup(2, "")], ""),
        (backup(), [backup(1, "other", claim="d")], ""),
        (backup(), [backup(None, "undated"), backup(1, "dated")], "dated"),
        (backup(claim=""), [backup(1, "x", claim="")], ""),
        (backup(), [], ""),
    ],
)
def test_the_parent_is_the_newest_snapshot_of_the_same_claim(
    new: PodVolumeBackup, others: list[PodVolumeBackup], parent: str
) -> None:
    assert parent_snapshot(new, others) == parent
