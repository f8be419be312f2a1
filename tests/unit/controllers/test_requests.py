"""DownloadRequests and ServerStatusRequests by the clock; URLs of real stores are integration tests."""

from typing import Any

import pytest

from pinnace.api.labels import KEY_FILES
from pinnace.api.velero.download_request import decode_key_files
from pinnace.controllers.download_request import VALIDITY, DownloadRequestReconciler, backoff
from pinnace.controllers.server_status import ServerStatusReconciler, shown_plugins
from pinnace.kube.errors import Invalid, NotFound
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.runtime.controller import DONE, Result
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.errors import StorageError
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.controllers.fakes import World, key

KINDS = {
    "BackupLog": "backups/b1/b1-logs.gz",
    "BackupContents": "backups/b1/b1.tar.gz",
    "BackupVolumeSnapshots": "backups/b1/b1-volumesnapshots.json.gz",
    "BackupResourceList": "backups/b1/b1-resource-list.json.gz",
    "RestoreLog": "restores/r1/restore-r1-logs.gz",
    "RestoreResults": "restores/r1/restore-r1-results.gz",
}


def add_request(world: World, kind: str, name: str, **status: str) -> None:
    world.cluster.add("downloadrequests", "d1", spec={"target": {"kind": kind, "name": name}}, status=status)


def status(world: World) -> dict[str, object]:
    return world.cluster.status("downloadrequests", "d1")


@pytest.fixture
def downloads(world: World) -> DownloadRequestReconciler:
    world.add_location()
    world.cluster.add("backups", "b1", spec={"storageLocation": "default"}, status={"phase": "Completed"})
    world.cluster.add("restores", "r1", spec={"backupName": "b1"}, status={"phase": "Completed"})
    return DownloadRequestReconciler(world.scope, world.locations)


