"""What locations hold and what the cluster then knows; folders stand for buckets of anybody's content."""

import asyncio
import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.controllers.sync import backup_sync
from pinnace.controllers.sync import location as location_sync
from pinnace.controllers.sync.backup_sync import BackupSync
from pinnace.controllers.sync.location import Caches
from pinnace.kube.errors import Invalid, KubeError, ServerFault
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, SCHEDULES
from pinnace.runtime.logfields import RECORD_ATTRIBUTE
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.documents import StoredObjects
from pinnace.storage.errors import StoreUnavailable
from tests.unit.controllers.fakes import BROKEN, NAMESPACE, Cached, World, fail_once
from tests.unit.controllers.stored import stored_backup, stored_volume

NOW = "2021-08-11T21:43:26Z"
LONG_LOCATION = "default" * 10
POD_VOLUME_BACKUPS = "podvolumebackups"


class Scene:
    def __init__(self, world: World) -> None:
        self.world = world
        self.restart()

    def restart(self) -> None:
        """A new server with nothing in memory."""
        self.sync = BackupSync(
            self.world.scope,
            self.world.locations,
            locations=Cached(self.world, BACKUP_STORAGE_LOCATIONS),
            caches=Caches(backups=Cached(self.world, BACKUPS), schedules=Cached(self.world, SCHEDULES)),
            default_location="default",
            period=Duration.minutes(1),
        )

    def store(
        self,
        name: str,
        backup: JSONObject | bytes | None = None,
        *,
        volumes: list[JSONObject] | bytes | None = None,
        location: str = "default",
    ) -> Path:
        """Files of a backup; its directory."""
        directory = self.world.folder / f"bucket-{location}" / "backups" / name
        directory.mkdir(parents=True, exist_ok=True)
        data = backup if isinstance(backup, bytes) else json.dumps(backup or stored_backup(name)).encode()
        (directory / "velero-backup.json").write_bytes(data)
        if volumes is not None:
            data = volumes if isinstance(volumes, bytes) else gzip.compress(json.dumps(volumes).encode())
            (directory / f"{name}-podvolumebackups.json.gz").write_bytes(data)
        return directory

    def known(self, name: str, phase: str = "Completed", *, location: str = "default") -> None:
        """A Backup that this cluster made in that location."""
        marks = {labels.STORAGE_LOCATION: labels.label_value(location)}
        spec = {"storageLocation": location}
        self.world.cluster.add("backups", name, labels=marks, spec=spec, status={"phase": phase})
        self.world.cluster.stored("backups", name)["metadata"]["creationTimestamp"] = "2021-08-01T00:00:00Z"
        self.world.cluster.stored("backups", name)["status"]["completionTimestamp"] = "2021-08-01T01:00:00Z"

    async def later(self, seconds: float = 60) -> None:
        """The next pass."""
        self.world.clock.turn(seconds)
        await self.sync.run()

    @property
    def backups(self) -> dict[str, JSONObject]:
        return self.world.all_of("backups")

    @property
    def volumes(self) -> dict[str, JSONObject]:
        return self.world.all_of(POD_VOLUME_BACKUPS)

    def synced(self, location: str = "default") -> str | None:
        time: str | None = self.world.cluster.status(BACKUP_STORAGE_LOCATIONS.name, location).get(
            "lastSyncedTime"
        )
        return time


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    world = World(tmp_path)
    world.add_location()
    return Scene(world)


# --- When -----------------------------------------------------------------------------------------------


@pytest.mark.spec("CTL-042")
async def test_a_location_is_synced_again_after_its_period(scene: Scene) -> None:
    await scene.sync.run()
    assert scene.synced() == NOW
    scene.world.cluster.requests.clear()

    await scene.later(30)
    assert scene.world.cluster.calls == []
    await scene.later(30)
    assert scene.synced() == "2021-08-11T21:44:26Z"

    assert scene.world.cluster.calls == [("patch", "backupstoragelocations", "default")]


# --- What is created ------------------------------------------------------------------------------------


