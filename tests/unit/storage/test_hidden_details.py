"""Metadata of encrypted backups whose details are hidden: what is plain, and who reads the rest."""

import gzip
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from pinnace.age.identities import Identities
from pinnace.age.recipients import parse_recipients
from pinnace.age.x25519 import X25519Identity
from pinnace.api.codec import encode
from pinnace.api.labels import (
    CHOSEN_OBJECTS,
    ENCRYPTED,
    HIDDEN_DETAILS,
    HOLD,
    SCHEDULE_NAME,
    SOURCE_CLUSTER_UID,
)
from pinnace.api.meta import ObjectMeta
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup, BackupProgress, BackupSpec, BackupStatus
from pinnace.controllers.sync.synced import SyncedLocation, backup_object
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_files import BackupFiles, FinalFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.hidden_details import without_details
from pinnace.storage.key_errors import EncryptionBroken
from pinnace.storage.layout import Layout
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store
from pinnace.storage.own_settings import Signatures

ALICE = X25519Identity.generate()
TIME = datetime(2026, 5, 4, tzinfo=UTC)
BACKUP = Backup(
    metadata=ObjectMeta(
        name="b1",
        namespace="velero",
        uid="an-uid",
        labels={SCHEDULE_NAME: "secret-schedule"},
        annotations={CHOSEN_OBJECTS: "secret-object", HOLD: "kept", SOURCE_CLUSTER_UID: "cluster"},
    ),
    spec=BackupSpec(
        included_namespaces=["secret-namespace"],
        storage_location="default",
        ttl=Duration.hours(24),
    ),
    status=BackupStatus(
        phase="PartiallyFailed",
        failure_reason="secret-reason",
        expiration=TIME,
        start_timestamp=TIME,
        completion_timestamp=TIME,
        errors=4711,
        warnings=4712,
        progress=BackupProgress(total_items=4713, items_backed_up=4713),
    ),
)


def opened(
    folder: Path, *, writes: bool = False, identity: X25519Identity | None = None, hides: bool = True
) -> BackupStore:
    encryption = Encryption(
        recipients=parse_recipients(str(ALICE.recipient)) if writes else (),
        identities=Identities.parse(identity.secret_text().encode()) if identity else None,
        hides_details=writes and hides,
    )
    return BackupStore(FilesystemStore(folder), Layout(""), location="default").encrypted(encryption)


async def back_up(store: BackupStore, folder: Path) -> None:
    log = folder.parent / "log"
    log.write_bytes(gzip.compress(b"the log"))
    await store.put_backup(BackupFiles(name="b1", metadata=encode_metadata(BACKUP), contents=log, log=log))


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    folder = tmp_path / "bucket"
    folder.mkdir()
    return folder


def files_of(bucket: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in bucket.rglob("*") if path.is_file()}


def metadata_path(bucket: Path) -> Path:
    return bucket / "backups" / "b1" / "velero-backup.json"


async def test_what_stays_plain_is_what_lists_and_deletions_need(bucket: Path) -> None:
    await back_up(opened(bucket, writes=True), bucket)
    public = await opened(bucket).read_backup("b1")
    assert encode(public) == {
        "kind": "Backup",
        "apiVersion": "velero.io/v1",
        "metadata": {
            "name": "b1",
            "namespace": "velero",
            "uid": "an-uid",
            "annotations": {
                ENCRYPTED: "true",
                HIDDEN_DETAILS: "true",
                HOLD: "kept",
                SOURCE_CLUSTER_UID: "cluster",
            },
        },
        "spec": encode(BackupSpec(storage_location="default", ttl=Duration.hours(24))),
        "status": encode(
            BackupStatus(
                phase="PartiallyFailed",
                failure_reason="the reason is in the encrypted details of the backup",
                expiration=TIME,
                start_timestamp=TIME,
                completion_timestamp=TIME,
            )
        ),
    }
    assert not any(b"secret-" in data for data in files_of(bucket).values())
    assert b"471" not in metadata_path(bucket).read_bytes()