@pytest.mark.spec("CTL-060", "STO-023", "API-031")
@pytest.mark.parametrize("phase", ["", "New"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_new_request_is_answered_with_a_url_for_ten_minutes(
    world: World, downloads: DownloadRequestReconciler, kind: str, phase: str
) -> None:
    add_request(world, kind, "r1" if kind.startswith("Restore") else "b1", phase=phase)

    assert await downloads.reconcile(key("d1")) == Result.after(601.0)

    assert status(world) == {
        "phase": "Processed",
        "expiration": "2021-08-11T21:53:26Z",
        "downloadURL": (world.folder / "bucket-default" / KINDS[kind]).as_uri(),
    }


async def test_a_request_for_an_encrypted_file_gets_the_key_files_too(
    world: World, downloads: DownloadRequestReconciler
) -> None:
    folder = world.folder / "bucket-default/backups/b1"
    folder.mkdir(parents=True)
    for number in ("", ".2"):
        (folder / f"b1-pinnace-keys{number}.json").write_text(f"the key file{number}")
    add_request(world, "BackupLog", "b1")

    await downloads.reconcile(key("d1"))

    assert status(world)["phase"] == "Processed"
    notes = world.all_of("downloadrequests")["d1"]["metadata"]["annotations"]
    assert decode_key_files(notes[KEY_FILES]) == ("the key file.2", "the key file")


async def test_a_request_for_a_file_of_a_refused_backup_fails_at_once_with_the_reason(
    world: World, downloads: DownloadRequestReconciler
) -> None:
    trusted = {"signing.trustedKeys": str(Ed25519Signer.generate().public), "requireSignature": "true"}
    world.edit("backupstoragelocations", "default", config={"path": str(world.folder), **trusted})
    folder = world.folder / "bucket-default/backups/b1"
    folder.mkdir(parents=True)
    (folder / "velero-backup.json").write_text("{}")
    add_request(world, "BackupLog", "b1")

    await downloads.reconcile(key("d1"))

    assert status(world)["phase"] == "Failed"
    assert "backup 'b1' is not signed" in str(status(world)["message"])


@pytest.mark.spec("CTL-060", "STO-023")
async def test_a_request_that_cannot_be_answered_expires_all_the_same(
    world: World, downloads: DownloadRequestReconciler
) -> None:
    add_request(world, "BackupLog", "b1")
    world.cluster.vanish("backupstoragelocations", "default")

    with pytest.raises(NotFound):
        await downloads.reconcile(key("d1"))
    assert status(world) == {"expiration": "2021-08-11T21:53:26Z"}

    world.clock.turn(599)
    with pytest.raises(NotFound):
        await downloads.reconcile(key("d1"))
    assert status(world) == {"expiration": "2021-08-11T21:53:26Z"}

    world.clock.turn(2)
    assert await downloads.reconcile(key("d1")) == DONE
    assert world.cluster.peek("downloadrequests", "d1") is None


@pytest.mark.spec("AFT-006", "AFT-007", "AFT-009", "AFT-011")
@pytest.mark.parametrize(
    ("kind", "name", "phases", "message"),
    [
        (
            "BackupLog",
            "b1",
            ("Queued", ""),
            'backup "b1" is in phase "Queued" and has not written any artifacts',
        ),
        ("BackupContents", "b1", ("", ""), 'backup "b1" is in phase "New" and has not written any artifacts'),
        (
            "RestoreResults",
            "r1",
            ("Completed", "FailedValidation"),
            'restore "r1" is in phase "FailedValidation" and has not written any artifacts',
        ),
        ("BackupLog", "nobody", ("", ""), 'backups.velero.io "nobody" not found'),
        ("RestoreLog", "nobody", ("", ""), 'restores.velero.io "nobody" not found'),
        ("BackupSecrets", "b1", ("Completed", ""), 'unsupported download target kind "BackupSecrets"'),
    ],
)
async def test_a_request_for_a_file_that_is_not_there_fails_at_once_and_expires(
    world: World,
    downloads: DownloadRequestReconciler,
    kind: str,
    name: str,
    phases: tuple[str, str],
    message: str,
) -> None:
    for object_key, phase in zip((("backups", "b1"), ("restores", "r1")), phases, strict=True):
        world.cluster.stored(*object_key)["status"] = {"phase": phase} if phase else {}
    add_request(world, kind, name)

    assert await downloads.reconcile(key("d1")) == Result.after(601.0)
    stored = status(world)
    assert message in str(stored.pop("message"))
    assert stored == {"phase": "Failed", "expiration": "2021-08-11T21:53:26Z"}

    world.clock.turn(601)
    assert await downloads.reconcile(key("d1")) == DONE
    assert world.cluster.peek("downloadrequests", "d1") is None


@pytest.mark.spec("AFT-010")
async def test_definitions_without_the_phase_leave_the_request_to_expire(
    world: World, downloads: DownloadRequestReconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = ScriptedCluster.patch

    async def refusing(cluster: ScriptedCluster, *where: Any, **how: Any) -> Any:
        if any(isinstance(each, dict) and each["status"].get("phase") == "Failed" for each in where):
            raise Invalid(422, reason="Invalid", message='Unsupported value: "Failed"')
        return await patch(cluster, *where, **how)

    monkeypatch.setattr(ScriptedCluster, "patch", refusing)
    world.cluster.stored("backups", "b1")["status"] = {"phase": "Queued"}
    add_request(world, "BackupLog", "b1")

    with pytest.raises(StorageError, match='backup "b1" is in phase "Queued"'):
        await downloads.reconcile(key("d1"))
    assert status(world) == {"expiration": "2021-08-11T21:53:26Z"}


@pytest.mark.spec("AFT-008")
async def test_the_files_of_a_backup_that_is_being_deleted_can_be_downloaded(
    world: World, downloads: DownloadRequestReconciler
) -> None:
    world.cluster.stored("backups", "b1")["status"] = {"phase": "Deleting"}
    add_request(world, "BackupLog", "b1")

    await downloads.reconcile(key("d1"))
    assert status(world)["phase"] == "Processed"


async def test_the_files_of_a_waiting_backup_are_downloaded_from_where_they_are_parked(
    world: World, downloads: DownloadRequestReconciler
) -> None:
    world.cluster.stored("backups", "b1")["status"] = {"phase": "WaitingForPluginOperations"}
    add_request(world, "BackupLog", "b1")

    await downloads.reconcile(key("d1"))

    assert str(status(world)["downloadURL"]).endswith("/backups/b1/pinnace-parked/b1-logs.gz")


def test_a_request_that_cannot_be_answered_is_tried_a_few_times_before_it_expires() -> None:
    delays, passed, tries = backoff(), 0.0, 1
    while (passed := passed + delays.next_delay(key("d1"))) < VALIDITY.total_seconds():
        tries += 1

    assert 10 <= tries <= 20


@pytest.mark.spec("CTL-060", "STO-023", "API-031")
async def test_a_processed_request_is_kept_until_it_expires(
    world: World, downloads: DownloadRequestReconciler
) -> None:
    add_request(world, "RestoreLog", "r1", phase="Processed", expiration="2021-08-11T21:53:26Z")

    world.clock.turn(300)
    assert await downloads.reconcile(key("d1")) == Result.after(301.0)
    assert world.cluster.writes() == []

    world.clock.turn(301)
    assert await downloads.reconcile(key("d1")) == DONE
    assert world.cluster.peek("downloadrequests", "d1") is None


async def test_a_request_that_a_later_server_failed_stays_as_it_is(
    world: World, downloads: DownloadRequestReconciler
) -> None:
    add_request(world, "BackupLog", "b1", phase="Failed", message="m", expiration="2021-08-11T21:53:26Z")

    assert await downloads.reconcile(key("d1")) == Result.after(601.0)
    assert world.cluster.writes() == []


@pytest.mark.parametrize("phase", ["", "New", "Processed", "Failed"])
async def test_an_expired_request_is_deleted_whatever_its_phase(
    world: World, downloads: DownloadRequestReconciler, phase: str
) -> None:
    add_request(world, "BackupLog", "b1", phase=phase, expiration="2021-08-11T21:43:25Z")

    assert await downloads.reconcile(key("d1")) == DONE
    assert await downloads.reconcile(key("d1")) == DONE

    assert world.cluster.peek("downloadrequests", "d1") is None


async def test_a_processed_request_without_expiration_gets_one(
    world: World, downloads: DownloadRequestReconciler
) -> None:
    add_request(world, "BackupLog", "b1", phase="Processed", downloadURL="https://example.com")

    await downloads.reconcile(key("d1"))

    assert status(world)["expiration"] == "2021-08-11T21:53:26Z"
    assert status(world)["downloadURL"] == "https://example.com"


@pytest.fixture
def servers(world: World) -> ServerStatusReconciler:
    async def plugins() -> list[tuple[str, str]]:
        return [("velero.io/pod", "BackupItemAction"), ("velero.io/job", "RestoreItemAction")]

    return ServerStatusReconciler(world.scope, version="v1.2.3", plugins=plugins)


@pytest.mark.spec("API-032", "CTL-061")
@pytest.mark.parametrize("phase", ["", "New"])
async def test_a_server_says_what_it_is(world: World, servers: ServerStatusReconciler, phase: str) -> None:
    world.cluster.add("serverstatusrequests", "s1", status={"phase": phase})

    assert await servers.reconcile(key("s1")) == Result.after(300.0)

    assert world.cluster.status("serverstatusrequests", "s1") == {
        "phase": "Processed",
        "processedTimestamp": "2021-08-11T21:43:26Z",
        "serverVersion": "v1.2.3",
        "plugins": [
            {"name": "velero.io/pod", "kind": "BackupItemAction"},
            {"name": "velero.io/job", "kind": "RestoreItemAction"},
        ],
    }


@pytest.mark.spec("API-032", "CTL-061")
@pytest.mark.parametrize(("age_seconds", "kept"), [(59, True), (61, False), (120, False)])
async def test_an_answer_is_kept_for_a_minute(
    world: World, servers: ServerStatusReconciler, age_seconds: int, kept: bool
) -> None:
    processed = {"phase": "Processed", "processedTimestamp": "2021-08-11T21:43:26Z"}
    world.cluster.add("serverstatusrequests", "s1", status=processed)
    world.clock.turn(age_seconds)

    assert await servers.reconcile(key("s1")) == (Result.after(300.0) if kept else DONE)

    assert (world.cluster.peek("serverstatusrequests", "s1") is not None) is kept


def test_providers_that_are_built_in_are_shown_once_among_all_plugins() -> None:
    restore = PluginId(PluginKind.RESTORE_ITEM_ACTION, "velero.io/job")
    first, second = (PluginId(PluginKind.BACKUP_ITEM_ACTION, f"x.io/{name}") for name in ("z", "a"))
    program = PluginId(PluginKind.OBJECT_STORE, "velero.io/aws")

    assert shown_plugins([restore, first], [second, program]) == [
        ("x.io/z", "BackupItemAction"),
        ("x.io/a", "BackupItemAction"),
        ("velero.io/aws", "VolumeSnapshotter"),
        ("velero.io/azure", "VolumeSnapshotter"),
        ("velero.io/gcp", "VolumeSnapshotter"),
        ("velero.io/aws", "ObjectStore"),
        ("velero.io/azure", "ObjectStore"),
        ("pinnace.io/filesystem", "ObjectStore"),
        ("velero.io/gcp", "ObjectStore"),
        ("velero.io/job", "RestoreItemAction"),
    ]


@pytest.mark.spec("CTL-061")
async def test_an_unknown_phase_is_an_error(world: World, servers: ServerStatusReconciler) -> None:
    world.cluster.add("serverstatusrequests", "s1", status={"phase": "Odd"})

    with pytest.raises(ValueError, match="unexpected ServerStatusRequest phase 'Odd'"):
        await servers.reconcile(key("s1"))
    assert await servers.reconcile(key("nobody")) == DONE
