"""CSI snapshots on a real API server; the snapshot controller and the storage are the test's.

That a real controller and a real driver agree shows test_csi_on_node.py.
"""

import gzip
import json
import tarfile
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
import pytest

from pinnace.api import labels
from pinnace.api.backup import Backup, BackupSpec
from pinnace.api.meta import ObjectMeta
from pinnace.backup.csi import csi_backup_actions
from pinnace.controllers.snapshots import create_contents
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    STORAGE_CLASSES,
)
from pinnace.plugins.protocols import BackupItemAction, ResourceIdentifier
from pinnace.volumes.csi import CSIError, SnapshotKinds
from tests.integration.snapshots.conftest import Bench
from tests.support.snapshot_controller import ScriptedSnapshots
from tests.support.waiting import eventually

JSONObject = dict[str, Any]
GROUP = "snapshot.storage.k8s.io"


class App:
    """A claim on a CSI volume, and what its snapshots need. Global names begin with the namespace."""

    def __init__(self, bench: Bench, kinds: SnapshotKinds) -> None:
        self.bench = bench
        self.client = bench.client
        self.kinds = kinds
        self.namespace = bench.namespace
        self.driver = f"{bench.namespace}.example.io"
        self.storage = ScriptedSnapshots(bench.client, kinds, bench.namespace)

    def named(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    async def create(self) -> None:
        storage_class = {"metadata": {"name": self.named("sc")}, "provisioner": self.driver}
        api = {"apiVersion": STORAGE_CLASSES.api_version, "kind": STORAGE_CLASSES.kind}
        await self.client.create(STORAGE_CLASSES, {**api, **storage_class})
        await self.add_class("vsc", {labels.CSI_SNAPSHOT_CLASS: "true"})
        await self.add_claim("data")

    async def add_class(self, name: str, marks: dict[str, str], **members: Any) -> None:
        metadata = {"name": self.named(name), "labels": marks, **members.pop("metadata", {})}
        api = {"apiVersion": self.kinds.classes.api_version, "kind": self.kinds.classes.kind}
        rest = {"driver": self.driver, "deletionPolicy": "Retain", **members}
        await self.client.create(self.kinds.classes, {**api, "metadata": metadata, **rest})

    async def add_claim(self, name: str, *, policy: str = "Retain", source: JSONObject | None = None) -> None:
        """A bound claim."""
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": self.named(name)},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": policy,
                "storageClassName": self.named("sc"),
                "claimRef": {"namespace": self.namespace, "name": name},
                **(source or {"csi": {"driver": self.driver, "volumeHandle": f"vol-{name}"}}),
            },
        }
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.named("sc"),
                "volumeName": self.named(name),
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        await self.client.create(PERSISTENT_VOLUMES, volume)
        await self.client.create(PERSISTENT_VOLUME_CLAIMS, claim, self.namespace)

        async def bound() -> bool:
            return bool((await self.claim(name))["status"].get("phase") == "Bound")

        await eventually(bound)

    async def claim(self, name: str = "data", namespace: str = "") -> JSONObject:
        return await self.client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace or self.namespace)

    async def snapshots(self, namespace: str = "") -> list[JSONObject]:
        return await self.client.list_all(self.kinds.snapshots, namespace or self.namespace)

    async def contents(self, namespace: str = "") -> list[JSONObject]:
        """Those for a snapshot in the namespace."""
        return [
            content
            for content in await self.client.list_all(self.kinds.contents)
            if content["spec"]["volumeSnapshotRef"].get("namespace") == (namespace or self.namespace)
        ]

    async def lose(self) -> None:
        """Delete claim, volume, and snapshots; the storage keeps the policy's promise."""
        await self.client.delete(PERSISTENT_VOLUME_CLAIMS, "data", self.namespace)
        await self.client.delete(PERSISTENT_VOLUMES, self.named("data"))
        for snapshot in await self.snapshots():
            await self.client.delete(self.kinds.snapshots, snapshot["metadata"]["name"], self.namespace)
        await eventually(self._is_lost)

    async def _is_lost(self) -> bool:
        try:
            await self.claim()
        except NotFound:
            return True
        return False

    async def remove(self) -> None:
        """The objects of no namespace."""
        for resource in (PERSISTENT_VOLUMES, STORAGE_CLASSES, self.kinds.classes):
            for obj in await self.client.list_all(resource):
                if obj["metadata"]["name"].startswith(f"{self.namespace}-"):
                    await self.client.delete(resource, obj["metadata"]["name"])
        for content in await self.contents():
            name, free = content["metadata"]["name"], {"metadata": {"finalizers": None}}
            await self.client.patch(self.kinds.contents, name, free)
            with suppress(NotFound):  # it was being deleted
                await self.client.delete(self.kinds.contents, name)

    def of(self, **spec: Any) -> JSONObject:
        return {
            "includedNamespaces": [self.namespace],
            "includedResources": ["pvc", "pv", f"volumesnapshots.{GROUP}", f"volumesnapshotcontents.{GROUP}"],
            **spec,
        }

    async def stored(self, path: str) -> JSONObject:
        """An item in the tarball of backup b1."""
        with tarfile.open(self.bench.folder / "bucket/backups/b1/b1.tar.gz") as tar:
            member = tar.extractfile(f"resources/{path}.json")
            assert member is not None
            found: JSONObject = json.loads(member.read())
            return found

    def file(self, name: str) -> list[JSONObject]:
        """A list that is stored beside the tarball of backup b1."""
        path = self.bench.folder / f"bucket/backups/b1/b1-{name}.json.gz"
        return json.loads(gzip.decompress(path.read_bytes())) or []