@pytest.mark.spec("CTL-039", "CTL-040", "BEY-002")
@pytest.mark.parametrize("other", ["other", LONG_LOCATION])
async def test_backups_of_all_locations_become_objects_of_this_cluster(scene: Scene, other: str) -> None:
    scene.world.add_location(other)
    scene.store("b1")
    scene.store("b2", location=other)

    await scene.sync.run()

    assert set(scene.backups) == {"b1", "b2"}
    for name, location in (("b1", "default"), ("b2", other)):
        backup, stored = scene.backups[name], stored_backup(name)
        metadata = backup["metadata"]
        assert metadata["labels"] == {"a": "b", labels.STORAGE_LOCATION: labels.label_value(location)}
        assert metadata["annotations"] == {"c": "d"}
        assert metadata["creationTimestamp"] == NOW
        added = {"uid", "resourceVersion", "creationTimestamp", "generation"}
        assert set(metadata) == {"name", "namespace", "labels", "annotations", *added}
        assert (metadata["name"], metadata["namespace"]) == (name, NAMESPACE)
        assert backup["spec"] == {**stored["spec"], "storageLocation": location}
        assert backup["status"] == stored["status"]
        assert scene.synced(location) == NOW


@pytest.mark.spec("CTL-039")
async def test_an_object_that_exists_is_untouched(scene: Scene) -> None:
    scene.known("b1", "Failed", location="elsewhere")
    before = json.dumps(scene.backups)
    scene.store("b1", volumes=[stored_volume()])

    await scene.sync.run()
    await scene.later()

    assert json.dumps(scene.backups) == before
    assert scene.volumes == {}


@pytest.mark.spec("CTL-044")
@pytest.mark.parametrize("marked", [True, False])
async def test_the_default_location_is_synced_first(scene: Scene, marked: bool) -> None:
    scene.world.add_location("a")
    scene.world.add_location("z", default=marked)
    for location in ("a", "default", "z"):
        scene.store("b1", location=location)

    await scene.sync.run()

    expected = "z" if marked else "default"
    assert scene.backups["b1"]["spec"]["storageLocation"] == expected


async def test_the_name_is_that_of_the_directory(scene: Scene) -> None:
    scene.store("b1", stored_backup("victim"))

    await scene.sync.run()

    assert set(scene.backups) == {"b1"}


@pytest.mark.spec("CTL-045", "BEY-004")
@pytest.mark.parametrize(
    ("kind", "api_version", "uid", "kept"),
    [
        ("Schedule", "velero.io/v1", "uid-s", True),
        ("Schedule", "velero.io/v1", "uid-another", False),
        ("Schedule", "velero.io/v1", None, False),
        ("Schedule", "example.com/v1", None, True),
        ("ConfigMap", "v1", None, True),
    ],
)
async def test_an_owner_that_is_a_schedule_must_be_here(
    scene: Scene, kind: str, api_version: str, uid: str | None, kept: bool
) -> None:
    if uid:
        scene.world.cluster.add("schedules", "s")["metadata"]["uid"] = uid
        scene.world.cluster.stored("schedules", "s")["metadata"]["uid"] = uid
    backup = stored_backup()
    owner = {"apiVersion": api_version, "kind": kind, "name": "s", "uid": "uid-s", "controller": True}
    backup["metadata"]["ownerReferences"] = [owner]
    scene.store("b1", backup)

    await scene.sync.run()

    assert scene.backups["b1"]["metadata"].get("ownerReferences") == ([owner] if kept else None)


@pytest.mark.spec("BEY-002")
@pytest.mark.parametrize(
    ("phase", "expiration", "synced"),
    [
        ("PartiallyFailed", None, "PartiallyFailed"),
        ("Failed", None, "Failed"),
        ("Finalizing", "2021-08-11T21:43:27Z", None),
        ("Finalizing", None, None),
        ("Finalizing", NOW, "PartiallyFailed"),
        ("WaitingForPluginOperationsPartiallyFailed", NOW, "PartiallyFailed"),
        ("", NOW, None),
        ("New", NOW, None),
        ("InProgress", NOW, None),
        ("FailedValidation", NOW, None),
        ("Deleting", NOW, None),
        ("Unheard", NOW, None),
    ],
)
async def test_only_backups_that_have_ended_are_made_known(
    scene: Scene, phase: str, expiration: str | None, synced: str | None
) -> None:
    scene.store("b1", stored_backup(phase=phase, **({"expiration": expiration} if expiration else {})))

    await scene.sync.run()

    assert [backup["status"]["phase"] for backup in scene.backups.values()] == ([synced] if synced else [])
    assert scene.synced() == NOW


# --- Companions -----------------------------------------------------------------------------------------


