"""Claims whose data is moved into the location: what the backup keeps of them."""

from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.csi.movement.errors import AgentsNotReady
from pinnace.csi.movement.uploads import FollowUploads, MoveClaim
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.protocols import ResourceIdentifier

SNAPSHOT = {
    "metadata": {"namespace": "shop", "name": "velero-data-1"},
    "spec": {"volumeSnapshotClassName": "folders"},
}
CONTENT = {"metadata": {"name": "snapcontent-1"}, "spec": {"driver": "folders.example.io"}}


class World:
    """Stands for the client, the node agents, the action that takes snapshots, and its record."""

    def __init__(self, *, takes: bool = True, lacks: Notice | None = None) -> None:
        self.takes = takes
        self.lacks = lacks
        self.asked = False
        self.created: list[JSONObject] = []

    async def why_none(self) -> Notice | None:
        self.asked = True
        return self.lacks

    async def volume_of_claim(self, claim: JSONObject, backup: Backup) -> JSONObject | None:
        return {} if self.takes else None

    async def take(self, claim: JSONObject, volume: JSONObject, backup: Backup) -> JSONObject:
        self.created.append(SNAPSHOT)
        return SNAPSHOT

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
    action = MoveClaim(anything, anything, anything, following, anything)
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

    (_, upload) = world.created
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


@pytest.mark.spec("AFT-118")
async def test_without_a_ready_agent_nothing_is_taken_that_the_built_in_mover_would_move() -> None:
    missing = Notice(Code.AGENTS_MISSING, "none of the pods of the DaemonSet velero/node-agent is ready")
    world = World(lacks=missing)

    with pytest.raises(
        AgentsNotReady, match=r"^node-agent is not ready for snapshot data movement: none of the pods"
    ) as refused:
        await move(world, {}, "velero-fs")
    assert refused.value.cause() == (Code.AGENTS_MISSING, {})
    assert world.created == []

    _, output = await move(world, {}, "theirs")
    assert output.operation_id, "another mover needs no node agent"


@pytest.mark.spec("AFT-118")
async def test_a_claim_without_a_snapshot_needs_no_agent() -> None:
    world = World(takes=False, lacks=Notice(Code.AGENTS_MISSING, "none"))

    await move(world, {})

    assert not world.asked
