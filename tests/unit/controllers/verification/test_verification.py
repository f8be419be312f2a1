"""Verifications by the clock: what is due, which backup, and where the result is written."""

import asyncio
import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from pinnace.age.recipients import parse_recipients
from pinnace.age.x25519 import X25519Identity
from pinnace.api import labels
from pinnace.api.codec import decode
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.verification_answer import VerificationAnswer
from pinnace.browse.checks import Check, CheckResult
from pinnace.browse.errors import NoRoom
from pinnace.controllers.shared.availability import Availability
from pinnace.controllers.verification import verifier
from pinnace.controllers.verification.requested import RequestReconciler, is_open
from pinnace.controllers.verification.scheduled import (
    VerificationReconciler,
    last_verification,
    newest_finished,
)
from pinnace.controllers.verification.verifier import BackupVerifier, summary_of
from pinnace.runtime.controller import DONE, Result
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_files import BackupFiles
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from pinnace.storage.own_settings import TRUSTED_KEYS, Signatures
from pinnace.volumes.uploader.locks import RepositoryLocks
from tests.support.stores.indexed_backups import config_map, store
from tests.unit.controllers.fakes import NAMESPACE, World, key

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAILY = {labels.VERIFY: "0 5 * * *"}
NOTED = {"annotations": DAILY | {labels.LAST_VERIFICATION: "2026-03-01T05:00:00Z sound b1"}}


class Scene:
    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.world.clock.set(NOON)
        self.world.add_location()
        self.folder = folder / "bucket-default"
        self.verifier = BackupVerifier(
            scope=self.world.scope,
            locations=self.world.locations,
            availability=Availability(self.world.locations),
            locks=RepositoryLocks(),
        )
        self.reconciler = VerificationReconciler(self.verifier, zone=UTC)

    def add_schedule(self, **annotations: str) -> None:
        self.world.cluster.add("schedules", "nightly", spec={"schedule": "@daily", "template": {}})
        metadata = self.world.cluster.stored("schedules", "nightly")["metadata"]
        metadata["annotations"] = dict(annotations)
        metadata["creationTimestamp"] = "2026-02-01T00:00:00Z"

    def add_backup(self, name: str, *, day: int = 0, phase: str = "Completed") -> Path:
        directory = store(self.folder, name, [config_map("a")], day=day)
        (directory / f"{name}-volumesnapshots.json.gz").write_bytes(_EMPTY)
        stored = orjson.loads((directory / "velero-backup.json").read_bytes())
        self.world.cluster.add(
            "backups",
            name,
            labels={labels.SCHEDULE_NAME: "nightly"},
            spec=stored["spec"],
            status={**stored["status"], "phase": phase},
        )
        return directory

    def run(self) -> Result:
        return asyncio.run(self.reconciler.reconcile(key("nightly")))

    def notes(self, plural: str, name: str) -> JSONObject:
        found: JSONObject = self.world.cluster.stored(plural, name)["metadata"].get("annotations") or {}
        return found

    @property
    def counted(self) -> list[tuple[object, ...]]:
        counted = ("backup_verified", "backup_not_verified")
        return [call for call in self.world.metrics.calls if call[0] in counted]

    def seal(self, name: str, signer: Ed25519Signer | None = None) -> Path:
        """Store a backup that nobody here can open in the place of one."""
        directory = self.add_backup(name)
        metadata = (directory / "velero-backup.json").read_bytes()
        contents = self.world.folder / "contents"
        (directory / f"{name}.tar.gz").rename(contents)
        for path in directory.iterdir():
            path.unlink()
        identity = X25519Identity.generate()
        sealing = BackupStore(FilesystemStore(self.folder), Layout(""), location="default").encrypted(
            Encryption(recipients=parse_recipients(str(identity.recipient)))
        )
        if signer is not None:
            sealing = sealing.signed(Signatures(key=signer, trusted=(signer.public,)))
        asyncio.run(sealing.put_backup(BackupFiles(name=name, metadata=metadata, contents=contents)))
        return directory


_EMPTY = gzip.compress(b"[]", mtime=0)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_an_encrypted_backup_is_not_verified_and_counted_once(scene: Scene) -> None:
    scene.add_schedule(**DAILY)
    scene.seal("b1")

    result = scene.run()

    assert scene.notes("backups", "b1")[labels.VERIFIED] == "2026-03-01T12:00:00Z not-verified"
    findings = scene.notes("backups", "b1")[labels.VERIFICATION_FINDINGS]
    assert findings.startswith("encryption: not checked: not verified: 'b1' is encrypted")
    note = scene.notes("schedules", "nightly")[labels.LAST_VERIFICATION]
    assert note == "2026-03-01T12:00:00Z not-verified b1"
    assert scene.counted == [("backup_not_verified", "nightly")]
    (event,) = scene.world.all_of("events").values()
    assert (event["type"], event["reason"]) == ("Normal", "NotVerified")
    assert result.requeue_after_seconds == pytest.approx(timedelta(hours=17).total_seconds(), abs=1)