@pytest.mark.spec("CTL-041")
async def test_pod_volume_backups_belong_to_the_new_backup(scene: Scene) -> None:
    scene.world.cluster.add(POD_VOLUME_BACKUPS, "v2", status={"phase": "New"})
    scene.store("b1", volumes=[stored_volume(), stored_volume("v2"), stored_volume("v3", kind=None)])

    await scene.sync.run()
    await scene.later()

    uid = scene.backups["b1"]["metadata"]["uid"]
    assert set(scene.volumes) == {"v1", "v2", "v3"}
    assert scene.volumes["v2"]["status"] == {"phase": "New"}
    volume, stored = scene.volumes["v1"], stored_volume()
    assert volume["metadata"]["labels"] == {
        labels.BACKUP_NAME: "b1",
        labels.BACKUP_UID: uid,
        labels.PVC_UID: "p",
    }
    assert volume["metadata"]["annotations"] == {labels.PVC_NAME: "claim"}
    assert volume["metadata"]["ownerReferences"] == [
        {"apiVersion": "velero.io/v1", "kind": "Backup", "name": "b1", "uid": uid, "controller": True}
    ]
    assert volume["spec"] == {**stored["spec"], "backupStorageLocation": "default"}
    assert volume["status"] == stored["status"]


@pytest.mark.parametrize("phase", ["", "New", "InProgress", "Canceled"])
async def test_a_volume_that_an_agent_would_work_on_is_not_made_known(scene: Scene, phase: str) -> None:
    forged = stored_volume("v1", status={"phase": phase})
    scene.store("b1", volumes=[forged, stored_volume("v2", status={"phase": "Failed"})])

    await scene.sync.run()

    assert set(scene.volumes) == {"v2"}


async def test_nothing_else_is_created(scene: Scene) -> None:
    directory = scene.store("b1")
    content = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent"}
    data = gzip.compress(json.dumps([{**content, "metadata": {"name": "c"}}]).encode())
    (directory / "b1-csi-volumesnapshotcontents.json.gz").write_bytes(data)

    await scene.sync.run()

    assert {plural for verb, plural, _ in scene.world.cluster.calls if verb == "create"} == {"backups"}


# --- What is wrong with one backup harms no other ---------------------------------------------------------


def deep(levels: int) -> bytes:
    backup = json.dumps(stored_backup())
    return backup.replace('"newField": [1]', f'"newField": {"[" * levels}{"]" * levels}').encode()


BROKEN_METADATA: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "null": b"null",
    "not UTF-8": b'{"kind": "\xff"}',
    "a surrogate": b'{"kind": "\\ud800"}',
    "no kind": json.dumps({**stored_backup(), "kind": ""}).encode(),
    "another kind": json.dumps({**stored_backup(), "kind": "Restore"}).encode(),
    "another version": json.dumps({**stored_backup(), "apiVersion": "velero.io/v2"}).encode(),
    "no status": json.dumps({**stored_backup(), "status": None}).encode(),
    "wrong type": json.dumps({**stored_backup(), "spec": {"ttl": 5}}).encode(),
    "labels": json.dumps({**stored_backup(), "metadata": {"labels": ["x"]}}).encode(),
    "deep": deep(300),
    "deeper": deep(5000),
    "large": json.dumps({**stored_backup(), "spec": {"x": "y" * (2 << 20)}}).encode(),
}


@pytest.mark.spec("BEY-003")
@pytest.mark.parametrize("data", BROKEN_METADATA.values(), ids=BROKEN_METADATA)
async def test_a_backup_that_cannot_be_read_harms_no_other(scene: Scene, data: bytes) -> None:
    for name in ("a1", "z1"):
        scene.store(name)
    for name in ("b1", "b2", "b3", "b4", "b5"):
        scene.store(name, data)

    await scene.sync.run()
    await scene.later()

    assert set(scene.backups) == {"a1", "z1"}
    assert scene.synced() == "2021-08-11T21:44:26Z"


@pytest.mark.spec("BEY-003")
async def test_a_directory_without_metadata_is_no_backup(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    (scene.store("b1", volumes=[stored_volume()]) / "velero-backup.json").unlink()
    scene.store("b2")

    await scene.sync.run()

    assert set(scene.backups) == {"b2"}
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    "volumes",
    [
        b"",
        b"\x1f\x8bdamaged",
        gzip.compress(b"[1]"),
        gzip.compress(json.dumps([{"kind": "Pod"}, {"metadata": {}}, stored_volume("")]).encode()),
        gzip.compress(json.dumps([stored_volume("v0", spec={"node": 1})]).encode()),
    ],
    ids=["empty", "damaged", "no object", "other kinds", "wrong type"],
)
async def test_volumes_that_cannot_be_read_harm_no_other(scene: Scene, volumes: bytes) -> None:
    scene.store("b1", volumes=volumes)
    scene.store("b2", volumes=[stored_volume()])

    await scene.sync.run()

    assert set(scene.backups) == {"b1", "b2"}
    assert set(scene.volumes) == {"v1"}


