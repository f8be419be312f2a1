"""Snapshots of claims whose volumes the user may not read."""

from typing import Any, cast

import pytest

from pinnace.api.velero.backup import Backup
from pinnace.csi.backup import SnapshotClaim
from pinnace.csi.objects import TakenSnapshots
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden
from pinnace.volumes.policies import VolumePolicies

CLAIM = {
    "metadata": {"name": "data", "namespace": "shop"},
    "spec": {"volumeName": "pv-1"},
    "status": {"phase": "Bound"},
}


class FewRights:
    """A cluster whose PersistentVolumes the user may not read."""

    async def get(self, *_: Any) -> Any:
        raise Forbidden(403, message='persistentvolumes "pv-1" is forbidden')


async def test_a_claim_whose_volume_may_not_be_read_is_saved_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    action = SnapshotClaim(
        cast(KubeClient, FewRights()),
        cast(SnapshotKinds, None),
        cast(TakenSnapshots, None),
        restic=False,
        policies=VolumePolicies(cast(Any, None)),
    )
    item, additional = await action.execute(CLAIM, Backup())
    assert (item, list(additional)) == (CLAIM, [])
    [(level, text)] = {(record.levelname, record.getMessage()) for record in caplog.records}
    assert level == "WARNING"
    assert (
        'without a CSI snapshot, as its volume may not be read: persistentvolumes "pv-1" is forbidden' in text
    )
