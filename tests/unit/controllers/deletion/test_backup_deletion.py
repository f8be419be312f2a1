"""Deleting a backup: what is refused, what goes, and that it can be resumed at every point."""

import dataclasses
import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import msgspec
import msgspec.structs
import pytest

from pinnace.age.recipients import parse_recipients
from pinnace.api import labels
from pinnace.api.codec import decode
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.snapshots import VolumeSnapshot, VolumeSnapshotSpec, VolumeSnapshotStatus
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.catalogue.reading import plain_list_of
from pinnace.controllers.deletion.backup_deletion import BackupDeletionReconciler, NotMarked
from pinnace.kube.errors import ConnectionFailed, Forbidden, KubeError
from pinnace.kube.resources import DELETE_BACKUP_REQUESTS
from pinnace.plugins.host.options import LaunchOptions
from pinnace.plugins.installed import InstalledPlugins
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.runtime.controller import DONE, Result
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.signing.envelope import verify
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption
from pinnace.storage.errors import BackupHeld, BackupLocked, StorageError, StoreUnavailable
from pinnace.storage.holds import Hold
from pinnace.storage.object_lock import held_text
from tests.support.cluster.scripted_requests import ignore
from tests.unit.controllers.fakes import NAMESPACE, World, fail_once, key

COMPLETED = {
    "phase": "Completed",
    "startTimestamp": "2021-08-11T21:40:00Z",
    "completionTimestamp": "2021-08-11T21:41:00Z",
}
LONG_NAME = "b" * 70
SOMEBODY = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
"""A recipient of the examples of age; nobody here has the identity."""
PLAIN_LIST = "-pinnace-volumes.json"


class Scene:
    def __init__(self, world: World) -> None:
        self.world = world
        self.running: set[Key] = set()
        self.requests = _Cached(world)
        self.reconciler = BackupDeletionReconciler(
            world.scope, world.locations, self.requests, running=self.running
        )

    def use(self, vault: "Vault") -> None:
        """Let this be the provider of snapshots."""
        plugins = InstalledPlugins(
            {PluginId(PluginKind.VOLUME_SNAPSHOTTER, Vault.name): lambda: vault},
            (),
            LaunchOptions(environ={}),
        )
        scope = dataclasses.replace(self.world.scope, plugins=plugins)
        self.reconciler = BackupDeletionReconciler(
            scope, self.world.locations, self.requests, running=self.running
        )

    async def reconcile(self, name: str = "q1") -> None:
        assert await self.reconciler.reconcile(key(name)) == DONE

    def request(self, name: str = "q1", backup: str = "b1", **status: object) -> JSONObject:
        marks = {labels.BACKUP_NAME: labels.label_value(backup), labels.BACKUP_UID: f"uid-{backup[:20]}"}
        return self.world.cluster.add(
            DELETE_BACKUP_REQUESTS.name, name, labels=marks, spec={"backupName": backup}, status=status
        )

    async def backup(self, name: str = "b1", *, parked: bool = False, **files: Any) -> None:
        """A Completed backup with its files, and a restore of it with its files."""
        spec, marks = {"storageLocation": "default"}, {labels.SCHEDULE_NAME: "nightly"}
        self.world.cluster.add("backups", name, spec=spec, labels=marks, status=COMPLETED)
        self.world.cluster.add("restores", f"r-{name}", spec={"backupName": name}, status=COMPLETED)
        await self.store(name, parked=parked, **files)
        async with self.world.locations.open("default") as store:
            await store.put_restore_results(f"r-{name}", {})

    async def store(self, name: str, *, parked: bool = False, encrypted: bool = False, **files: Any) -> None:
        backup = decode(Backup, self.world.cluster.stored("backups", name))
        contents = self.world.folder / "contents.tar.gz"
        contents.write_bytes(b"tarball")
        async with self.world.locations.open("default") as store:
            put = BackupFiles(name=name, metadata=encode_metadata(backup), contents=contents)
            for member, value in files.items():
                put = msgspec.structs.replace(put, **{member: value})
            if encrypted:
                store.encrypted(Encryption(recipients=parse_recipients(SOMEBODY)))
                put = msgspec.structs.replace(put, plain_list=await plain_list_of(put, self.world.folder))
            await (store.parked() if parked else store).put_backup(put)

    def path(self, suffix: str, *, parked: bool = False) -> Path:
        """Where a file of the backup b1 is."""
        folder = self.world.folder / "bucket-default/backups/b1"
        return folder / ("pinnace-parked" if parked else "") / f"b1{suffix}"

    @property
    def left(self) -> set[tuple[str, str]]:
        """Plural and name of what there is in the cluster besides the location."""
        found = {(kind.partition(".")[0], name) for kind, _, name in self.world.cluster.objects}
        return found - {("backupstoragelocations", "default")}

    @property
    def errors(self) -> Any:
        return self.world.cluster.status(DELETE_BACKUP_REQUESTS.name, "q1").get("errors")

    @property
    def phase(self) -> object:
        return self.world.cluster.status(DELETE_BACKUP_REQUESTS.name, "q1").get("phase")


