"""Holds and key files that come after a backup was signed: signed by themselves, and no tampering."""

import json
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from pinnace.age.identities import Identities
from pinnace.age.recipients import parse_recipients
from pinnace.age.x25519 import X25519Identity
from pinnace.api.meta import ObjectMeta
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.operations.verification.signatures import signature_checks
from pinnace.signing.errors import BadEnvelope
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption
from pinnace.storage.errors import BackupHeld, StoreConfigError
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.holds import UNTRUSTED, Hold
from pinnace.storage.layout import Layout
from pinnace.storage.own_settings import Signatures
from pinnace.storage.signed_beside import check_signed_keys, keys_payload

KEY = Ed25519Signer.generate()
SIGNING = Signatures(key=KEY, trusted=(KEY.public,), required=True)
REQUIRED, TRUSTED = (Signatures(trusted=(KEY.public,), required=required) for required in (True, False))
PLAIN = Signatures()
NOW = datetime(2026, 11, 28, 6, 0, tzinfo=UTC)
IDENTITY = X25519Identity.generate()
AUDIT = Hold.at(NOW, held=True, reason="the audit of 2026 \u2713")
RELEASE = Hold.at(NOW, held=False)


class Place:
    """A location with the signed and encrypted backups `b1` and `b2`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def opened(self, signatures: Signatures) -> BackupStore:
        encryption = Encryption(
            recipients=parse_recipients(str(IDENTITY.recipient)),
            identities=Identities.parse(IDENTITY.secret_text().encode()),
        )
        store = FilesystemStore(self.folder / "store")
        return BackupStore(store, Layout(""), location="main").signed(signatures).encrypted(encryption)

    async def put(self, name: str) -> None:
        status = BackupStatus(phase=BackupPhase.COMPLETED, start_timestamp=NOW)
        metadata = encode_metadata(Backup(metadata=ObjectMeta(name=name, namespace="velero"), status=status))
        tarball = self.folder / "tarball"
        tarball.write_bytes(b"tarball")
        await self.opened(SIGNING).put_backup(BackupFiles(name=name, metadata=metadata, contents=tarball))

    def file(self, name: str) -> Path:
        return self.folder / "store/backups" / name[:2] / name

    async def signature(self, signatures: Signatures = REQUIRED, name: str = "b1") -> tuple[str, str]:
        [found, *_] = await signature_checks(self.opened(signatures), name)
        return str(found.result), found.details


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    for name in ("b1", "b2"):
        await found.put(name)
    return found


async def test_a_hold_and_a_new_key_file_are_no_tampering(place: Place) -> None:
    store = place.opened(SIGNING)
    await store.put_hold("b1", AUDIT)
    assert await store.rekey("b1")

    assert (await place.signature())[0] == "ok"
    for signatures in (REQUIRED, TRUSTED, PLAIN):
        assert await place.opened(signatures).read_hold("b1") == AUDIT
    await place.opened(PLAIN).download_contents("b1", place.folder / "downloaded")  # opened by the newest
    with pytest.raises(BackupHeld, match="the audit of 2026"):
        await place.opened(SIGNING).delete_backup("b1")

    await store.put_hold("b1", RELEASE)
    assert (await place.signature())[0] == "ok"
    await place.opened(SIGNING).delete_backup("b1")


@pytest.mark.parametrize(("signatures", "believed"), [(REQUIRED, False), (TRUSTED, True), (PLAIN, True)])
async def test_what_nobody_has_signed_holds_and_releases_nothing_where_signatures_are_required(
    place: Place, signatures: Signatures, believed: bool
) -> None:
    unsigned = place.opened(PLAIN)
    await unsigned.put_hold("b1", AUDIT)
    assert await place.opened(signatures).read_hold("b1") == AUDIT
    await unsigned.put_hold("b1", RELEASE)

    expected = RELEASE if believed else Hold(held=True, reason=UNTRUSTED)
    assert await place.opened(signatures).read_hold("b1") == expected
    if signatures.trusted:
        result, details = await place.signature(signatures)
        assert (result == "ok", "nobody has signed it" in details) == (believed, not believed)


async def test_without_the_key_no_key_file_and_no_release_are_written_where_signatures_are_required(
    place: Place,
) -> None:
    store = place.opened(REQUIRED)
    with pytest.raises(StoreConfigError, match=r"key files cannot be written.*requireSignature"):
        await store.rekey("b1")
    await store.put_hold("b1", AUDIT)
    with pytest.raises(StoreConfigError, match="the release of backup b1 cannot be written"):
        await store.put_hold("b1", RELEASE)

    assert not place.file("b1-pinnace-keys.2.json").exists()
    assert await store.read_hold("b1") == AUDIT


async def test_the_advice_about_an_unsigned_key_file_makes_the_backup_sound(
    place: Place,
) -> None:
    await place.opened(PLAIN).rekey("b1")
    result, details = await place.signature()
    assert (result, "delete it. Where its recipients are yours" in details) == ("BAD", True)

    await place.opened(SIGNING).rekey("b1")
    assert (await place.signature())[0] == "BAD"
    place.file("b1-pinnace-keys.2.json").unlink()

    assert (await place.signature())[0] == "ok"
    await place.opened(PLAIN).download_contents("b1", place.folder / "downloaded")


@pytest.mark.parametrize("attack", ["another key", "another backup", "changed"])
async def test_a_release_that_was_not_signed_for_this_backup_releases_nothing(
    place: Place, attack: str
) -> None:
    thief = Ed25519Signer.generate()
    if attack == "another key":
        mine = Signatures(key=thief, trusted=(thief.public, KEY.public))
        await place.opened(mine).put_hold("b1", RELEASE)
    elif attack == "another backup":
        await place.opened(SIGNING).put_hold("b2", RELEASE)
        data = place.file("b2-pinnace-hold.json").read_bytes()
        place.file("b1-pinnace-hold.json").write_bytes(data)
    else:
        await place.opened(SIGNING).put_hold("b1", AUDIT)
        envelope = json.loads(place.file("b1-pinnace-hold.json").read_bytes())
        payload = b64decode(envelope["payload"]).replace(b'"held":true', b'"held":false')
        envelope["payload"] = b64encode(payload).decode()
        place.file("b1-pinnace-hold.json").write_bytes(orjson.dumps(envelope))

    for signatures in (REQUIRED, TRUSTED):
        assert await place.opened(signatures).read_hold("b1") == Hold(held=True, reason=UNTRUSTED)
        result, details = await place.signature(signatures)
        assert result == "BAD"
        assert "b1-pinnace-hold.json" in details


@pytest.mark.parametrize("attack", ["nobody", "another key", "another backup", "changed"])
async def test_a_key_file_that_was_not_signed_for_this_backup_is_named(place: Place, attack: str) -> None:
    thief = Ed25519Signer.generate()
    mine = Signatures(key=thief, trusted=(thief.public, KEY.public))
    maker = {"nobody": PLAIN, "another key": mine}.get(attack, SIGNING)
    await place.opened(maker).rekey("b1")
    added = place.file("b1-pinnace-keys.2.json")
    if attack == "another backup":
        await place.opened(SIGNING).rekey("b2")
        added.write_bytes(place.file("b2-pinnace-keys.2.json").read_bytes())
    elif attack == "changed":
        document = json.loads(added.read_bytes())
        added.write_bytes(orjson.dumps({**document, "age": document["age"][:-4] + "AAAA"}))

    result, details = await place.signature()

    assert (result, "b1-pinnace-keys.2.json: " in details) == ("BAD", True)
    # Where signatures are not required, a key file that claims none is one of an older version.
    assert (await place.signature(TRUSTED))[0] == ("ok" if attack == "nobody" else "BAD")


async def test_a_backup_that_was_changed_can_be_held_and_not_released(place: Place) -> None:
    metadata = place.file("b1-pinnace-hold.json").parent / "velero-backup.json"
    metadata.write_bytes(metadata.read_bytes() + b" ")
    store = place.opened(SIGNING)

    await store.put_hold("b1", AUDIT)

    assert await store.read_hold("b1") == AUDIT


@pytest.mark.parametrize(
    "member",
    [
        b'"signature":{"a":123456789012345678901234567890}',
        b'"signature":"\\ud800"',
    ],
)
def test_values_that_cannot_be_encoded_again_are_a_bad_key_file(member: bytes) -> None:
    with pytest.raises(BadEnvelope):
        check_signed_keys(b'{"version":1,' + member + b"}", [], "b1", b"{}")
    with pytest.raises(BadEnvelope):
        keys_payload(b'{"version":123456789012345678901234567890}', "b1", b"{}")
