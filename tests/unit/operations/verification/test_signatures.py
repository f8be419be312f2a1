"""What a verification says about the signature of a backup, and of those that have vanished."""

import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from pinnace.age.identities import Identities
from pinnace.age.recipients import parse_recipients
from pinnace.age.x25519 import X25519Identity
from pinnace.api.meta import ObjectMeta
from pinnace.api.phases import BackupPhase
from pinnace.api.retention.removal import RemovalReason
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.operations.verification.signatures import signature_checks
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.checked_files import SignatureRefused
from pinnace.storage.encryption import Encryption
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from pinnace.storage.newest import Link
from pinnace.storage.own_settings import Signatures

KEY = Ed25519Signer.generate()
SIGNING, READING = Signatures(key=KEY, trusted=(KEY.public,)), Signatures(trusted=(KEY.public,))


class Place:
    """A location, and the folder behind it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.backups = folder / "store/backups"

    def opened(self, signatures: Signatures = READING) -> BackupStore:
        store = FilesystemStore(self.folder / "store")
        return BackupStore(store, Layout(""), location="main").signed(signatures)

    async def put(self, *names: str, signatures: Signatures = SIGNING) -> None:
        (self.folder / "tarball").write_bytes(b"tarball")
        for name in names:
            status = BackupStatus(phase=BackupPhase.COMPLETED, expiration=datetime(2020, 1, 1, tzinfo=UTC))
            backup = Backup(metadata=ObjectMeta(name=name, namespace="velero"), status=status)
            metadata = encode_metadata(backup)
            files = BackupFiles(name=name, metadata=metadata, contents=self.folder / "tarball")
            await self.opened(signatures).put_backup(files)

    async def found(self, name: str, signatures: Signatures = READING) -> dict[str, tuple[str, str]]:
        checks = await signature_checks(self.opened(signatures), name)
        return {check.name: (str(check.result), check.details) for check in checks}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_a_signed_backup_is_ok_and_says_by_whom(place: Place) -> None:
    await place.put("b1", "b2")

    assert await place.found("b2") == {
        "signature": ("ok", f"7 files signed by {KEY.public.id[:16]}"),
        "signed backups": ("ok", "2 links of the chain"),
    }


async def test_an_unsigned_backup_is_not_bad_and_one_by_a_key_that_is_not_trusted_is(place: Place) -> None:
    await place.put("plain", signatures=Signatures())
    await place.put("signed")
    other = Signatures(trusted=(Ed25519Signer.generate().public,))

    assert (await place.found("plain"))["signature"] == ("missing", "unsigned")
    assert await place.found("plain", Signatures()) == {}
    assert (await place.found("signed", Signatures()))["signature"][0] == "not checked"
    assert (await place.found("signed", other))["signature"][0] == "BAD"
    required = Signatures(trusted=(KEY.public,), required=True)
    assert (await place.found("plain", required))["signature"][0] == "BAD"


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (
            lambda b: _flip(b / "b1/b1-resource-list.json.gz"),
            ["b1-resource-list.json.gz", "not what was signed"],
        ),
        (lambda b: _flip(b / "b1/velero-backup.json"), ["velero-backup.json", "not what was signed"]),
        (lambda b: (b / "b1/b1-volumesnapshots.json.gz").unlink(), ["b1-volumesnapshots.json.gz", "removed"]),
        (lambda b: (b / "b1/b1.tar.gz").unlink(), ["b1.tar.gz", "removed"]),
        (lambda b: (b / "b1/extra").write_bytes(b""), ["extra", "added"]),
        (
            lambda b: shutil.copy(b / "b2/velero-backup.json", b / "b1/velero-backup.json"),
            ["velero-backup.json", "of another backup"],
        ),
        (
            lambda b: shutil.copy(b / "b2/b2-pinnace-manifest.json", b / "b1/b1-pinnace-manifest.json"),
            ["manifest of another backup, 'b2'"],
        ),
    ],
    ids=["altered", "metadata", "removed", "tarball", "added", "swapped", "manifest-swapped"],
)
async def test_what_was_done_to_a_backup_is_named(
    place: Place, attack: Callable[[Path], object], said: list[str]
) -> None:
    await place.put("b1", "b2")

    attack(place.backups)

    result, details = (await place.found("b1"))["signature"]
    assert result == "BAD"
    for part in said:
        assert part in details


async def test_a_signed_backup_that_vanished_is_named_by_its_successor_and_by_the_note_of_the_newest(
    place: Place,
) -> None:
    await place.put("b1", "b2", "b3")
    shutil.rmtree(place.backups / "b1")
    shutil.rmtree(place.backups / "b3")

    assert [link.backup for link in await place.opened().vanished()] == ["b3"]
    _, details = (await place.found("b2"))["signed backups"]
    assert "signed backup b1 has vanished" in details
    assert "signed backup b3 has vanished" in details


async def test_the_newest_is_missed_by_the_note_outside_of_the_location(place: Place) -> None:
    await place.put("b1")
    noted = place.folder / "store/metadata" / f"pinnace-newest-{KEY.public.id}.json"
    before = noted.read_bytes()
    await place.put("b2")
    digest = sha256((place.backups / "b2/b2-pinnace-manifest.json").read_bytes()).hexdigest()
    shutil.rmtree(place.backups / "b2")
    noted.write_bytes(before)  # whoever removes it can write this too

    class Outside:
        links = (Link("b2", digest),)

        async def note(self, added: Link, replaced: object) -> None:
            raise AssertionError("nothing is signed")

    assert (await place.found("b1"))["signed backups"][0] == "ok"
    result, details = (await place.found("b1", Signatures(trusted=(KEY.public,), outside=Outside())))[
        "signed backups"
    ]
    assert (result, "signed backup b2 has vanished" in details) == ("BAD", True)


async def test_a_backup_that_somebody_with_the_key_removed_has_not_vanished(place: Place) -> None:
    await place.put("b1", "b2", "b3")
    await place.opened(SIGNING).delete_backup("b1", reason=RemovalReason.RULE)
    await place.opened(SIGNING).delete_backup("b3")

    result, details = (await place.found("b2"))["signed backups"]
    assert (result, details.partition("; ")[0]) == ("ok", "3 links of the chain")
    assert re.search(r"b1 was removed at \S+ \(rule\)", details)
    assert re.search(r"b3 was removed at \S+ \(request\)", details)
    notes = list((place.folder / "store/metadata/pinnace-removed").iterdir())
    assert len(notes) == 2


async def test_a_note_of_removal_by_somebody_else_is_none(place: Place) -> None:
    await place.put("b1", "b2")
    thief = Ed25519Signer.generate()
    await place.opened(Signatures(key=thief, trusted=(thief.public, KEY.public))).delete_backup("b1")

    assert "b1 has vanished" in (await place.found("b2"))["signed backups"][1]


async def test_an_old_copy_that_was_put_back_after_its_removal_is_named(place: Place) -> None:
    await place.put("b1")
    shutil.copytree(place.backups / "b1", place.folder / "old")
    await place.opened(SIGNING).delete_backup("b1", reason=RemovalReason.EXPIRY)
    await place.put("b1")
    shutil.rmtree(place.backups / "b1")
    shutil.copytree(place.folder / "old", place.backups / "b1")

    found = await place.found("b1")
    assert found["signature"][0] == "ok"  # every byte of it was signed once
    assert "old copy" in found["signed backups"][1]
    assert "(expiry)" in found["signed backups"][1]
    assert "in the place of signed backup b1" in found["signed backups"][1]


@pytest.mark.parametrize("suffix", [".tar.gz", "-pinnace-keys.json", "-resource-list.json.gz"])
async def test_an_encrypted_backup_is_verified_without_its_key_and_before_it_is_decrypted(
    place: Place, suffix: str
) -> None:
    identity = X25519Identity.generate()
    recipients = parse_recipients(str(identity.recipient))
    writing = place.opened(SIGNING).encrypted(Encryption(recipients=recipients))
    (place.folder / "tarball").write_bytes(b"tarball")
    status = BackupStatus(phase=BackupPhase.COMPLETED)
    metadata = encode_metadata(Backup(metadata=ObjectMeta(name="b1", namespace="velero"), status=status))
    files = BackupFiles(name="b1", metadata=metadata, contents=place.folder / "tarball")
    await writing.put_backup(files)
    assert (await place.found("b1"))["signature"][0] == "ok"
    keys = Identities.parse(identity.secret_text().encode())
    reading = place.opened().encrypted(Encryption(identities=keys))
    await reading.download_contents("b1", place.folder / "downloaded")
    assert (place.folder / "downloaded").read_bytes() == b"tarball"

    shutil.copy(place.backups / "b1/b1-pinnace-keys.json", place.backups / "b1/b1-pinnace-keys.2.json")
    assert (await place.found("b1"))["signature"][0] == "ok"  # of another recipient, added later
    _flip(place.backups / f"b1/b1{suffix}")
    reading = place.opened().encrypted(Encryption(identities=keys))

    async def read() -> None:
        await reading.read_resource_list("b1")
        await reading.download_contents("b1", place.folder / "again")

    if suffix == "-pinnace-keys.json":  # the later key file opens it, and what it opens is as it was signed
        await read()
        assert suffix in (await place.found("b1"))["signature"][1]
        return
    with pytest.raises(SignatureRefused, match="not what was signed") as caught:
        await read()
    assert caught.value.key.endswith(suffix)