class _Cached(Informer):
    """A cache that is always in step with the cluster."""

    def __init__(self, world: World) -> None:
        super().__init__(world.cluster.client, DELETE_BACKUP_REQUESTS, NAMESPACE)
        self._world = world

    def objects(self) -> list[JSONObject]:
        return self._world.cluster.of(DELETE_BACKUP_REQUESTS)


@pytest.fixture
def scene(world: World) -> Scene:
    world.add_location()
    return Scene(world)


@pytest.mark.spec("API-030", "CTL-027", "CTL-062")
@pytest.mark.parametrize("name", ["b1", LONG_NAME], ids=["short", "long"])
@pytest.mark.parametrize("phase", ["", "New", "InProgress"])
async def test_a_backup_goes_with_all_that_belongs_to_it(scene: Scene, phase: str, name: str) -> None:
    await scene.backup(name)
    await scene.backup("another")
    kept = scene.left
    kept -= {("backups", name), ("restores", f"r-{name}")}
    scene.request(backup=name, phase=phase)
    scene.request("q2", backup="another")
    kept.add((DELETE_BACKUP_REQUESTS.name, "q2"))

    await scene.reconcile()

    assert scene.left == kept
    assert {file.split("/")[1] for file in scene.world.files()} == {"another", "r-another"}
    assert scene.world.metrics.calls == [
        ("backup_deletion_attempted", "nightly"),
        ("backup_deletion_finished", "nightly", True),
    ]


async def test_a_backup_that_is_held_is_deleted_when_the_lock_ends_and_nothing_of_it_before(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = scene.world.clock.now() + timedelta(hours=1)
    held = [BackupLocked(held_text(until), until), BackupLocked("a legal hold", None)]

    async def check_deletable(_store: BackupStore, _backup: str) -> None:
        if held:
            raise held.pop(0)

    monkeypatch.setattr(BackupStore, "check_deletable", check_deletable)
    await scene.backup()
    scene.request()
    before = scene.world.files()

    assert await scene.reconciler.reconcile(key("q1")) == Result.after(3601.0)
    assert scene.errors == [
        "object lock holds its files until 2021-08-11T22:43:26Z; the deletion is tried again then"
    ]
    assert await scene.reconciler.reconcile(key("q1")) == Result.after(3600.0)  # it has no end
    assert scene.world.files() == before
    assert scene.world.cluster.status("backups", "b1") == COMPLETED

    await scene.reconcile()
    assert scene.world.files() == []


async def test_request_and_backup_become_deleting_before_anything_is_deleted(scene: Scene) -> None:
    await scene.backup()
    obj = scene.request()
    obj["metadata"]["labels"].clear()
    scene.world.cluster.stored(DELETE_BACKUP_REQUESTS.name, "q1")["metadata"]["labels"] = {}
    seen: list[Mapping[str, object]] = []

    def look(verb: str, plural: str, _name: str) -> None:
        if (verb, plural) == ("list", "restores"):
            cluster = scene.world.cluster
            seen.append(cluster.stored(DELETE_BACKUP_REQUESTS.name, "q1")["metadata"]["labels"])
            seen.append({"request": scene.phase, "backup": cluster.status("backups", "b1")["phase"]})

    scene.world.cluster.before = look
    await scene.reconcile()

    assert seen == [
        {labels.BACKUP_NAME: "b1", labels.BACKUP_UID: "uid-b1"},
        {"request": "InProgress", "backup": "Deleting"},
    ]
    assert scene.left == set()


@pytest.mark.spec("CTL-027")
async def test_a_processed_request_is_left_alone(scene: Scene) -> None:
    await scene.backup()
    scene.request(phase="Processed")

    await scene.reconcile()
    await scene.reconcile("nobody")

    assert scene.world.cluster.writes() == []


@pytest.mark.spec("CTL-028")
async def test_a_request_must_name_a_backup(scene: Scene) -> None:
    scene.request(backup="")

    await scene.reconcile()

    status = {"errors": ["spec.backupName is required"], "phase": "Processed"}
    patch = {"metadata": {"uid": "uid-q1"}, "status": status}
    assert scene.world.cluster.patches == [(DELETE_BACKUP_REQUESTS.name, "q1", patch)]


@pytest.mark.spec("CTL-029")
@pytest.mark.parametrize("others", [("", ""), ("Processed", "InProgress")])
async def test_of_several_requests_for_a_backup_the_one_in_flight_stays(
    scene: Scene, others: tuple[str, str]
) -> None:
    for name, phase in zip(("a", "z"), others, strict=True):
        scene.request(name, phase=phase)
    scene.request("foreign", backup="b10")
    scene.request()

    await scene.reconcile()

    assert scene.left == {(DELETE_BACKUP_REQUESTS.name, "q1"), (DELETE_BACKUP_REQUESTS.name, "foreign")}
    assert scene.errors == ["backup not found"]


async def test_a_request_that_is_deleted_meanwhile_is_no_error(scene: Scene) -> None:
    scene.request("a")
    scene.request()

    def take(*call: str) -> None:
        if call == ("delete", DELETE_BACKUP_REQUESTS.name, "a"):
            scene.world.cluster.vanish(DELETE_BACKUP_REQUESTS.name, "a")

    scene.world.cluster.before = take
    await scene.reconcile()

    assert scene.left == {(DELETE_BACKUP_REQUESTS.name, "q1")}


@pytest.mark.spec("CTL-031")
@pytest.mark.parametrize(
    ("plural", "name", "text"),
    [
        (DELETE_BACKUP_REQUESTS.name, "q1", "the connection broke"),
        ("backups", "b1", "error patching Backup: the connection"),
    ],
)
async def test_what_cannot_be_marked_is_not_touched(scene: Scene, plural: str, name: str, text: str) -> None:
    await scene.backup()
    scene.request()
    files, before = scene.world.files(), scene.left
    scene.world.cluster.before = fail_once("patch", plural, name)

    with pytest.raises(Exception, match=text):
        await scene.reconciler.reconcile(key("q1"))

    assert scene.world.files() == files
    assert scene.left == before
    assert scene.world.cluster.status("backups", "b1") == COMPLETED
    assert not [call for call in scene.world.cluster.calls if call[0] == "delete"]
    assert scene.world.metrics.calls == []


FORBIDDEN = Forbidden(403, reason="Forbidden", message="not allowed")


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (("list", "restores"), FORBIDDEN, "not allowed"),
        (("list", "restores"), KeyError("spec"), "unexpected KeyError: 'spec'"),
        (("patch", "backups"), FORBIDDEN, "error patching Backup: not allowed"),
    ],
    ids=["refused", "defect", "Backup cannot be marked"],
)
async def test_a_deletion_that_cannot_continue_says_why_and_continues_later(
    scene: Scene, call: tuple[str, str], error: Exception, said: str
) -> None:
    await scene.backup()
    scene.request()

    def fail(*actual: str) -> None:
        if actual[:2] == call:
            raise error

    scene.world.cluster.before = fail
    with pytest.raises((type(error), NotMarked)):
        await scene.reconciler.reconcile(key("q1"))

    assert said in scene.errors[0]
    scene.world.cluster.before = ignore
    await scene.reconcile()
    assert scene.left == set()
    assert scene.world.files() == []