@pytest.fixture
async def app(bench: Bench, kinds: SnapshotKinds) -> AsyncIterator[App]:
    made = App(bench, kinds)
    await made.create()
    async with made.storage.working():
        yield made
    await made.remove()


async def test_a_claim_comes_back_from_its_snapshot(app: App) -> None:
    status = await app.bench.back_up("b1", **app.of())

    assert (status["phase"], status.get("errors", 0), status.get("warnings", 0)) == ("Completed", 0, 0)
    assert status.get("volumeSnapshotsAttempted", 0) == 0
    (snapshot,) = await app.snapshots()
    name, mark = snapshot["metadata"]["name"], {labels.BACKUP_NAME: "b1"}
    assert name.startswith("velero-data-")
    assert snapshot["metadata"]["labels"] == mark
    assert snapshot["spec"] == {
        "source": {"persistentVolumeClaimName": "data"},
        "volumeSnapshotClassName": app.named("vsc"),
    }
    (content,) = await app.contents()
    assert content["metadata"]["labels"] == mark
    handle = content["status"]["snapshotHandle"]
    assert [each["metadata"]["name"] for each in app.file("csi-volumesnapshots")] == [name]
    assert [each["status"]["snapshotHandle"] for each in app.file("csi-volumesnapshotcontents")] == [handle]
    claim = await app.stored(f"persistentvolumeclaims/namespaces/{app.namespace}/data")
    noted = {labels.VOLUME_SNAPSHOT_NAME: name, labels.BACKUP_NAME: "b1"}
    assert claim["metadata"]["annotations"].items() >= noted.items()
    assert claim["metadata"]["labels"] == noted
    assert labels.VOLUME_SNAPSHOT_NAME not in (await app.claim())["metadata"].get("annotations", {})

    await app.lose()
    status = await app.bench.restore("r1", "b1")

    assert status["phase"] == "Completed", await app.bench.results("r1")
    (snapshot,) = await app.snapshots()
    restored = next(
        each for each in await app.contents() if each["metadata"]["name"].startswith(f"velero-{name}-")
    )
    assert snapshot["metadata"]["name"] == name
    assert snapshot["spec"]["source"] == {"volumeSnapshotContentName": restored["metadata"]["name"]}
    assert restored["spec"] == {
        "deletionPolicy": "Retain",
        "driver": app.driver,
        "source": {"snapshotHandle": handle},
        "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": app.namespace, "name": name},
    }
    claim = await app.claim()
    source = {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": name}
    assert claim["spec"]["dataSource"] == claim["spec"]["dataSourceRef"] == source
    assert claim["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert "volumeName" not in claim["spec"]
    with pytest.raises(NotFound):  # Retain or not, the old volume must not be what the claim is bound to
        await app.client.get(PERSISTENT_VOLUMES, app.named("data"))


@pytest.mark.spec("SRV-025")
async def test_a_restore_honours_mapped_namespaces(app: App) -> None:
    await app.bench.back_up("b1", **app.of())
    other = f"{app.namespace}-copy"
    try:
        status = await app.bench.restore("r1", "b1", namespaceMapping={app.namespace: other})

        assert status["phase"] == "Completed", await app.bench.results("r1")
        (snapshot,) = await app.snapshots(other)
        (content,) = await app.contents(other)
        assert snapshot["spec"]["source"]["volumeSnapshotContentName"] == content["metadata"]["name"]
        claim = await app.claim(namespace=other)
        assert claim["spec"]["dataSource"]["name"] == snapshot["metadata"]["name"]
        await app.client.delete(app.kinds.contents, content["metadata"]["name"])
    finally:
        await app.client.delete(NAMESPACES, other)


@pytest.mark.spec("SRV-025")
async def test_a_snapshot_that_exists_is_left_alone(app: App) -> None:
    await app.bench.back_up("b1", **app.of())
    before = (await app.snapshots(), await app.contents())

    status = await app.bench.restore("r1", "b1")

    # The claim is there as well, and differs from what would have been made: that is the one warning.
    assert (status["phase"], status.get("errors", 0)) == ("Completed", 0), await app.bench.results("r1")
    assert (await app.snapshots(), await app.contents()) == before


async def test_without_the_wish_for_volumes_no_snapshot_is_used(app: App) -> None:
    await app.bench.back_up("b1", **app.of())
    await app.lose()
    before = await app.contents()

    status = await app.bench.restore("r1", "b1", restorePVs=False)

    assert status["phase"] == "Completed", await app.bench.results("r1")
    assert await app.snapshots() == []
    assert await app.contents() == before
    assert "dataSource" not in (await app.claim())["spec"]


async def test_with_the_feature_off_nothing_of_it_is_restored_silently(app: App) -> None:
    await app.bench.back_up("b1", **app.of())
    await app.lose()
    before = await app.contents()
    app.bench.scope = replace(app.bench.scope, features=frozenset())

    status = await app.bench.restore("r1", "b1")

    assert status["phase"] == "Completed"
    assert status["warnings"] >= 2
    assert "restored from CSI snapshots with the feature EnableCSI only" in await app.bench.results("r1")
    assert (await app.snapshots(), await app.contents()) == ([], before)


@pytest.mark.spec("CTL-038")
async def test_the_snapshots_go_with_their_backup(app: App) -> None:
    await app.bench.back_up("b1", **app.of())
    await app.bench.back_up("b2", **app.of())
    mark = {labels.BACKUP_NAME: "b2"}
    (kept,) = [each for each in await app.contents() if each["metadata"]["labels"] == mark]
    assert len(app.storage.storage) == 2

    assert await app.bench.delete("d1", "b1") == []

    kept_handle = {kept["status"]["snapshotHandle"]}
    await eventually(lambda: _stores(app, kept_handle))
    await eventually(lambda: _has_contents(app, 1))
    assert [each["metadata"]["labels"] for each in await app.snapshots()] == [mark]
    assert [each["metadata"]["name"] for each in await app.contents()] == [kept["metadata"]["name"]]
    assert not (app.bench.folder / "bucket/backups/b1/velero-backup.json").exists()


@pytest.mark.spec("CTL-038")
@pytest.mark.parametrize("policy", ["Retain", "Delete", None], ids=str)
async def test_whatever_its_policy_was_a_content_goes_with_its_snapshot(app: App, policy: str | None) -> None:
    await app.bench.back_up("b1", **app.of())
    (content,) = await app.contents()
    patch = {"spec": {"deletionPolicy": policy}}
    await app.client.patch(app.kinds.contents, content["metadata"]["name"], patch)
    app.storage.binds = False
    body = {
        "apiVersion": app.kinds.snapshots.api_version,
        "kind": "VolumeSnapshot",
        "spec": {"source": {"volumeSnapshotContentName": "nowhere"}},
    }
    for name, status in (
        ("no-status", None),
        ("no-content", {"readyToUse": False}),
        ("gone", {"boundVolumeSnapshotContentName": "nowhere"}),
    ):
        metadata = {"name": name, "namespace": app.namespace, "labels": {labels.BACKUP_NAME: "b1"}}
        await app.client.create(app.kinds.snapshots, {**body, "metadata": metadata}, app.namespace)
        if status:
            patch = {"status": status}
            await app.client.patch(app.kinds.snapshots, name, patch, app.namespace, subresource="status")

    assert await app.bench.delete("d1", "b1") == []

    assert await app.snapshots() == []
    await eventually(lambda: _stores(app, set()))


async def test_a_cluster_that_finds_the_backup_can_delete_its_snapshots(app: App) -> None:
    await app.bench.back_up("b1", **app.of())
    (content,) = await app.contents()
    (snapshot,) = await app.snapshots()
    # Another cluster on the same storage: nothing is there but the location.
    await app.client.delete(app.kinds.snapshots, snapshot["metadata"]["name"], app.namespace)
    await app.client.delete(app.kinds.contents, content["metadata"]["name"])
    await eventually(lambda: _has_contents(app, 0))

    async with await app.bench.store() as store:
        assert await create_contents(app.client, store, "b1") == []
        assert await create_contents(app.client, store, "b1") == []

    (synced,) = await app.contents()
    assert synced["metadata"]["labels"] == {labels.BACKUP_NAME: "b1"}
    handle = content["status"]["snapshotHandle"]
    assert synced["spec"]["source"] == {"snapshotHandle": handle}
    await eventually(lambda: _is_known(app))
    assert await app.bench.delete("d1", "b1") == []
    await eventually(lambda: _stores(app, set()))


# --- The actions of a backup, one by one ----------------------------------------------------------------


class Polls:
    """In place of sleeping: what happens between two looks at the snapshot."""

    def __init__(self) -> None:
        self.count = 0
        self.after = 0
        self.then: Any = None

    async def __call__(self, _seconds: float) -> None:
        self.count += 1
        if self.count == self.after:
            await self.then()


async def actions_of(app: App, polls: Polls, *, restic: bool = True) -> dict[str, BackupItemAction]:
    discovery = await Discovery.load(app.client)
    found = csi_backup_actions(app.client, discovery, restic=restic, sleep=polls)
    return {action.name.removeprefix("velero.io/csi-").removesuffix("-backupper"): action for action in found}


def a_backup(**spec: Any) -> Backup:
    return Backup(metadata=ObjectMeta(name="b1", namespace="velero"), spec=BackupSpec(**spec))


@pytest.mark.spec("SRV-022")
async def test_claims_that_need_no_snapshot_get_none(app: App) -> None:
    actions, claim = await actions_of(app, Polls()), await app.claim()
    before = orjson.dumps(claim)
    unbound = {**claim, "spec": {"storageClassName": "x"}, "status": {"phase": "Pending"}}
    await app.add_claim("folder", source={"hostPath": {"path": "/nowhere"}})

    for given, backup in (
        (claim, a_backup(snapshot_volumes=False)),
        (unbound, a_backup()),
        (await app.claim("folder"), a_backup()),
        (claim, a_backup(included_resources=["persistentvolumeclaims"])),
    ):
        item, more = await actions["pvc"].execute(given, backup)
        assert (item, list(more)) == (given, [])

    assert orjson.dumps(claim) == before
    assert await app.snapshots() == []


@pytest.mark.spec("SRV-022")
@pytest.mark.parametrize(
    ("restic", "running", "snapshots"),
    [(True, True, 0), (True, False, 1), (False, True, 1)],
    ids=["saved with restic", "its pod does not run", "no restic here"],
)
async def test_a_volume_that_restic_saves_needs_no_snapshot(
    app: App, restic: bool, running: bool, snapshots: int
) -> None:
    await _create_pod(app, running=running)
    actions = await actions_of(app, Polls(), restic=restic)

    await actions["pvc"].execute(await app.claim(), a_backup())

    assert len(await app.snapshots()) == snapshots


@pytest.mark.spec("SRV-021")
async def test_without_a_class_for_it_the_claim_fails(app: App) -> None:
    actions = await actions_of(app, Polls())
    await app.client.delete(app.kinds.classes, app.named("vsc"))
    await app.add_class("plain", {})

    with pytest.raises(CSIError, match=labels.CSI_SNAPSHOT_CLASS):
        await actions["pvc"].execute(await app.claim(), a_backup())

    await app.client.delete(STORAGE_CLASSES, app.named("sc"))
    with pytest.raises(CSIError, match="error getting storage class"):
        await actions["pvc"].execute(await app.claim(), a_backup())
    claim = await app.claim()
    del claim["spec"]["storageClassName"]
    with pytest.raises(CSIError, match="no storage class"):
        await actions["pvc"].execute(claim, a_backup())


@pytest.mark.spec("SRV-023")
async def test_an_own_snapshot_is_waited_for(app: App) -> None:
    app.storage.makes_handles = False
    polls = Polls()
    actions = await actions_of(app, polls)
    await actions["pvc"].execute(await app.claim(), a_backup())
    (snapshot,) = await app.snapshots()
    await eventually(lambda: _has_content(app))

    async def give_handle() -> None:
        app.storage.makes_handles = True
        await eventually(lambda: _has_handle(app))

    polls.after, polls.then = 2, give_handle

    item, more = await actions["volumesnapshot"].execute(snapshot, a_backup())

    assert polls.count == 2  # so there were three looks
    (content,) = await app.contents()
    assert item["metadata"]["annotations"] == {
        labels.CSI_DELETION_POLICY: "Retain",
        labels.CSI_SNAPSHOT_HANDLE: content["status"]["snapshotHandle"],
        labels.CSI_DRIVER_NAME: app.driver,
        labels.CSI_RESTORE_SIZE: "3Gi",
    }
    assert list(more) == [
        _identifier("volumesnapshotclasses", app.named("vsc")),
        _identifier("volumesnapshotcontents", content["metadata"]["name"]),
    ]
    assert content["metadata"]["labels"] == {labels.BACKUP_NAME: "b1"}


async def test_a_snapshot_that_is_never_made_fails_with_the_reason_of_the_cluster(app: App) -> None:
    app.storage.makes_handles = False
    polls = Polls()
    actions = await actions_of(app, polls)
    await actions["pvc"].execute(await app.claim(), a_backup())
    await eventually(lambda: _has_content(app))
    (content,) = await app.contents()
    status = {"error": {"message": "the storage is full"}}
    await app.client.patch(
        app.kinds.contents, content["metadata"]["name"], {"status": status}, subresource="status"
    )

    with pytest.raises(CSIError, match="not made within 10 minutes: the storage is full"):
        await actions["volumesnapshot"].execute((await app.snapshots())[0], a_backup())

    assert polls.count == 120


@pytest.mark.spec("SRV-023")
async def test_a_foreign_snapshot_is_not_waited_for(app: App) -> None:
    polls = Polls()
    actions = await actions_of(app, polls)
    foreign = {
        "metadata": {"name": "mine", "namespace": app.namespace, "labels": {labels.BACKUP_NAME: "other"}},
        "spec": {"volumeSnapshotClassName": "c", "source": {"persistentVolumeClaimName": "data"}},
    }

    item, more = await actions["volumesnapshot"].execute(foreign, a_backup())

    assert list(more) == [_identifier("volumesnapshotclasses", "c")]
    assert "annotations" not in item["metadata"]
    assert polls.count == 0
    bound = {**foreign, "status": {"boundVolumeSnapshotContentName": "nowhere"}}
    with pytest.raises(NotFound):
        await actions["volumesnapshot"].execute(bound, a_backup())


async def test_secrets_of_classes_and_contents_come_along(app: App) -> None:
    actions = await actions_of(app, Polls())

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


async def _create_pod(app: App, *, running: bool) -> None:
    account = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "unused"}}
    await app.client.create(SECRETS, account, app.namespace)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {labels.VOLUMES_TO_BACKUP: "v"}},
        "spec": {
            "nodeName": "no-such-node",
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "main"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }

    async def created() -> bool:
        try:
            await app.client.create(PODS, pod, app.namespace)
        except Forbidden:
            return False  # the namespace has no service account yet
        return True

    await eventually(created)
    phase = {"status": {"phase": "Running" if running else "Pending"}}
    await app.client.patch(PODS, "p", phase, app.namespace, subresource="status")


async def _has_contents(app: App, count: int) -> bool:
    return len(await app.contents()) == count


async def _has_content(app: App) -> bool:
    return bool(await app.contents()) and bool((await app.snapshots())[0].get("status"))


async def _has_handle(app: App) -> bool:
    return bool((await app.contents())[0].get("status", {}).get("snapshotHandle"))


async def _is_known(app: App) -> bool:
    """Whether the controller has taken charge of the contents there are."""
    return all(content["metadata"].get("finalizers") for content in await app.contents())


async def _stores(app: App, handles: set[str]) -> bool:
    return app.storage.storage == handles


def _identifier(resource: str, name: str) -> ResourceIdentifier:
    return ResourceIdentifier(group=GROUP, resource=resource, namespace="", name=name)