@pytest.mark.parametrize("damaged", ["", "b1.tar.gz", "b1-pinnace-keys.json"])
def test_the_signature_of_an_encrypted_backup_is_checked_over_all_of_its_files(
    scene: Scene, damaged: str
) -> None:
    signer = Ed25519Signer.generate()
    directory = scene.seal("b1", signer)
    config = {"path": str(scene.world.folder), TRUSTED_KEYS: str(signer.public)}
    scene.world.edit("backupstoragelocations", "default", config=config)
    if damaged:
        data = bytearray((directory / damaged).read_bytes())
        data[-1] ^= 1
        (directory / damaged).write_bytes(data)
    scene.add_schedule(**DAILY)

    scene.run()

    expected = "unsound" if damaged else "not-verified"
    assert scene.notes("backups", "b1")[labels.VERIFIED] == f"2026-03-01T12:00:00Z {expected}"
    assert (damaged in scene.notes("backups", "b1")[labels.VERIFICATION_FINDINGS]) or not damaged


def test_the_newest_finished_backup_is_verified_when_it_is_due(scene: Scene) -> None:
    scene.add_schedule(**DAILY)
    scene.add_backup("b1", day=1)
    scene.add_backup("b2", day=2)
    scene.add_backup("b3", day=3, phase="InProgress")

    result = scene.run()

    assert scene.notes("backups", "b2") == {labels.VERIFIED: "2026-03-01T12:00:00Z sound"}
    assert scene.notes("backups", "b1") == {}
    note = scene.notes("schedules", "nightly")[labels.LAST_VERIFICATION]
    assert note == "2026-03-01T12:00:00Z sound b2"
    assert scene.counted == [("backup_verified", "nightly", NOON.timestamp(), True)]
    (event,) = scene.world.all_of("events").values()
    assert (event["type"], event["involvedObject"]["name"]) == ("Normal", "b2")
    assert result.requeue_after_seconds == pytest.approx(timedelta(hours=17).total_seconds(), abs=1)
    assert list(scene.folder.parent.glob("verification-*")) == []


@pytest.mark.found("row 105")
def test_the_same_result_again_is_counted_in_one_event(scene: Scene) -> None:
    scene.add_backup("b1")
    backup = decode(Backup, scene.world.cluster.stored("backups", "b1"))

    for _ in range(3):
        asyncio.run(scene.verifier.note(backup, []))
        scene.world.clock.turn(60)

    (event,) = scene.world.all_of("events").values()
    assert (event["count"], event["reason"]) == (3, "Verified")
    assert event["firstTimestamp"] != event["lastTimestamp"]


def test_a_damaged_backup_is_unsound_and_the_reason_is_written_beside_it(scene: Scene) -> None:
    scene.add_schedule(**DAILY)
    (scene.add_backup("b1") / "b1.tar.gz").write_bytes(b"damaged")

    scene.run()

    notes = scene.notes("backups", "b1")
    assert notes[labels.VERIFIED] == "2026-03-01T12:00:00Z unsound"
    assert notes[labels.VERIFICATION_FINDINGS].startswith("tarball: BAD: damaged")
    (event,) = scene.world.all_of("events").values()
    assert (event["type"], "tarball" in event["message"]) == ("Warning", True)
    assert scene.counted[-1][-1] is False


def test_a_later_sound_verification_removes_the_findings_of_the_former(scene: Scene) -> None:
    scene.add_schedule(**DAILY)
    tarball = scene.add_backup("b1") / "b1.tar.gz"
    data = tarball.read_bytes()
    tarball.write_bytes(b"damaged")
    scene.run()
    tarball.write_bytes(data)
    scene.world.clock.set(NOON + timedelta(days=1))

    scene.run()

    assert scene.notes("backups", "b1") == {labels.VERIFIED: "2026-03-02T12:00:00Z sound"}


def test_what_is_not_due_is_not_verified_and_the_former_result_is_counted_after_a_restart(
    scene: Scene,
) -> None:
    scene.add_schedule(**NOTED["annotations"])
    scene.add_backup("b1")

    result = scene.run()

    assert scene.notes("backups", "b1") == {}
    assert scene.counted == [("backup_verified", "nightly", NOON.timestamp() - 7 * 3600, True)]
    assert result.requeue_after_seconds == pytest.approx(17 * 3600, abs=1)