async def test_a_reason_that_cannot_be_stored_does_not_hide_what_went_wrong(scene: Scene) -> None:
    await scene.backup()
    scene.request()

    def fail(*actual: str) -> None:
        if actual[:2] == ("list", "restores"):
            scene.world.cluster.before = fail_once("patch", error=FORBIDDEN)
            raise ValueError("a defect")

    scene.world.cluster.before = fail
    with pytest.raises(ValueError, match="a defect"):
        await scene.reconciler.reconcile(key("q1"))


async def test_a_backup_that_vanishes_before_it_is_marked_is_not_said_to_be_deleted(scene: Scene) -> None:
    await scene.backup()
    scene.request()
    files = scene.world.files()

    def vanish(*actual: str) -> None:
        if actual[:2] == ("patch", "backups"):
            scene.world.cluster.vanish("backups", "b1")

    scene.world.cluster.before = vanish
    await scene.reconcile()

    assert (scene.phase, scene.errors) == (
        "Processed",
        ["the Backup was deleted before its files were; it comes back by sync"],
    )
    assert scene.world.files() == files


async def test_a_request_that_took_the_name_of_another_is_not_marked_in_its_place(scene: Scene) -> None:
    await scene.backup()
    scene.request(backup="")

    def replace(*actual: str) -> None:
        if actual[0] == "patch":
            scene.world.cluster.before = ignore
            scene.request()
            scene.world.cluster.stored(DELETE_BACKUP_REQUESTS.name, "q1")["metadata"]["uid"] = "new"

    scene.world.cluster.before = replace
    with pytest.raises(KubeError):
        await scene.reconciler.reconcile(key("q1"))
    assert scene.phase is None

    await scene.reconcile()
    assert scene.left == set()


