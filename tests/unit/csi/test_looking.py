"""Which answers of a driver prove that a snapshot exists."""

from typing import Any, cast

import pytest

from pinnace.api import labels
from pinnace.csi.deletion import StoredSnapshot
from pinnace.csi.looking import look_up_csi, proves_nothing
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import APIResource

MADE = "2026-01-01T00:00:10Z"
MADE_NANOSECONDS = 1_767_225_610 * 10**9


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"readyToUse": True, "creationTime": MADE_NANOSECONDS - 61 * 10**9}, False),
        ({"readyToUse": True, "creationTime": MADE_NANOSECONDS + 5}, True),
        ({"readyToUse": True}, True),
        ({"readyToUse": False}, False),
        ({"error": {"message": "not found"}}, False),
        (None, False),
    ],
    ids=["older", "just now", "no time", "not ready", "error", "no answer"],
)
def test_a_snapshot_taken_just_now_proves_nothing(status: dict[str, Any] | None, expected: bool) -> None:
    metadata = {"creationTimestamp": MADE, "labels": {labels.VERIFICATION: "true"}}
    assert proves_nothing({"metadata": metadata, "status": status}) == expected
    assert not proves_nothing({"metadata": {"creationTimestamp": MADE}, "status": status})


async def test_an_api_server_that_is_too_slow_is_reported_as_unknown() -> None:
    class Slow:
        async def list_all(self, _resource: APIResource) -> list[dict[str, Any]]:
            return []

        async def create(self, _resource: APIResource, body: dict[str, Any]) -> dict[str, Any]:
            return body

        async def get(self, _resource: APIResource, _name: str) -> dict[str, Any]:
            return {"metadata": {}, "status": {"readyToUse": True}}

        async def delete(self, _resource: APIResource, _name: str) -> None:
            raise TimeoutError

    kind = APIResource(group="snapshot.storage.k8s.io", version="v1", name="x", kind="X", namespaced=False)
    kinds = SnapshotKinds(snapshots=kind, contents=kind, classes=kind)
    wanted = StoredSnapshot(driver="csi.example.com", handle="h1")

    found = await look_up_csi(cast(KubeClient, Slow()), kinds, [wanted], ask_in="velero")

    assert found.missing == []
    assert found.unknown == ["CSI snapshot h1 of csi.example.com: the API server took too long"]
