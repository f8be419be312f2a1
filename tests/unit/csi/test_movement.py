"""Claims whose data is moved into the location: what the backup keeps of them."""

from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.csi.movement.uploads import FollowUploads, MoveClaim
from pinnace.plugins.protocols import ResourceIdentifier

SNAPSHOT = {
    "metadata": {"namespace": "shop", "name": "velero-data-1"},
    "spec": {"volumeSnapshotClassName": "folders"},
}
CONTENT = {"metadata": {"name": "snapcontent-1"}, "spec": {"driver": "folders.example.io"}}


class World:
    """Stands for the client, the action that takes snapshots, and the record of taken ones."""

    def __init__(self, *, takes: bool = True) -> None:
        self.takes = takes
        self.created: list[JSONObject] = []

    async def take(self, item: JSONObject, backup: Backup) -> JSONObject | None:
        return SNAPSHOT if self.takes else None

    async def wait_and_keep(self, snapshot: JSONObject) -> tuple[JSONObject, JSONObject]:
        return SNAPSHOT, CONTENT

    def volume_of(self, namespace: str, name: str) -> JSONObject:
        return {"metadata": {"name": "pv-1"}}

    def moved(self, namespace: str, name: str, operation: str) -> None:
        pass

    async def create(self, resource: object, body: JSONObject, namespace: str) -> JSONObject:
        self.created.append(body)
        return {**body, "metadata": {**body["metadata"], "name": "b1-x"}}


async def move(world: World, annotations: JSONObject, mover: str = "") -> tuple[JSONObject, Any]:
    anything: Any = world
    following = FollowUploads(client=anything, namespace="server")
    action = MoveClaim(anything, anything, anything, following)
    claim = {
        "metadata": {"namespace": "shop", "name": "data", "uid": "u2", "annotations": annotations},
        "spec": {"storageClassName": "folders"},
    }
    backup = Backup(
        metadata=ObjectMeta(name="b1", namespace="server", uid="u1"),
        spec=BackupSpec(snapshot_move_data=True, storage_location="default", datamover=mover),
    )
    output = await action.execute(claim, backup)
    found: JSONObject = output.item["metadata"]["annotations"]
    return found, output


@pytest.mark.spec("KOP-010")
async def test_the_stored_claim_names_its_data_upload() -> None:
    """Velero 1.18.0 restores the data of claims with this annotation only, and others empty."""
    annotations, output = await move(World(), {"who": "me"})

    assert annotations[labels.DATA_UPLOAD_NAME] == "server/b1-x"
    assert annotations["who"] == "me"
    assert output.post_operation_items == [
        ResourceIdentifier(group="velero.io", resource="datauploads", namespace="server", name="b1-x")
    ]


@pytest.mark.found("G5")
@pytest.mark.parametrize(("mover", "written"), [("velero-fs", "velero"), ("velero", "velero"), ("", "")])
async def test_the_built_in_mover_is_written_as_every_velero_knows_it(mover: str, written: str) -> None:
    """Velero 1.18 takes `velero-fs` for somebody else's mover, and would leave the data where it is."""
    world = World()
    await move(world, {}, mover)

    (upload,) = world.created
    assert upload["spec"]["datamover"] == written
    assert upload["metadata"]["finalizers"]


@pytest.mark.found("V20")
async def test_a_claim_that_is_not_moved_names_nothing_of_an_earlier_backup() -> None:
    old = {
        "who": "me",
        labels.DATA_UPLOAD_NAME: "server/b0-x",
        labels.VOLUME_SNAPSHOT_NAME: "velero-data-0",
        labels.BACKUP_NAME: "b0",
    }

    annotations, output = await move(World(takes=False), old)

    assert annotations == {"who": "me"}
    assert output.operation_id == ""