@pytest.mark.spec("API-030", "API-038", "CTL-030")
async def test_a_backup_in_progress_is_not_deleted_and_older_requests_give_way(scene: Scene) -> None:
    await scene.backup()
    scene.request("older", phase="Processed")
    scene.request("of-another", backup="another")
    scene.request()
    scene.running.add(key("b1"))

    await scene.reconcile()

    assert (scene.phase, scene.errors) == ("Processed", ["backup is still in progress"])
    assert {name for plural, name in scene.left if plural == DELETE_BACKUP_REQUESTS.name} == {
        "q1",
        "of-another",
    }
    assert scene.world.cluster.status("backups", "b1") == COMPLETED


@pytest.mark.spec("API-030", "CTL-030")
async def test_an_unknown_backup_is_said_to_be_so(scene: Scene) -> None:
    scene.request(phase="New")

    await scene.reconcile()

    assert (scene.phase, scene.errors) == ("Processed", ["backup not found"])


@pytest.mark.spec("CTL-030")
async def test_a_backup_whose_location_is_gone_is_kept(scene: Scene) -> None:
    await scene.backup()
    scene.request()
    scene.world.cluster.vanish("backupstoragelocations", "default")

    await scene.reconcile()

    assert scene.errors == ["backup storage location default not found"]
    assert scene.world.cluster.status("backups", "b1") == COMPLETED


@pytest.mark.spec("CTL-030")
async def test_a_read_only_location_keeps_its_backups(scene: Scene) -> None:
    await scene.backup()
    scene.request()
    location = scene.world.cluster.stored("backupstoragelocations", "default")
    location["spec"]["accessMode"] = "ReadOnly"
    files = scene.world.files()

    await scene.reconcile()

    assert scene.errors == [
        "cannot delete backup because backup storage location default is currently in read-only mode"
    ]
    assert scene.world.files() == files
    assert scene.world.metrics.calls == []


@pytest.mark.parametrize(
    ("noted", "reason"), [("rule", "rule"), ("expiry", "expiry"), (None, "request"), ("x", "request")]
)
async def test_the_signed_note_of_a_removal_says_why_it_was_made(
    scene: Scene, noted: str | None, reason: str
) -> None:
    key = Ed25519Signer.generate()
    secret = scene.world.cluster.add("secrets", "signing")
    secret["data"] = {"signing-key.pem": b64encode(key.pem()).decode()}
    config = {"path": str(scene.world.folder), "signing.keySecret": "signing"}
    scene.world.add_location(config=config)
    await scene.backup()
    request = scene.request()
    if noted is not None:
        request["metadata"]["annotations"] = {labels.REMOVAL_REASON: noted}

    await scene.reconcile()

    [note] = scene.world.folder.rglob("pinnace-removed/*.json")
    payload = verify(note.read_bytes(), [key.public]).payload
    assert json.loads(payload)["predicate"]["reason"] == reason


@pytest.mark.parametrize("beside", [True, False], ids=["a file beside it", "its annotation"])
async def test_a_held_backup_is_refused_with_the_reason(scene: Scene, beside: bool) -> None:
    await scene.backup()
    scene.request()
    async with scene.world.locations.open("default") as store:
        if beside:
            await store.put_hold("b1", Hold(held=True, reason="audit"))
        else:
            scene.world.cluster.stored("backups", "b1")["metadata"]["annotations"] = {labels.HOLD: "audit"}
        files = scene.world.files()

        await scene.reconcile()

        assert scene.errors == ["backup b1 is held: audit; `backup release` lets it go"]
        assert scene.world.files() == files
        assert scene.world.metrics.calls == []
        if beside:  # nor does whoever deletes the files without asking
            with pytest.raises(BackupHeld, match="audit"):
                await store.delete_backup("b1")
            # A release beside the files, and a file that cannot be read.
            await store.put_hold("b1", Hold(held=False))
            assert await store.read_hold("b1") == Hold(held=False)
            [file] = scene.world.folder.rglob("*-pinnace-hold.json")
            file.write_text("{")
            with pytest.raises(BackupHeld, match="cannot be read"):
                await store.delete_backup("b1")


