"""The actions that take CSI snapshots in a backup, one by one. (docs/spec: SRV 18.2)"""

from typing import Any

import orjson
import pytest

from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.csi.backup import csi_backup_actions
from pinnace.csi.objects import POLL_SECONDS, TakenSnapshots
from pinnace.csi.snapshots import CSIError
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.resources import (
    PODS,
    SECRETS,
    STORAGE_CLASSES,
)
from pinnace.plugins.protocols import BackupItemAction, ResourceIdentifier
from pinnace.volumes.policies import VolumePolicies
from tests.integration.snapshots.apps import GROUP, CSIApp
from tests.support.clock import ScriptedClock
from tests.support.waiting import eventually


class Polls:
    """Replaces the sleep: changes the cluster between two reads of the snapshot."""

    def __init__(self) -> None:
        self.count = 0
        self.pauses: list[float] = []
        self.after = 0
        self.then: Any = None

    async def __call__(self, seconds: float) -> None:
        self.count += 1
        self.pauses.append(seconds)
        if self.count == self.after:
            await self.then()


async def actions_of(
    csi_app: CSIApp, polls: Polls, *, saves_files: bool = True, backup: Backup | None = None
) -> dict[str, BackupItemAction]:
    discovery = await Discovery.load(csi_app.client)
    taken = TakenSnapshots(csi_app.client, csi_app.kinds, backup or a_backup(), clock=ScriptedClock(polls))
    policies = VolumePolicies(csi_app.client)
    found = csi_backup_actions(csi_app.client, discovery, taken, saves_files=saves_files, policies=policies)
    return {action.name.removeprefix("velero.io/csi-").removesuffix("-backupper"): action for action in found}


def a_backup(**spec: Any) -> Backup:
    return Backup(metadata=ObjectMeta(name="b1", namespace="velero"), spec=BackupSpec(**spec))


@pytest.mark.spec("SRV-022")
async def test_claims_that_need_no_snapshot_get_none(csi_app: CSIApp) -> None:
    actions, claim = await actions_of(csi_app, Polls()), await csi_app.claim()
    before = orjson.dumps(claim)
    unbound = {**claim, "spec": {"storageClassName": "x"}, "status": {"phase": "Pending"}}
    await csi_app.add_claim("folder", source={"hostPath": {"path": "/nowhere"}})

    for given, backup in (
        (claim, a_backup(snapshot_volumes=False)),
        (unbound, a_backup()),
        (await csi_app.claim("folder"), a_backup()),
    ):
        item, more = await actions["pvc"].execute(given, backup)
        assert (item, list(more)) == (given, [])

    assert orjson.dumps(claim) == before
    assert await csi_app.snapshots() == []


@pytest.mark.spec("SRV-022")
@pytest.mark.parametrize(
    ("saves_files", "running", "snapshots"),
    [(True, True, 0), (True, False, 1), (False, True, 1)],
    ids=["saved from its files", "its pod does not run", "no files are saved"],
)
async def test_a_volume_that_restic_saves_needs_no_snapshot(
    csi_app: CSIApp, saves_files: bool, running: bool, snapshots: int
) -> None:
    await _create_pod(csi_app, running=running)
    actions = await actions_of(csi_app, Polls(), saves_files=saves_files)

    await actions["pvc"].execute(await csi_app.claim(), a_backup())

    assert len(await csi_app.snapshots()) == snapshots


@pytest.mark.spec("SRV-021")
async def test_without_a_class_for_it_the_claim_fails(csi_app: CSIApp) -> None:
    actions = await actions_of(csi_app, Polls())
    await csi_app.client.delete(csi_app.kinds.classes, csi_app.named("vsc"))
    await csi_app.add_class("plain", {})
    await csi_app.add_class("other", {})

    with pytest.raises(CSIError, match=labels.CSI_SNAPSHOT_CLASS):
        await actions["pvc"].execute(await csi_app.claim(), a_backup())

    claim = await csi_app.claim()
    del claim["spec"]["storageClassName"]
    with pytest.raises(CSIError, match="no storage class"):
        await actions["pvc"].execute(claim, a_backup())


@pytest.mark.found("V21")
async def test_a_claim_whose_storage_class_is_gone_is_saved_by_the_driver_of_its_volume(
    csi_app: CSIApp, caplog: pytest.LogCaptureFixture
) -> None:
    await csi_app.client.delete(STORAGE_CLASSES, csi_app.named("sc"))
    actions = await actions_of(csi_app, Polls())

    await actions["pvc"].execute(await csi_app.claim(), a_backup())

    (snapshot,) = await csi_app.snapshots()
    assert snapshot["spec"]["volumeSnapshotClassName"] == csi_app.named("vsc")
    told = {record.getMessage() for record in caplog.records if record.levelname == "WARNING"}
    assert told == {
        f"The storage class {csi_app.named('sc')} of the claim does not exist: the snapshot is taken, and a"
        " restore needs a class of this name or a mapping to another one"
    }