def test_without_a_finished_backup_that_is_noted(scene: Scene) -> None:
    scene.add_schedule(**DAILY)

    scene.run()

    note = scene.notes("schedules", "nightly")[labels.LAST_VERIFICATION]
    assert note == "2026-03-01T12:00:00Z no-backup"
    assert scene.counted == []


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({labels.VERIFY: "every day"}, "annotation pinnace.io/verify: "),
        (DAILY | {labels.VERIFY_READ_DATA: "all"}, "annotation pinnace.io/verify-read-data: 'all' is not"),
    ],
)
def test_annotations_that_cannot_be_read_are_said_once(
    scene: Scene, annotations: dict[str, str], reason: str
) -> None:
    scene.add_schedule(**annotations)
    scene.add_backup("b1")

    assert scene.run() == scene.run() == DONE

    note = scene.notes("schedules", "nightly")[labels.LAST_VERIFICATION]
    assert note.startswith(f"2026-03-01T12:00:00Z invalid {reason}")
    assert len([patch for patch in scene.world.cluster.patches if patch[0] == "schedules"]) == 1


@pytest.mark.parametrize("schedule", [True, False])
def test_a_schedule_without_the_annotation_or_that_is_gone_has_no_series(
    scene: Scene, schedule: bool
) -> None:
    if schedule:
        scene.add_schedule()
    scene.add_backup("b1")

    assert scene.run() == DONE

    assert scene.world.metrics.calls == [("verification_gone", "nightly")]
    assert scene.notes("backups", "b1") == {}


def test_a_backup_in_a_tenants_location_names_no_snapshot_to_look_for(scene: Scene) -> None:
    location = scene.world.cluster.stored("backupstoragelocations", "default")
    location["metadata"]["annotations"] = {Origin.LOCATION.namespace_annotation: "shop"}
    scene.add_schedule(**DAILY)
    directory = scene.add_backup("b1")
    snapshot = {"spec": {"location": "x", "persistentVolumeName": "p"}, "status": {"providerSnapshotID": "s"}}
    (directory / "b1-volumesnapshots.json.gz").write_bytes(gzip.compress(orjson.dumps([snapshot])))

    scene.run()

    assert "tenant's location" in scene.notes("backups", "b1")[labels.VERIFICATION_FINDINGS]


class Requests:
    """Requests for a verification of one Backup, and their answers."""

    def __init__(self, scene: Scene, name: str) -> None:
        self._scene = scene
        self._name = name
        self._reconciler = RequestReconciler(scene.verifier)

    def ask(self, **notes: str) -> None:
        metadata = self._scene.world.cluster.stored("backups", self._name)["metadata"]
        metadata["annotations"] = (metadata.get("annotations") or {}) | notes

    def run(self) -> VerificationAnswer | None:
        assert asyncio.run(self._reconciler.reconcile(key(self._name))) == DONE
        notes = self._scene.notes("backups", self._name)
        return VerificationAnswer.decode(notes.get(labels.VERIFICATION_ANSWER, ""))


def test_a_backup_is_verified_on_request_once(scene: Scene) -> None:
    (scene.add_backup("b1") / "b1.tar.gz").write_bytes(b"damaged")
    requests = Requests(scene, "b1")
    assert requests.run() is None
    requests.ask(**{labels.VERIFY_REQUESTED: "first"})

    answer = requests.run()

    assert answer is not None
    assert answer.request == "first"
    assert ("tarball", "BAD") in {(check, result) for check, result, _ in answer.checks}
    assert scene.notes("backups", "b1")[labels.VERIFIED] == "2026-03-01T12:00:00Z unsound"
    patches = len(scene.world.cluster.patches)
    assert requests.run() == answer
    assert len(scene.world.cluster.patches) == patches
    requests.ask(**{labels.VERIFY_REQUESTED: "second"})
    assert requests.run() == replace(answer, request="second")


def test_a_running_backup_is_verified_when_it_is_finished(scene: Scene) -> None:
    scene.add_backup("b1", phase="InProgress")
    requests = Requests(scene, "b1")
    requests.ask(**{labels.VERIFY_REQUESTED: "now"})
    assert requests.run() is None
    scene.world.cluster.stored("backups", "b1")["status"]["phase"] = "Completed"

    answer = requests.run()

    assert answer is not None
    assert {check: result for check, result, _ in answer.checks if result != "ok"} == {"log": "missing"}


@pytest.mark.parametrize(
    ("phase", "share", "problem"),
    [
        ("Failed", "", "its phase is Failed"),
        ("Deleting", "", "its phase is Deleting"),
        ("Completed", "all", "annotation pinnace.io/verify-read-data: 'all' is not"),
    ],
)
def test_a_request_that_cannot_be_met_is_answered_with_the_reason(
    scene: Scene, phase: str, share: str, problem: str
) -> None:
    scene.add_backup("b1", phase=phase)
    requests = Requests(scene, "b1")
    requests.ask(**{labels.VERIFY_REQUESTED: "now", labels.VERIFY_READ_DATA: share})

    answer = requests.run()

    assert answer is not None
    assert (answer.request, answer.checks) == ("now", [])
    assert answer.problem.startswith(problem)
    assert labels.VERIFIED not in scene.notes("backups", "b1")