SNAPSHOT = VolumeSnapshot(
    spec=VolumeSnapshotSpec(location="aws"),
    status=VolumeSnapshotStatus(provider_snapshot_id="snap-1", phase="Completed"),
)
POD_VOLUME: JSONObject = {
    "metadata": {"name": "v"},
    "spec": {"pod": {"namespace": "shop", "name": "db"}, "volume": "data", "repoIdentifier": "s3:x/shop"},
    "status": {"snapshotID": "2fa3"},
}
KOPIA_VOLUME = {**POD_VOLUME, "spec": {**POD_VOLUME["spec"], "uploaderType": "kopia"}}
CONTENT = {
    "metadata": {"name": "vsc-1"},
    "spec": {"driver": "d.example.io", "source": {"volumeHandle": "vol"}},
    "status": {"snapshotHandle": "handle-1"},
}
MOVED = BackupVolumeInfo(
    pvc_name="data", pvc_namespace="shop", backup_method="CSISnapshot", snapshot_data_moved=True
)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (
            {"snapshots": [SNAPSHOT]},
            "volume snapshot snap-1 (error getting volume snapshot location aws:"
            ' volumesnapshotlocations.velero.io "aws" not found)',
        ),
        ({"pod_volume_backups": [POD_VOLUME]}, "restic snapshot 2fa3 of volume data of pod shop/db"),
        ({"pod_volume_backups": [KOPIA_VOLUME]}, "kopia snapshot 2fa3 of volume data of pod shop/db"),
        (
            {"csi_volume_snapshot_contents": [CONTENT]},
            "CSI snapshot handle-1 of d.example.io (start the server with --features EnableCSI)",
        ),
        ({"volume_infos": [MOVED]}, "moved data of claim shop/data"),
        ({"volume_infos": [MOVED], "parked": True}, "moved data of claim shop/data"),
    ],
    ids=["native", "restic", "kopia", "CSI", "moved", "moved, and still parked"],
)
async def test_snapshots_that_this_server_cannot_delete_keep_the_backup(
    scene: Scene, files: dict[str, Any], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.backup(**files)
    scene.request()
    before = scene.world.files()

    await scene.reconcile()

    assert scene.errors == [
        f"this server cannot delete volume data of the backup: {named}. `backup delete --force` (annotation"
        " pinnace.io/force: true of the DeleteBackupRequest) deletes the rest and leaves it behind"
    ]
    assert scene.world.files() == before
    assert scene.world.cluster.status("backups", "b1") == COMPLETED

    scene.world.cluster.stored(DELETE_BACKUP_REQUESTS.name, "q1")["status"] = {}
    scene.world.cluster.stored(DELETE_BACKUP_REQUESTS.name, "q1")["metadata"]["annotations"] = {
        labels.FORCE_DELETION: "true"
    }
    caplog.clear()
    await scene.reconcile()

    assert scene.world.files() == []
    assert scene.world.cluster.peek("backups", "b1") is None
    assert len([said for said in caplog.messages if "left behind" in said]) == 1


class Vault:
    """A provider of snapshots that notes which it deletes."""

    name = "example.io/vault"

    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def init(self, config: Mapping[str, str]) -> None:
        pass

    async def delete_snapshot(self, snapshot_id: str) -> None:
        self.deleted.append(snapshot_id)


@pytest.mark.spec("CTL-032")
@pytest.mark.parametrize("name", ["foo", LONG_NAME], ids=["short", "long"])
async def test_a_deletion_goes_from_the_marks_over_snapshots_and_files_to_the_requests(
    scene: Scene, name: str
) -> None:
    """Each step's write is compared with what was still there before it."""
    cluster, label = scene.world.cluster, labels.label_value(name)
    vault = Vault()
    scene.use(vault)
    cluster.add("volumesnapshotlocations", "aws", spec={"provider": Vault.name})
    await scene.backup(name, snapshots=[SNAPSHOT])
    await scene.backup("another")
    scene.request(backup=name)
    cluster.stored(DELETE_BACKUP_REQUESTS.name, "q1")["metadata"]["labels"] = {}
    of_name = {labels.BACKUP_NAME: label, labels.BACKUP_UID: f"uid-{name[:20]}"}
    cluster.add(DELETE_BACKUP_REQUESTS.name, "late", labels=of_name, spec={"backupName": name}, status={})
    cluster.stored(DELETE_BACKUP_REQUESTS.name, "late")["metadata"]["labels"] = {}
    scene.request("of-another", backup="another")
    steps: list[tuple[str, str, str, list[str], int]] = []

    def note(verb: str, plural: str, which: str) -> None:
        if (verb, which) == ("delete", f"r-{name}"):
            # A request that arrives while the deletion is under way goes with it too.
            cluster.stored(DELETE_BACKUP_REQUESTS.name, "late")["metadata"]["labels"] = of_name
        if verb in ("patch", "delete"):
            folders = sorted({file.split("/")[1] for file in scene.world.files()})
            steps.append((verb, plural, which, folders, len(vault.deleted)))

    cluster.before = note
    await scene.reconcile()

    everything = sorted([name, f"r-{name}", "another", "r-another"])
    without_restore = sorted([name, "another", "r-another"])
    others = ["another", "r-another"]
    requests = DELETE_BACKUP_REQUESTS.name
    assert steps[:4] == [
        ("patch", requests, "q1", everything, 0),
        ("patch", "backups", name, everything, 0),
        ("delete", "restores", f"r-{name}", without_restore, 1),
        ("delete", "backups", name, others, 1),
    ]
    assert sorted(steps[4:]) == [("delete", requests, which, others, 1) for which in ("late", "q1")]
    assert [patch for _, _, patch in cluster.patches] == [
        {
            "metadata": {"uid": "uid-q1", "labels": of_name},
            "status": {"phase": "InProgress", "errors": None},
        },
        {"metadata": {"resourceVersion": ANY}, "status": {"phase": "Deleting"}},
    ]
    assert len(label) <= 63
    assert vault.deleted == ["snap-1"]
    assert {("backups", "another"), ("restores", "r-another"), (requests, "of-another")} <= scene.left


@pytest.mark.found("E-F2")
async def test_a_location_that_moves_meanwhile_keeps_the_files_that_name_pod_volumes(scene: Scene) -> None:
    """In another place no snapshot of a pod volume is found, which looks as if all were deleted."""
    cluster = scene.world.cluster
    await scene.backup()
    scene.request()
    before = scene.world.files()

    def move(verb: str, plural: str, which: str) -> None:
        if (verb, plural) == ("patch", "backups"):
            cluster.stored("backupstoragelocations", "default")["spec"]["objectStorage"]["prefix"] = "moved"

    cluster.before = move
    await scene.reconcile()

    assert scene.phase == "Processed"
    assert len(scene.errors) == 1
    assert scene.errors[0].startswith(
        "backup storage location default was moved while the deletion ran: it began in "
    )
    assert [file for file in before if file.startswith("backups/")] == [
        file for file in scene.world.files() if file.startswith("backups/")
    ]
    assert ("backups", "b1") in scene.left


@pytest.mark.parametrize("tenant", ["", "evil"], ids=["administrator's location", "tenant's"])
async def test_snapshots_that_a_tenant_wrote_down_are_not_deleted(scene: Scene, tenant: str) -> None:
    """Ids of anybody's snapshots can stand in a bucket of one's own. (docs/spec: NAC A15)"""
    vault = Vault()
    scene.use(vault)
    scene.world.cluster.add("volumesnapshotlocations", "aws", spec={"provider": Vault.name})
    if tenant:
        location = scene.world.cluster.stored("backupstoragelocations", "default")
        location["metadata"]["annotations"] = {Origin.LOCATION.namespace_annotation: tenant}
    await scene.backup(snapshots=[SNAPSHOT])
    scene.request()

    await scene.reconcile()

    assert vault.deleted == ([] if tenant else ["snap-1"])
    assert scene.world.cluster.peek("backups", "b1") is None
    assert scene.world.files() == []


@pytest.mark.parametrize("parked", [False, True], ids=["finished", "waiting"])
async def test_an_encrypted_backup_goes_with_its_snapshots_without_an_identity(
    scene: Scene, parked: bool
) -> None:
    vault = Vault()
    scene.use(vault)
    scene.world.cluster.add("volumesnapshotlocations", "aws", spec={"provider": Vault.name})
    await scene.backup(encrypted=True, parked=parked, snapshots=[SNAPSHOT])
    scene.request()

    await scene.reconcile()

    assert vault.deleted == ["snap-1"]
    assert scene.left == {("volumesnapshotlocations", "aws")}
    assert scene.world.files() == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            None,
            "backup 'b1' is encrypted and has no plain list of its volumes' data: an earlier version made",
        ),
        (b"", "Input data was truncated"),
        (b'{"version": 2}', "it is of version 2, which this program does not know"),
        (b'{"version": 1, "snapshots": []}', "unknown field `snapshots`"),
        (b'{"version": 1, "nativeSnapshots": [{"id": "a\\n", "location": ""}]}', "characters that cannot be"),
    ],
    ids=["removed", "cut", "of a later version", "of another kind", "with a line"],
)
async def test_without_its_plain_list_an_encrypted_backup_is_kept_unless_that_is_forced(
    scene: Scene, content: bytes | None, reason: str
) -> None:
    vault = Vault()
    scene.use(vault)
    scene.world.cluster.add("volumesnapshotlocations", "aws", spec={"provider": Vault.name})
    await scene.backup(encrypted=True, snapshots=[SNAPSHOT])
    scene.path(PLAIN_LIST).unlink() if content is None else scene.path(PLAIN_LIST).write_bytes(content)
    scene.request()
    before = scene.world.files()

    await scene.reconcile()

    (error,) = scene.errors
    assert error.startswith("cannot tell which snapshots belong to the backup: object ")
    assert reason in error
    assert "`backup delete --force`" in error
    assert (scene.world.files(), vault.deleted) == (before, [])
    assert scene.world.cluster.status("backups", "b1") == COMPLETED

    scene.world.cluster.stored(DELETE_BACKUP_REQUESTS.name, "q1")["status"] = {}
    scene.world.cluster.stored(DELETE_BACKUP_REQUESTS.name, "q1")["metadata"]["annotations"] = {
        labels.FORCE_DELETION: "true"
    }
    await scene.reconcile()
    assert (scene.world.files(), vault.deleted) == ([], [])