async def test_the_identity_reads_all_and_another_one_the_plain_part(bucket: Path) -> None:
    await back_up(opened(bucket, writes=True), bucket)
    full = await opened(bucket, identity=ALICE).read_backup("b1")
    assert full.metadata.annotations == {**BACKUP.metadata.annotations, ENCRYPTED: "true"}
    assert (full.metadata.labels, full.spec, full.status) == (
        BACKUP.metadata.labels,
        BACKUP.spec,
        BACKUP.status,
    )
    other = await opened(bucket, identity=X25519Identity.generate()).read_backup("b1")
    assert other == await opened(bucket).read_backup("b1")


async def test_the_signed_list_of_files_has_no_counts(bucket: Path) -> None:
    signer = Ed25519Signer.generate()
    store = opened(bucket, writes=True).signed(Signatures(key=signer, trusted=(signer.public,)))
    await back_up(store, bucket)
    envelope = (bucket / "backups/b1/b1-pinnace-manifest.json").read_bytes()
    manifest = await store.manifest("b1")
    assert manifest is not None
    assert "b1-pinnace-details.json.gz" in manifest.files
    assert b"471" not in envelope
    assert (await opened(bucket, identity=ALICE).read_backup("b1")).status.errors == 4711


@pytest.mark.parametrize("change", ["details gone", "details of another", "metadata changed"])
async def test_what_somebody_has_exchanged_is_found(bucket: Path, change: str) -> None:
    await back_up(opened(bucket, writes=True), bucket)
    details = bucket / "backups/b1/b1-pinnace-details.json.gz"
    if change == "details gone":
        details.unlink()
    elif change == "details of another":
        details.write_bytes((bucket / "backups/b1/b1.tar.gz").read_bytes())
    else:
        path = metadata_path(bucket)
        path.write_bytes(path.read_bytes().replace(b"PartiallyFailed", b"Completed"))
    with pytest.raises(EncryptionBroken, match=r"details of the backup are gone|somebody has changed"):
        await opened(bucket, identity=ALICE).read_backup("b1")


@pytest.mark.parametrize("hides", [True, False])
async def test_a_backup_that_waited_for_operations_hides_its_details_too(bucket: Path, hides: bool) -> None:
    store = opened(bucket, writes=True, hides=hides)
    await back_up(store.parked(), bucket)
    folder = bucket.parent / "folder"
    folder.mkdir()
    await store.finish_backup(FinalFiles(), BACKUP, folder)
    public = orjson.loads(metadata_path(bucket).read_bytes())
    assert (HIDDEN_DETAILS in public["metadata"]["annotations"]) is hides
    assert ("labels" not in public["metadata"]) is hides
    found = await opened(bucket, identity=ALICE).read_backup("b1")
    assert (found.spec, found.status) == (BACKUP.spec, BACKUP.status)
    assert ("b1-pinnace-details.json.gz" in files_of(bucket)) is hides


def test_the_plain_part_of_the_plain_part_is_itself() -> None:
    once = without_details(encode_metadata(BACKUP))
    assert without_details(once) == once


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("encryption.hideDetails=true", "hides nothing in plain backups"),
        ("encryption.hideDetails=1x", "true or"),
    ],
)
def test_a_setting_that_hides_nothing_is_refused(tmp_path: Path, query: str, text: str) -> None:
    with pytest.raises(StoreConfigError, match=text):
        open_backup_store(location_from_url(f"file://{tmp_path}?{query}"))


def test_servers_list_the_plain_part() -> None:
    found_in = SyncedLocation(name="default", namespace="velero", schedule_uid=lambda _: "")
    body = orjson.loads(
        backup_object(without_details(encode_metadata(BACKUP)), name="b1", found_in=found_in, now=TIME)
    )
    assert body["status"]["phase"] == "PartiallyFailed"
    assert body["metadata"]["annotations"][HIDDEN_DETAILS] == "true"
    assert b"secret-" not in orjson.dumps(body)