async def test_an_encrypted_backup_is_made_known_without_its_volumes_and_that_is_said_once(
    scene: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    scene.store("plain", volumes=[stored_volume()])
    for name in ("b1", "b2"):
        directory = scene.store(name, volumes=b"age-encryption.org/v1\n-> X25519 x\n")
        (directory / f"{name}-pinnace-keys.json").write_text('{"version": 1, "age": ""}')
    read = BackupStore.read_pod_volume_backups
    asked: list[str] = []

    async def counted(store: BackupStore, backup: str) -> StoredObjects:
        asked.append(backup)
        return await read(store, backup)

    monkeypatch.setattr(BackupStore, "read_pod_volume_backups", counted)
    await scene.sync.run()
    await scene.later()
    await scene.later()

    assert set(scene.backups) == {"plain", "b1", "b2"}
    assert set(scene.volumes) == {"v1"}
    assert sorted(asked) == ["b1", "b2", "plain"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    (said,) = [record for record in caplog.records if record.msg.startswith("Backups are encrypted")]
    assert getattr(said, RECORD_ATTRIBUTE)["backups"] == "b1, b2"


async def test_too_many_volumes_are_none(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location_sync, "MAX_POD_VOLUME_BACKUPS", 2)
    scene.store("b1", volumes=[stored_volume(f"v{number}") for number in range(3)])
    scene.store("b2", volumes=[stored_volume(f"w{number}") for number in range(2)])

    await scene.sync.run()

    assert set(scene.volumes) == {"w0", "w1"}


@pytest.mark.parametrize(
    "error",
    [Invalid(422, message="no"), ServerFault(500, message="etcdserver: request is too large"), BROKEN],
)
async def test_a_backup_that_the_server_refuses_harms_no_other(scene: Scene, error: KubeError) -> None:
    def refuse(*call: str) -> None:
        if call == ("create", "backups", "b1"):
            raise error

    scene.world.cluster.before = refuse
    for name in ("a1", "b1", "c1"):
        scene.store(name)

    await scene.sync.run()

    assert set(scene.backups) == {"a1", "c1"}
    assert scene.synced() == NOW


async def test_what_is_left_out_is_reported_once_until_it_changes(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.store("b1", b"{")
    for _ in range(3):
        await scene.later()
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1

    scene.store("b1", stored_backup(phase="New"))
    for _ in range(2):
        await scene.later()
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 2
    scene.store("b1")
    await scene.later()
    assert set(scene.backups) == {"b1"}


@pytest.mark.found("E-F2")
@pytest.mark.parametrize("change", ["created again", "moved"])
async def test_nothing_is_remembered_of_a_location_that_is_in_another_place(
    scene: Scene, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene.store("b1", b"{")
    await scene.later()
    location = scene.world.cluster.stored("backupstoragelocations", "default")
    if change == "moved":
        location["spec"]["objectStorage"]["bucket"] = "bucket-other"
        scene.store("b1", b"{", location="other")
        scene.store("b2", location="other")
    else:
        location["metadata"]["uid"] = "another"
        scene.store("b2")

    await scene.later(1)

    assert set(scene.backups) == {"b2"}
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 2


@pytest.mark.found("K-F1")
@pytest.mark.parametrize(
    "content", [b"{", b"[" + b"{}," * 1_000_000 + b"{}]"], ids=["no JSON", "large in memory"]
)
async def test_a_refused_file_is_not_read_again_until_it_changes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    reads: list[str] = []
    read = BackupStore.get_metadata

    async def counted(self: BackupStore, backup: str) -> bytes:
        reads.append(backup)
        return await read(self, backup)

    monkeypatch.setattr(BackupStore, "get_metadata", counted)
    scene.store("b1", content)
    for _ in range(6):
        await scene.later()

    assert len(reads) == 2  # the first time without its version: one that changes meanwhile is read
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1

    scene.store("b1")
    await scene.later()
    assert set(scene.backups) == {"b1"}


async def test_a_backup_that_has_not_ended_is_read_again(scene: Scene) -> None:
    """It may be made known once it has expired, though its file stays as it is."""
    scene.store("b1", stored_backup(phase="Finalizing", expiration="2021-08-11T21:53:26Z"))
    for _ in range(5):
        await scene.later()
    assert scene.backups == {}

    await scene.later(3600)

    assert set(scene.backups) == {"b1"}


async def test_a_location_that_cannot_be_used_harms_no_other(scene: Scene) -> None:
    scene.world.add_location("aa", provider="nobody")
    scene.world.add_location("bb", backupSyncPeriod="often")
    scene.world.add_location("cc", accessMode="ReadOnly")
    scene.store("b1", location="cc")

    await scene.sync.run()

    assert set(scene.backups) == {"b1"}
    assert (scene.synced("aa"), scene.synced("bb"), scene.synced("cc")) == (None, None, NOW)


@pytest.mark.parametrize("phase", ["Available", "Unavailable"])
async def test_a_default_location_that_never_answers_does_not_keep_the_others_waiting(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    limits = {"HEAD_START_SECONDS": 0.01, "LOCATION_SECONDS": 600, "UNAVAILABLE_SECONDS": 600}
    # Of the other phase, the other location has ten minutes, and this one the time to be asked at all.
    limits["LOCATION_SECONDS" if phase == "Available" else "UNAVAILABLE_SECONDS"] = 1.0
    for name, seconds in limits.items():
        monkeypatch.setattr(backup_sync, name, seconds)
    scene.world.cluster.stored(BACKUP_STORAGE_LOCATIONS.name, "default")["status"] = {"phase": phase}
    scene.world.add_location("other")
    others = {"Available": "Unavailable", "Unavailable": "Available"}[phase]
    scene.world.cluster.stored(BACKUP_STORAGE_LOCATIONS.name, "other")["status"] = {"phase": others}
    scene.store("b1", location="other")
    whole, seen = BackupStore.list_backups, []

    async def stuck_in_default(store: BackupStore) -> list[str]:
        listed = await whole(store)
        if not listed:
            seen.append("default is asked")
            await asyncio.Event().wait()
        seen.append("other is listed")
        return listed

    monkeypatch.setattr(BackupStore, "list_backups", stuck_in_default)
    await scene.sync.run()
    assert sorted(seen) == ["default is asked", "other is listed"]
    assert scene.synced("other") is not None
    assert scene.synced() is None


async def test_without_a_location_there_is_an_error(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.world.cluster.objects.clear()

    await scene.sync.run()

    assert [record.levelname for record in caplog.records] == ["ERROR"]


# --- Stopped anywhere -----------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("took_effect", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        ("create", "backups"),
        ("create", POD_VOLUME_BACKUPS, "v1"),
        ("create", POD_VOLUME_BACKUPS, "v2"),
        ("patch", "backupstoragelocations"),
    ],
)
async def test_a_server_that_dies_anywhere_continues_later(
    scene: Scene, call: tuple[str, ...], took_effect: bool, restarted: bool
) -> None:
    scene.store("b1", volumes=[stored_volume("v1"), stored_volume("v2")])
    dead = False

    def die(*actual: str) -> None:
        """From that call on, nothing takes effect any more."""
        nonlocal dead
        dead = dead or actual[: len(call)] == call
        if dead:
            raise BROKEN

    hook: Callable[[str, str, str], None] = die
    if took_effect:
        scene.world.cluster.after = hook
    else:
        scene.world.cluster.before = hook
    await scene.sync.run()
    scene.world.cluster.before = scene.world.cluster.after = lambda *_: None
    if restarted:
        scene.restart()

    await scene.later()
    await scene.later()

    assert set(scene.backups) == {"b1"}
    assert set(scene.volumes) == {"v1", "v2"}
    uid = scene.backups["b1"]["metadata"]["uid"]
    assert {volume["metadata"]["labels"][labels.BACKUP_UID] for volume in scene.volumes.values()} == {uid}
    scene.world.cluster.requests.clear()
    await scene.later()
    assert scene.world.cluster.calls == [("patch", "backupstoragelocations", "default")]


async def test_volumes_of_a_deleted_backup_are_made_again_when_they_are_collected(scene: Scene) -> None:
    scene.store("b1", volumes=[stored_volume()])
    await scene.sync.run()
    scene.world.cluster.collects_garbage = False  # not yet
    scene.world.cluster.vanish("backups", "b1")  # by a user
    await scene.later()
    await scene.later()
    scene.world.cluster.vanish(POD_VOLUME_BACKUPS, "v1")

    await scene.later()

    uid = scene.backups["b1"]["metadata"]["uid"]
    assert scene.volumes["v1"]["metadata"]["labels"][labels.BACKUP_UID] == uid


async def test_a_backup_that_ended_here_needs_no_look_at_its_volumes(scene: Scene) -> None:
    scene.known("b1")
    scene.store("b1", volumes=[stored_volume()])

    await scene.sync.run()

    assert scene.volumes == {}


# --- Orphans --------------------------------------------------------------------------------------------


@pytest.mark.spec("CTL-043", "BEY-005")
@pytest.mark.parametrize("location", ["default", LONG_LOCATION])
async def test_only_backups_that_were_in_the_location_are_orphans(scene: Scene, location: str) -> None:
    scene.world.add_location(location)
    phases = ["Deleting", "Failed", "FailedValidation", "InProgress", "New", ""]
    for phase in phases:
        scene.known(f"b-{phase}", phase, location=location)
    scene.known("orphan", location=location)
    scene.known("with-errors", "PartiallyFailed", location=location)
    scene.known("stored", location=location)
    scene.known("foreign", location="elsewhere")
    scene.store("stored", location=location)

    await scene.sync.run()

    assert set(scene.backups) == {"stored", "foreign", *(f"b-{phase}" for phase in phases)}


@pytest.mark.spec("CTL-044")
async def test_nothing_is_deleted_when_the_listing_fails(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_store: BackupStore) -> list[str]:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(BackupStore, "list_backups", fail)
    scene.world.add_location("other")
    scene.known("orphan")
    status = {"lastSyncedTime": "2021-08-01T00:00:00Z"}
    scene.world.cluster.stored(BACKUP_STORAGE_LOCATIONS.name, "default")["status"] = status

    await scene.sync.run()
    assert set(scene.backups) == {"orphan"}
    assert scene.synced() == "2021-08-01T00:00:00Z"

    monkeypatch.undo()
    await scene.later(30)
    assert scene.backups == {}
    assert scene.synced() == "2021-08-11T21:43:56Z"


async def test_an_unmounted_folder_takes_no_backup_with_it(scene: Scene) -> None:
    scene.known("b1")
    folder = scene.world.folder / "bucket-default"
    folder.rmdir()

    await scene.sync.run()
    assert set(scene.backups) == {"b1"}
    assert scene.synced() is None

    folder.mkdir()
    await scene.later()
    assert scene.backups == {}


async def test_a_list_that_lacks_a_stored_backup_takes_it_not_away(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forgetful(_store: BackupStore) -> list[str]:
        return []

    scene.known("b1")
    scene.known("orphan")
    scene.store("b1")
    monkeypatch.setattr(BackupStore, "list_backups", forgetful)

    for _ in range(2):
        await scene.sync.run()
        await scene.later()

    assert set(scene.backups) == {"b1"}


@pytest.mark.spec("CTL-065")
async def test_a_backup_that_ends_during_the_pass_is_kept(scene: Scene) -> None:
    scene.known("b1", "InProgress")
    scene.store("other")

    def complete(*call: str) -> None:
        if call == ("create", "backups", "other"):
            scene.known("b1", "Completed")

    scene.world.cluster.after = complete

    await scene.sync.run()

    assert set(scene.backups) == {"b1", "other"}


async def test_an_orphan_that_changed_meanwhile_is_kept(scene: Scene) -> None:
    scene.known("b1")

    def change(*call: str) -> None:
        if call == ("get", "backups", "b1"):
            scene.known("b1", "Deleting")

    scene.world.cluster.before = change

    await scene.sync.run()

    assert set(scene.backups) == {"b1"}


async def test_orphans_are_deleted_one_by_one(scene: Scene) -> None:
    for name in ("b1", "b2", "b3"):
        scene.known(name)
    scene.world.cluster.before = fail_once("delete", "backups", "b2")

    await scene.sync.run()
    assert set(scene.backups) == {"b2"}
    await scene.later()

    assert scene.backups == {}


async def test_a_directory_that_lost_its_metadata_makes_an_orphan_within_the_hour(scene: Scene) -> None:
    scene.known("b1")
    directory = scene.store("b1")
    (directory / "b1-logs.gz").touch()
    await scene.sync.run()
    (directory / "velero-backup.json").unlink()

    await scene.later(3599)
    assert set(scene.backups) == {"b1"}
    await scene.later(60)

    assert scene.backups == {}