async def test_an_encrypted_backup_that_failed_before_its_end_has_no_volumes(scene: Scene) -> None:
    """Only its key file and its log are there."""
    await scene.backup(encrypted=True)
    for path in scene.path("").parent.iterdir():
        if path.name not in ("b1-pinnace-keys.json", "b1-logs.gz"):
            path.unlink()
    scene.request()

    await scene.reconcile()

    assert scene.left == set()


async def test_snapshots_in_a_tenants_plain_list_are_not_deleted(scene: Scene) -> None:
    """Whoever has a bucket can write both files: a key file of any key, and a list of anybody's snapshots."""
    vault = Vault()
    scene.use(vault)
    scene.world.cluster.add("volumesnapshotlocations", "aws", spec={"provider": Vault.name})
    location = scene.world.cluster.stored("backupstoragelocations", "default")
    location["metadata"]["annotations"] = {Origin.LOCATION.namespace_annotation: "evil"}
    await scene.backup(encrypted=True, snapshots=[SNAPSHOT])
    assert b'"snap-1"' in scene.path(PLAIN_LIST).read_bytes()
    scene.request()

    await scene.reconcile()

    assert vault.deleted == []
    assert scene.world.files() == []


async def test_the_plain_list_of_a_plain_backup_is_not_read(scene: Scene) -> None:
    vault = Vault()
    scene.use(vault)
    scene.world.cluster.add("volumesnapshotlocations", "aws", spec={"provider": Vault.name})
    await scene.backup(snapshots=[SNAPSHOT])
    scene.path(PLAIN_LIST).write_bytes(b'{"version": 1, "nativeSnapshots": [{"id": "x", "location": "aws"}]}')
    scene.request()

    await scene.reconcile()

    assert vault.deleted == ["snap-1"]