def test_a_request_for_a_backup_that_cannot_be_read_is_answered(scene: Scene) -> None:
    scene.add_backup("b1")
    requests = Requests(scene, "b1")
    requests.ask(**{labels.VERIFY_REQUESTED: "now"})
    scene.world.cluster.stored("backups", "b1")["spec"]["includedNamespaces"] = {"not": "a list"}

    answer = requests.run()

    assert answer is not None
    assert answer.request == "now"
    assert answer.problem.startswith("it cannot be read: ")
    assert "includedNamespaces" in answer.problem


def test_a_location_that_cannot_be_used_is_the_answer_and_makes_no_backup_unsound(scene: Scene) -> None:
    scene.add_backup("b1")
    location = scene.world.cluster.stored("backupstoragelocations", "default")
    location["status"] = {"phase": "Unavailable"}
    location["spec"]["config"]["path"] = "/nowhere"
    requests = Requests(scene, "b1")
    requests.ask(**{labels.VERIFY_REQUESTED: "now"})

    answer = requests.run()

    assert answer is not None
    assert answer.problem.startswith("location default cannot be used: ")
    assert labels.VERIFIED not in scene.notes("backups", "b1")


def test_a_server_without_room_for_the_tarball_makes_no_backup_unsound(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_room(*_: object) -> list[Check]:
        raise NoRoom("the tarball of backup b1 cannot be stored: the disk is full")

    monkeypatch.setattr(verifier, "verify_stored", no_room)
    scene.add_backup("b1")
    requests = Requests(scene, "b1")
    requests.ask(**{labels.VERIFY_REQUESTED: "now"})

    answer = requests.run()

    assert answer is not None
    assert answer.problem == "the tarball of backup b1 cannot be stored: the disk is full"
    assert labels.VERIFIED not in scene.notes("backups", "b1")


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({}, False),
        ({labels.VERIFY_REQUESTED: "a"}, True),
        ({labels.VERIFY_REQUESTED: "a", labels.VERIFICATION_ANSWER: "no JSON"}, True),
        ({labels.VERIFY_REQUESTED: "a", labels.VERIFICATION_ANSWER: '{"request":"b"}'}, True),
        ({labels.VERIFY_REQUESTED: "a", labels.VERIFICATION_ANSWER: '{"request":"a"}'}, False),
    ],
)
def test_a_request_is_open_until_its_own_answer_is_there(notes: dict[str, str], expected: bool) -> None:
    assert is_open({"metadata": {"annotations": notes}}) is expected


def test_an_answer_with_many_long_findings_fits_into_an_annotation() -> None:
    checks = [(f"check {number}", "BAD", "ü" * 9000) for number in range(1000)]
    answer = VerificationAnswer(request="r", checks=checks)

    assert len(answer.encode().encode()) < 256 * 1024
    assert VerificationAnswer.decode(answer.encode()) is not None


def _backup(name: str, phase: str, began: str | None, **metadata: Any) -> JSONObject:
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "status": {"phase": phase, "startTimestamp": began},
    }


def test_a_backup_that_is_being_deleted_or_cannot_be_read_is_not_the_newest() -> None:
    found = newest_finished(
        [
            _backup("b1", "PartiallyFailed", "2026-01-01T00:00:00Z"),
            _backup("b2", "Completed", "2026-01-02T00:00:00Z", deletionTimestamp="2026-01-03T00:00:00Z"),
            _backup("b3", "Deleting", "2026-01-03T00:00:00Z"),
            _backup("b4", "Completed", "not a time"),
        ]
    )
    assert found is not None
    assert found.metadata.name == "b1"
    assert newest_finished([]) is None


@pytest.mark.parametrize("note", ["", "yesterday sound", "2026-13-01T00:00:00Z sound"])
def test_a_note_without_a_time_counts_as_none(note: str) -> None:
    schedule = {"metadata": {"annotations": {labels.LAST_VERIFICATION: note}}}
    assert last_verification(schedule) == (None, "")


def test_what_is_bad_comes_first_and_the_text_has_an_end() -> None:
    findings = [
        Check(name="a", result=CheckResult.NOT_CHECKED, details="x" * 9000),
        Check(name="b", result=CheckResult.OK),
        Check(name="c", result=CheckResult.BAD, details="gone"),
    ]
    text = summary_of(findings)
    assert text.startswith("c: BAD: gone; a: not checked: xxx")
    assert len(text) < 5000