@pytest.mark.spec("SRV-023")
async def test_an_own_snapshot_is_waited_for(csi_app: CSIApp) -> None:
    csi_app.storage.makes_handles = False
    polls = Polls()
    actions = await actions_of(csi_app, polls)
    await actions["pvc"].execute(await csi_app.claim(), a_backup())
    (snapshot,) = await csi_app.snapshots()
    await eventually(lambda: _has_content(csi_app))

    async def give_handle() -> None:
        csi_app.storage.makes_handles = True
        await eventually(lambda: _has_handle(csi_app))

    polls.after, polls.then = 2, give_handle

    item, more = await actions["volumesnapshot"].execute(snapshot, a_backup())

    assert polls.count == 2  # so there were three reads
    (content,) = await csi_app.contents()
    assert item["metadata"]["annotations"] == {
        labels.CSI_DELETION_POLICY: "Retain",
        labels.CSI_SNAPSHOT_HANDLE: content["status"]["snapshotHandle"],
        labels.CSI_DRIVER_NAME: csi_app.driver,
        labels.CSI_RESTORE_SIZE: "3Gi",
        labels.LATER_CSI_RESTORE_SIZE: "3Gi",
        labels.MUST_INCLUDE_ADDITIONAL_ITEMS: "true",
    }
    assert list(more) == [
        _identifier("volumesnapshotclasses", csi_app.named("vsc")),
        _identifier("volumesnapshotcontents", content["metadata"]["name"]),
    ]
    assert content["metadata"]["labels"] == {labels.BACKUP_NAME: "b1"}


@pytest.mark.found("S4", "S12")
@pytest.mark.parametrize(
    ("asked", "seconds", "said"),
    [
        (None, 600, "10m0s"),
        (Duration(), 600, "10m0s"),
        (Duration.minutes(25), 1500, "25m0s"),
        (Duration.seconds(90), 90, "1m30s"),
    ],
)
async def test_a_snapshot_that_is_not_made_in_time_fails_with_the_reason_of_the_cluster_and_goes(
    csi_app: CSIApp, asked: Duration | None, seconds: int, said: str
) -> None:
    csi_app.storage.makes_handles = False
    polls, backup = Polls(), a_backup(csi_snapshot_timeout=asked)
    actions = await actions_of(csi_app, polls, backup=backup)
    await actions["pvc"].execute(await csi_app.claim(), backup)
    await eventually(lambda: _has_content(csi_app))
    (content,) = await csi_app.contents()
    status = {"error": {"message": "the storage is full"}}
    await csi_app.client.patch(
        csi_app.kinds.contents, content["metadata"]["name"], {"status": status}, subresource="status"
    )

    with pytest.raises(CSIError, match=f"not made within {said}: the storage is full"):
        await actions["volumesnapshot"].execute((await csi_app.snapshots())[0], backup)

    assert await csi_app.snapshots() == []
    csi_app.storage.makes_handles = True  # the driver ends what it has begun
    await eventually(lambda: _has_nothing(csi_app))
    assert sum(polls.pauses) == seconds
    assert polls.pauses[:6] == [0.25, 0.5, 1.0, 2.0, 4.0, POLL_SECONDS]
    assert max(polls.pauses) == POLL_SECONDS


@pytest.mark.spec("SRV-023")
async def test_a_foreign_snapshot_is_not_waited_for(csi_app: CSIApp) -> None:
    polls = Polls()
    actions = await actions_of(csi_app, polls)
    foreign = {
        "metadata": {"name": "mine", "namespace": csi_app.namespace, "labels": {labels.BACKUP_NAME: "other"}},
        "spec": {"volumeSnapshotClassName": "c", "source": {"persistentVolumeClaimName": "data"}},
    }

    item, more = await actions["volumesnapshot"].execute(foreign, a_backup())

    assert list(more) == [_identifier("volumesnapshotclasses", "c")]
    assert "annotations" not in item["metadata"]
    assert polls.count == 0
    bound = {**foreign, "status": {"boundVolumeSnapshotContentName": "nowhere"}}
    with pytest.raises(NotFound):
        await actions["volumesnapshot"].execute(bound, a_backup())


async def test_secrets_of_classes_and_contents_come_along(csi_app: CSIApp) -> None:
    actions = await actions_of(csi_app, Polls())

    def noting(prefix: str) -> JSONObject:
        return {"metadata": {"annotations": {f"{prefix}-name": "key", f"{prefix}-namespace": "safe"}}}

    for action, prefix in (
        ("volumesnapshotclass", "csi.storage.k8s.io/snapshotter-list-secret"),
        ("volumesnapshotcontent", "csi.storage.k8s.io/snapshotter-secret"),
        ("volumesnapshotcontent", "snapshot.storage.kubernetes.io/deletion-secret"),
    ):
        item, more = await actions[action].execute(noting(prefix), a_backup())
        assert item == noting(prefix)
        assert list(more) == [ResourceIdentifier(group="", resource="secrets", namespace="safe", name="key")]
        assert not (await actions[action].execute({"metadata": {}}, a_backup()))[1]


async def _create_pod(csi_app: CSIApp, *, running: bool) -> None:
    account = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "unused"}}
    await csi_app.client.create(SECRETS, account, csi_app.namespace)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {labels.VOLUMES_TO_BACKUP: "v"}},
        "spec": {
            "nodeName": "no-such-node",
            "automountServiceAccountToken": False,
            "containers": [
                {"name": "main", "image": "main", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
            ],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }

    async def created() -> bool:
        try:
            await csi_app.client.create(PODS, pod, csi_app.namespace)
        except Forbidden:
            return False  # the namespace has no service account yet
        return True

    await eventually(created)
    phase = {"status": {"phase": "Running" if running else "Pending"}}
    await csi_app.client.patch(PODS, "p", phase, csi_app.namespace, subresource="status")


async def _has_content(csi_app: CSIApp) -> bool:
    return bool(await csi_app.contents()) and bool((await csi_app.snapshots())[0].get("status"))


async def _has_nothing(csi_app: CSIApp) -> bool:
    return not await csi_app.contents() and not csi_app.storage.storage


async def _has_handle(csi_app: CSIApp) -> bool:
    return bool((await csi_app.contents())[0].get("status", {}).get("snapshotHandle"))


def _identifier(resource: str, name: str) -> ResourceIdentifier:
    return ResourceIdentifier(group=GROUP, resource=resource, namespace="", name=name)