async def test_restic_snapshots_known_only_to_the_cluster_count_too(scene: Scene) -> None:
    await scene.backup()
    scene.request()
    scene.world.cluster.add(
        "podvolumebackups",
        "v",
        labels={labels.BACKUP_NAME: "b1"},
        spec={"repoIdentifier": "s3:x/shop"},
        status=POD_VOLUME["status"],
    )

    await scene.reconcile()

    assert len(scene.errors) == 1
    assert scene.errors[0].startswith(
        "this server cannot delete volume data of the backup: restic snapshot 2fa3. "
    )


async def test_a_list_of_snapshots_that_cannot_be_read_keeps_the_backup(scene: Scene) -> None:
    await scene.backup()
    scene.request()
    path = scene.world.folder / "bucket-default/backups/b1/b1-volumesnapshots.json.gz"
    path.write_bytes(b"no gzip")

    await scene.reconcile()

    assert "cannot tell which snapshots belong to the backup" in str(scene.errors)
    assert "backups/b1/velero-backup.json" in scene.world.files()


async def test_a_backup_that_never_began_needs_no_location(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", status={"phase": "FailedValidation"})
    scene.request()
    scene.world.cluster.vanish("backupstoragelocations", "default")

    await scene.reconcile()

    assert scene.left == set()


async def test_a_backup_that_failed_because_its_name_was_taken_leaves_the_other_alone(scene: Scene) -> None:
    await scene.backup()
    files = scene.world.files()
    late = {"phase": "Failed", "startTimestamp": "2021-08-11T21:42:00Z"}
    scene.world.cluster.add("backups", "b1", spec={"storageLocation": "default"}, status=late)
    scene.request()

    await scene.reconcile()

    assert scene.world.cluster.peek("backups", "b1") is None
    assert [file for file in files if file.startswith("backups/")] == scene.world.files()


async def test_a_backup_that_failed_beside_one_of_the_same_second_leaves_the_other_alone(
    scene: Scene,
) -> None:
    """The schedules of two clusters that share a location: one of both backups was stored."""
    await scene.backup()
    files = scene.world.files()
    status = scene.world.cluster.stored("backups", "b1")["status"]
    failed = {
        **status,
        "phase": "Failed",
        "failureReason": "error uploading backup: is being written by node-2",
    }
    scene.world.cluster.add("backups", "b1", spec={"storageLocation": "default"}, status=failed)
    scene.world.cluster.stored("backups", "b1")["metadata"]["uid"] = "of-this-cluster"
    scene.request()

    await scene.reconcile()

    assert scene.world.cluster.peek("backups", "b1") is None
    assert [file for file in files if file.startswith("backups/")] == scene.world.files()


async def test_what_a_failed_upload_left_goes_too(scene: Scene) -> None:
    await scene.backup()
    (scene.world.folder / "bucket-default/backups/b1/velero-backup.json").unlink()
    scene.request()

    await scene.reconcile()

    assert scene.world.files() == []


@pytest.mark.spec("CTL-036")
async def test_a_restore_whose_files_cannot_be_deleted_is_kept(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.backup()
    scene.request()

    async def refuse(_store: object, _name: str) -> None:
        raise StorageError("denied")

    monkeypatch.setattr("pinnace.storage.backup_store.BackupStore.delete_restore", refuse)
    await scene.reconcile()

    assert scene.errors == ["error deleting restore velero/r-b1: denied"]
    assert scene.phase == "Processed"
    assert {("restores", "r-b1"), ("backups", "b1")} <= scene.left
    assert scene.world.cluster.status("backups", "b1")["phase"] == BackupPhase.DELETING
    assert scene.world.metrics.calls[-1] == ("backup_deletion_finished", "nightly", False)

    monkeypatch.undo()
    scene.request("q2")
    await scene.reconcile("q2")
    assert scene.left == set()
    assert scene.world.files() == []


async def test_a_location_out_of_reach_is_waited_for_and_the_request_says_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.backup()
    scene.request()

    async def unreachable(_store: object, _name: str) -> None:
        raise StoreUnavailable("no route to host")

    monkeypatch.setattr("pinnace.storage.backup_store.BackupStore.read_backup", unreachable)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await scene.reconciler.reconcile(key("q1"))
    assert (scene.phase, scene.errors) == (None, ["no route to host"])
    assert len(scene.world.cluster.writes()) == 1

    monkeypatch.undo()
    await scene.reconcile()
    assert scene.left == set()


async def test_an_unmounted_folder_is_waited_for(scene: Scene) -> None:
    """Taken for an empty one, it would keep the files of a Backup that nobody knows any more."""
    await scene.backup()
    scene.request()
    folder = scene.world.folder / "bucket-default"
    folder.rename(scene.world.folder / "away")

    with pytest.raises(StoreUnavailable):
        await scene.reconciler.reconcile(key("q1"))
    assert "mount it" in str(scene.errors)
    assert scene.world.cluster.status("backups", "b1") == COMPLETED

    (scene.world.folder / "away").rename(folder)
    await scene.reconcile()
    assert scene.left == set()
    assert scene.world.files() == []


@pytest.mark.parametrize("verb", ["patch", "delete"])
@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_deletion_is_resumed_from_every_write(scene: Scene, verb: str, lost: str) -> None:
    """The n-th write fails, before or after it took effect; the next pass always ends the work."""
    for number in range(10):
        world = World(scene.world.folder / f"{number}")
        world.folder.mkdir()
        world.add_location()
        trial = Scene(world)
        await trial.backup()
        trial.request()
        fault = _fail_nth(verb, number)
        setattr(world.cluster, "before" if lost == "request" else "after", fault)
        try:
            await trial.reconcile()
        except (ConnectionFailed, NotMarked):
            await trial.reconcile()
        assert trial.left == set()
        assert world.files() == []


def _fail_nth(verb: str, number: int) -> object:
    seen = [0]
    fault = fail_once(verb)

    def check(*call: str) -> None:
        if call[0] == verb:
            seen[0] += 1
            if seen[0] > number:
                fault(*call)

    return check


async def test_a_backup_taken_meanwhile_is_looked_at_again(scene: Scene) -> None:
    """Between the checks and the first mark the backup controller may have begun it."""
    scene.world.cluster.add("backups", "b1")
    scene.request()

    def begin(verb: str, plural: str, _name: str) -> None:
        if (verb, plural) == ("patch", "backups") and not scene.running:
            scene.running.add(key("b1"))
            scene.world.cluster.stored("backups", "b1")["metadata"]["resourceVersion"] = "99"

    scene.world.cluster.before = begin
    with pytest.raises(Exception, match="modified"):
        await scene.reconciler.reconcile(key("q1"))
    await scene.reconcile()

    assert scene.errors == ["backup is still in progress"]
    assert scene.world.cluster.status("backups", "b1") == {}


@pytest.mark.spec("CTL-037", "API-030")
async def test_processed_requests_can_be_read_for_a_day(scene: Scene, tmp_path: Path) -> None:
    for name, phase in (("processed", "Processed"), ("new", "New"), ("none", ""), ("running", "InProgress")):
        scene.request(name, phase=phase)

    scene.world.clock.turn(24 * 3600 - 60)
    await scene.reconciler.expire()
    assert len(scene.left) == 4

    for later in (120, 24 * 3600):
        scene.world.clock.turn(later)
        await scene.reconciler.expire()
        assert {name for _, name in scene.left} == {"new", "none", "running"}
