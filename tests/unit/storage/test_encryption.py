"""Encrypted backups in a location: what is plain, who opens what, and what an attacker may exchange."""

import asyncio
import gzip
import os
import tracemalloc
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import _AsyncGeneratorContextManager
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
import pyrage
import pytest

from pinnace.age.header import Stanza, write_header
from pinnace.age.identities import Identities
from pinnace.age.plugins import NobodyToAsk
from pinnace.age.recipients import parse_recipients
from pinnace.age.sizes import CHUNK_BYTES
from pinnace.age.x25519 import X25519Identity
from pinnace.api.meta import ObjectMeta
from pinnace.api.nonadmin.names import Origin
from pinnace.api.velero.backup import Backup
from pinnace.kms import wrapping
from pinnace.kms.access import KMSAccess
from pinnace.kms.errors import KMSError, KMSRefused
from pinnace.kms.uris import KMSKey, parse_key
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_files import BackupFiles, FinalFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.checked_files import SignatureRefused
from pinnace.storage.encryption import Encryption, key_file
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.key_errors import AgePluginFailed, EncryptionBroken, IdentityMissing, IdentityRefused
from pinnace.storage.layout import Layout
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store
from pinnace.storage.own_settings import Signatures
from tests.support.age.plugin_program import identity_of, install_plugin, recipient_of

ALICE, BOB = X25519Identity.generate(), X25519Identity.generate()
KEY_FILES = {
    name: asyncio.run(key_file(X25519Identity.generate(), name, parse_recipients(str(ALICE.recipient))))
    for name in ("b1", "b2")
}
"""Of keys that no file has."""
CONTENTS = bytes(number % 251 for number in range(3 * CHUNK_BYTES + 77))


def identities(*keys: X25519Identity) -> Identities:
    return Identities.parse("\n".join(key.secret_text() for key in keys).encode())


class Counted(FilesystemStore):
    """Notes its requests that read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.requests: list[str] = []

    def get_range(
        self, key: str, offset: int, length: int
    ) -> "_AsyncGeneratorContextManager[AsyncIterator[bytes], None]":
        self.requests.append("range")
        return super().get_range(key, offset, length)

    def get(self, key: str) -> "_AsyncGeneratorContextManager[AsyncIterator[bytes], None]":
        self.requests.append("get")
        return super().get(key)

    async def size(self, key: str) -> int:
        self.requests.append("size")
        return await super().size(key)

    async def exists(self, key: str) -> bool:
        self.requests.append("exists")
        return await super().exists(key)

    async def list_keys(self, prefix: str) -> list[str]:
        self.requests.append("list")
        return await super().list_keys(prefix)


class Place:
    """A location in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bucket").mkdir()
        self.store = self._store()
        self.kms_keys: tuple[KMSKey, ...] = ()

    def _store(self) -> Counted:
        return Counted(self.folder / "bucket")

    def open(
        self, *, recipients: str = "", keys: Identities | None = None, layout: Layout | None = None
    ) -> BackupStore:
        self.store = self._store()
        return BackupStore(
            self.store,
            layout or Layout(""),
            location="default",
        ).encrypted(
            Encryption(
                recipients=parse_recipients(recipients) if recipients else (),
                kms_keys=self.kms_keys,
                identities=keys,
                kms_access=KMSAccess,
            )
        )

    async def back_up(
        self,
        name: str,
        recipients: str = f"{ALICE.recipient} {BOB.recipient}",
        signatures: Signatures | None = None,
    ) -> BackupStore:
        store = self.open(recipients=recipients).signed(signatures or Signatures())
        (self.folder / "log").write_bytes(gzip.compress(b"the log"))
        (self.folder / "contents").write_bytes(CONTENTS)
        files = BackupFiles(
            name=name,
            metadata=encode_metadata(Backup(metadata=ObjectMeta(name=name))),
            contents=self.folder / "contents",
            index=self.folder / "log",
            log=self.folder / "log",
            resource_list={"v1/ConfigMap": ["app/secret-name"]},
            results={"errors": {}, "warnings": {}},
        )
        await store.put_backup(files)
        return store

    def path(self, name: str, suffix: str) -> Path:
        return self.folder / "bucket" / "backups" / name / f"{name}{suffix}"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def contents(store: BackupStore, name: str = "b1") -> bytes:
    async with store.read_bytes("BackupContents", name) as stream:
        return b"".join([block async for block in stream])


async def part(store: BackupStore, offset: int, length: int) -> bytes:
    async with store.read_range("BackupContents", "b1", offset, length) as stream:
        return b"".join([block async for block in stream])


async def required(store: BackupStore) -> None:
    await store.require_key(await store.read_backup("b1"))


async def test_all_but_metadata_and_key_is_encrypted_and_each_recipient_opens_it(place: Place) -> None:
    writing = await place.back_up("b1")
    files = {path.name: path.read_bytes() for path in place.path("b1", "").parent.iterdir()}
    plain = {name for name, data in files.items() if not data.startswith(b"age-encryption.org/v1\n")}
    assert plain == {"velero-backup.json", "b1-pinnace-keys.json"}
    assert not any(b"secret-name" in data for data in files.values())
    assert await contents(writing) == CONTENTS  # while the run has the key, such as to wait for operations
    for identity in (ALICE, BOB):
        store = place.open(keys=identities(identity))
        assert await contents(store) == CONTENTS
        assert await store.read_resource_list("b1") == {"v1/ConfigMap": ["app/secret-name"]}
        assert await store.contents_size("b1") == len(CONTENTS)
        async with store.read_text("BackupLog", "b1") as log:
            assert b"".join([block async for block in log]) == b"the log"
    assert await place.open().contents_size("b1") == len(CONTENTS)


async def test_files_open_without_this_program(place: Place) -> None:
    """By `jq -r .age | base64 -d | age -d -i key` and `age -d`, here by another implementation of age."""
    await place.back_up("b1")
    wrapped = b64decode(orjson.loads(place.path("b1", "-pinnace-keys.json").read_bytes())["age"])
    key = pyrage.decrypt(wrapped, [pyrage.x25519.Identity.from_str(ALICE.secret_text())]).decode()
    own = pyrage.x25519.Identity.from_str(key.splitlines()[1])
    assert pyrage.decrypt(place.path("b1", ".tar.gz").read_bytes(), [own]) == CONTENTS


@pytest.mark.parametrize(
    ("keys", "error"), [(None, IdentityMissing), (identities(X25519Identity.generate()), IdentityRefused)]
)
async def test_without_the_right_identity_there_is_one_error(
    place: Place, keys: Identities | None, error: type[Exception]
) -> None:
    await place.back_up("b1")
    store = place.open(keys=keys)
    for reading in (contents(store), store.read_resource_list("b1"), required(store)):
        with pytest.raises(error):
            await reading
    if keys is None:
        await store.share_key("r1", "b1")
    else:
        with pytest.raises(error):
            await store.share_key("r1", "b1")
    assert not (place.folder / "bucket" / "restores").exists()
    assert (await store.read_backup("b1")).metadata.annotations == {"pinnace.io/encrypted": "true"}


async def test_two_backups_have_two_keys(place: Place) -> None:
    await place.back_up("b1")
    await place.back_up("b2")
    place.path("b1", ".tar.gz").write_bytes(place.path("b2", ".tar.gz").read_bytes())
    with pytest.raises(EncryptionBroken, match="encrypted to another key"):
        await contents(place.open(keys=identities(ALICE)))


def of_somebody_else(data: bytes) -> bytes:
    return bytes(pyrage.encrypt(b"x", [pyrage.x25519.Identity.generate().to_public()]))


def other_key(data: bytes) -> bytes:
    return KEY_FILES["b1"]


def key_of_other_backup(data: bytes) -> bytes:
    return KEY_FILES["b2"]


def scrypt(data: bytes) -> bytes:
    wrapped = write_header([Stanza(("scrypt", "A" * 22, "24"), bytes(32))], bytes(16)) + bytes(32)
    return orjson.dumps({"version": 1, "age": b64encode(wrapped).decode()})


@pytest.mark.parametrize(
    ("suffix", "change", "text"),
    [
        (".tar.gz", lambda data: data[:-1], "cut off"),
        (".tar.gz", lambda data: data[: 184 + 65552], "cut off"),
        (".tar.gz", lambda data: data[:100], "cut off"),
        (".tar.gz", lambda data: CONTENTS, "not encrypted though its backup is"),
        (
            ".tar.gz",
            lambda data: pyrage.encrypt(b"x", [pyrage.x25519.Identity.generate().to_public()]),
            "another",
        ),
        ("-pinnace-keys.json", other_key, "encrypted to another key"),
        ("-pinnace-keys.json", key_of_other_backup, "key file of another backup"),
        ("-pinnace-keys.json", lambda data: b"{}", "no key file"),
        ("-pinnace-keys.json", lambda data: b"[" * 1000, "no key file"),
        ("-pinnace-keys.json", lambda data: b"x" * 500_000, "larger than|more than"),
        ("-pinnace-keys.json", scrypt, "passphrase"),
        ("-pinnace-keys.json", lambda data: None, "key file 'backups/b1/b1-pinnace-keys.json' is gone"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_an_attacker_exchanges_is_found(place: Place, suffix: str, change: Any, text: str) -> None:
    await place.back_up("b1")
    path = place.path("b1", suffix)
    if (changed := change(path.read_bytes())) is None:
        path.unlink()
    else:
        path.write_bytes(changed)
    with pytest.raises(EncryptionBroken, match=text):
        await contents(place.open(keys=identities(ALICE)))


async def test_a_copied_backup_does_not_pass_for_one_of_another_name(place: Place) -> None:
    await place.back_up("b1")
    directory = place.path("b2", "").parent
    directory.mkdir()
    for path in place.path("b1", "").parent.iterdir():
        (directory / path.name.replace("b1", "b2")).write_bytes(path.read_bytes())
    with pytest.raises(EncryptionBroken, match="key file of another backup"):
        await contents(place.open(keys=identities(ALICE)), "b2")


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 1), (0, len(CONTENTS)), (CHUNK_BYTES - 1, 2), (CHUNK_BYTES, CHUNK_BYTES), (len(CONTENTS) - 5, 100)],
)
async def test_a_range_costs_two_requests_more_once(place: Place, offset: int, length: int) -> None:
    await place.back_up("b1")
    store = place.open(keys=identities(ALICE))
    assert await part(store, offset, length) == CONTENTS[offset : offset + length]
    reads_end = offset + length > 3 * CHUNK_BYTES
    ranges = ["range"] * (2 if reads_end else 3)
    assert sorted(place.store.requests) == ["get", "list", *ranges, "size"]
    place.store.requests.clear()
    assert await part(store, offset, length) == CONTENTS[offset : offset + length]
    assert place.store.requests == ["range"]


async def test_requests_for_the_key_and_the_file_are_made_at_once(place: Place) -> None:
    await place.back_up("b1")
    store = place.open(keys=identities(ALICE))
    begun, list_keys, size = asyncio.Barrier(2), place.store.list_keys, place.store.size

    async def slow_list(prefix: str) -> list[str]:
        await begun.wait()
        return await list_keys(prefix)

    async def slow_size(key: str) -> int:
        await begun.wait()
        return await size(key)

    with (
        patch.object(place.store, "list_keys", slow_list),
        patch.object(place.store, "size", slow_size),
    ):
        async with asyncio.timeout(10):
            assert await part(store, 5, 5) == CONTENTS[5:10]


async def test_a_plain_location_without_identities_is_asked_for_nothing_more(place: Place) -> None:
    await place.back_up("b1", recipients="")
    store = place.open()
    backup = await store.read_backup("b1")
    place.store.requests.clear()
    await store.require_key(backup)
    await store.share_key("r1", "b1")
    assert place.store.requests == []
    assert await contents(store) == CONTENTS
    assert await part(store, 5, 5) == CONTENTS[5:10]
    assert place.store.requests == ["get", "range"]


async def test_an_encrypted_backup_without_its_mark_is_refused_where_it_is_read(place: Place) -> None:
    await place.back_up("b1")
    metadata = place.path("b1", "").with_name("velero-backup.json")
    metadata.write_bytes(metadata.read_bytes().replace(b"pinnace.io/encrypted", b"pinnace.io/something"))
    store = place.open()
    await required(store)
    await store.share_key("r1", "b1")
    with pytest.raises(IdentityMissing):
        await contents(store)


async def test_the_key_of_a_restored_backup_is_looked_for_once(place: Place) -> None:
    await place.back_up("b1")
    store = place.open(keys=identities(ALICE))
    await required(store)
    await store.share_key("r1", "b1")
    assert await contents(store) == CONTENTS
    assert place.store.requests.count("list") == 1


async def test_a_range_of_a_file_whose_key_file_is_gone_is_no_content(place: Place) -> None:
    await place.back_up("b1")
    place.path("b1", "-pinnace-keys.json").unlink()
    with pytest.raises(EncryptionBroken, match=r"key file .* is gone"):
        await part(place.open(keys=identities(ALICE)), 0, 10)


async def test_a_range_of_a_file_that_lost_its_end_is_refused(place: Place) -> None:
    await place.back_up("b1")
    path = place.path("b1", ".tar.gz")
    path.write_bytes(path.read_bytes()[: 184 + 2 * 65552])
    with pytest.raises(EncryptionBroken):
        await part(place.open(keys=identities(ALICE)), 0, 10)


async def test_the_files_of_a_restore_have_the_key_of_the_backup(place: Place) -> None:
    await place.back_up("b1")
    store = place.open(keys=identities(ALICE))
    await store.share_key("r1", "b1")
    await store.put_restore_results("r1", {"errors": {"app": ["secret-name"]}})
    stored = place.folder / "bucket/restores/r1/restore-r1-results.gz"
    assert stored.read_bytes().startswith(b"age-encryption.org")
    assert await place.open(keys=identities(BOB)).read_restore_results("r1") == {
        "errors": {"app": ["secret-name"]}
    }
    with pytest.raises(IdentityMissing):
        await place.open().read_restore_results("r1")


async def test_a_plain_backup_stays_plain_in_a_location_that_is_encrypted_now(place: Place) -> None:
    await place.back_up("b1", recipients="")
    store = place.open(recipients=str(ALICE.recipient), keys=identities(ALICE))
    assert await contents(store) == CONTENTS
    assert await part(store, 5, 5) == CONTENTS[5:10]
    await store.put_index("b1", place.folder / "log")
    await store.share_key("r1", "b1")
    assert not place.path("b1", "-pinnace-index.json.gz").read_bytes().startswith(b"age")
    assert not (place.folder / "bucket/restores").exists()


async def test_an_index_of_an_encrypted_backup_is_not_written_plain(place: Place) -> None:
    await place.back_up("b1")
    with pytest.raises(IdentityMissing):
        await place.open(recipients=str(BOB.recipient)).put_index("b1", place.folder / "log")
    await place.open(keys=identities(ALICE)).put_index("b1", place.folder / "log")
    assert place.path("b1", "-pinnace-index.json.gz").read_bytes().startswith(b"age")


async def test_the_newest_key_file_that_opens_counts(place: Place) -> None:
    await place.back_up("b1", recipients=str(ALICE.recipient))
    first = place.path("b1", "-pinnace-keys.json")
    first.rename(place.path("b1", "-pinnace-keys.2.json"))
    first.write_bytes(other_key(b""))
    place.path("b1", "-pinnace-keys.10.json").write_bytes(
        await key_file(X25519Identity.generate(), "b1", parse_recipients(str(BOB.recipient)))
    )
    assert await contents(place.open(keys=identities(ALICE))) == CONTENTS


async def test_key_files_of_a_former_backup_are_removed(place: Place) -> None:
    directory = place.path("b1", "").parent
    directory.mkdir(parents=True)
    place.path("b1", "-pinnace-keys.2.json").write_bytes(other_key(b""))
    await place.back_up("b1")
    assert await contents(place.open(keys=identities(ALICE))) == CONTENTS


@pytest.mark.parametrize("text", ["", "age1x", ALICE.secret_text()], ids=["none", "cut off", "private"])
def test_recipients_that_cannot_be_read_refuse_the_location(tmp_path: Path, text: str) -> None:
    location = location_from_url(str(tmp_path))
    location.spec.config["encryption.recipients"] = text
    with pytest.raises(StoreConfigError, match=r"config\.encryption\.recipients: ") as refused:
        open_backup_store(location)
    assert ALICE.secret_text()[20:40] not in str(refused.value)


async def test_recipients_come_from_the_environment_for_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PINNACE_RECIPIENTS", str(ALICE.recipient))
    location = location_from_url(str(tmp_path))
    assert location.spec.config["encryption.recipients"] == str(ALICE.recipient)
    url = location_from_url(f"s3://bucket/x?region=y&encryption.recipients={BOB.recipient}")
    assert url.spec.config["encryption.recipients"] == str(BOB.recipient)
    async with open_backup_store(location) as store:
        assert await store.list_backups() == []


async def test_a_backup_that_waited_keeps_the_key_that_it_was_parked_with(
    place: Place, tmp_path: Path
) -> None:
    waiting = place.open(recipients=str(ALICE.recipient))
    log = place.folder / "log"
    log.write_bytes(gzip.compress(b"before"))
    (place.folder / "contents").write_bytes(CONTENTS)
    metadata = encode_metadata(Backup(metadata=ObjectMeta(name="b1", namespace="velero")))
    parked = BackupFiles(
        name="b1",
        metadata=metadata,
        contents=place.folder / "contents",
        log=log,
        resource_list={"v1/Pod": ["app/p"]},
    )
    await waiting.parked().put_backup(parked)
    finished = Backup(metadata=ObjectMeta(name="b1", namespace="velero"))
    log.write_bytes(gzip.compress(b"after"))
    final = FinalFiles(log=log, resource_list={"v1/Pod": ["app/q"]})
    (folder := tmp_path / "parked").mkdir()
    with pytest.raises(IdentityMissing):  # another process, after a crash
        await place.open(recipients=str(BOB.recipient)).finish_backup(final, finished, folder)
    assert not place.path("b1", ".tar.gz").exists()
    await waiting.finish_backup(final, finished, folder)
    store = place.open(keys=identities(ALICE))
    assert await contents(store) == CONTENTS
    assert await store.read_resource_list("b1") == {"v1/Pod": ["app/q"]}
    async with store.read_text("BackupLog", "b1") as text:
        assert b"".join([block async for block in text]) == b"after"
    assert not place.path("b1", "").parent.joinpath("pinnace-parked").exists()


async def test_a_new_recipient_opens_a_backup_after_its_key_was_wrapped_for_it(place: Place) -> None:
    await place.back_up("b1", recipients=str(ALICE.recipient))
    await place.back_up("plain", recipients="")
    store = place.open(recipients=str(BOB.recipient), keys=identities(ALICE))
    await store.share_key("r1", "b1")
    await store.put_restore_results("r1", {"errors": {}})
    before = place.path("b1", ".tar.gz").read_bytes()
    assert [await store.rekey("b1"), await store.rekey("plain"), await store.rekey("r1", restore=True)] == [
        True,
        False,
        True,
    ]
    for key in (ALICE, BOB):
        reading = place.open(keys=identities(key))
        assert await contents(reading) == CONTENTS
        assert await reading.read_restore_results("r1") == {"errors": {}}
    assert place.path("b1", ".tar.gz").read_bytes() == before
    assert place.path("b1", "-pinnace-keys.2.json").exists()
    with pytest.raises(IdentityMissing):
        await place.open(recipients=str(BOB.recipient)).rekey("b1")
    with pytest.raises(StoreConfigError, match="no recipients"):
        await place.open(keys=identities(BOB)).rekey("b1")
    stranger = place.open(recipients=str(BOB.recipient), keys=identities(X25519Identity.generate()))
    with pytest.raises(IdentityRefused):
        await stranger.rekey("b1")


async def test_signatures_are_of_the_encrypted_files_and_bear_a_further_key_file(place: Place) -> None:
    key = Ed25519Signer.generate()
    signatures = Signatures(key=key, trusted=(key.public,), required=True)
    await place.back_up("b1", recipients=str(ALICE.recipient), signatures=signatures)
    store = place.open(recipients=str(BOB.recipient), keys=identities(ALICE)).signed(signatures)
    await store.rekey("b1")
    reading = place.open(keys=identities(BOB)).signed(signatures)
    assert await contents(reading) == CONTENTS
    assert await part(reading, 5, 5) == CONTENTS[5:10]
    assert await reading.read_resource_list("b1") == {"v1/ConfigMap": ["app/secret-name"]}
    manifest = await place.open().signed(signatures).manifest("b1")  # checked without an identity
    assert manifest is not None
    stored = place.path("b1", ".tar.gz").read_bytes()
    assert manifest.files["b1.tar.gz"].sha256 == sha256(stored).hexdigest()
    assert "b1-pinnace-keys.json" in manifest.files
    other = place.path("b1", "-resource-list.json.gz")
    other.write_bytes(other.read_bytes()[:-1] + b"x")
    with pytest.raises(SignatureRefused):
        await place.open(keys=identities(BOB)).signed(signatures).read_resource_list("b1")


KEY, OTHER = (parse_key(f"hashivault://{name}") for name in ("backups", "other"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, KMSError | None]:
    """The keys of services that were asked, which wrap by reversing; those with an error refuse."""
    asked: dict[str, KMSError | None] = {}

    async def reversed_by(uri: str, data: bytes, _access: object) -> bytes:
        if error := asked.setdefault(uri, None):
            raise error
        return data[::-1]

    monkeypatch.setattr(wrapping, "wrap", reversed_by)
    monkeypatch.setattr(wrapping, "unwrap", reversed_by)
    return asked


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("recipients", ["", str(ALICE.recipient)], ids=["alone", "beside a recipient"])
async def test_the_right_to_a_key_of_a_service_opens_a_backup(place: Place, recipients: str) -> None:
    place.kms_keys = (KEY, OTHER)
    await place.back_up("b1", recipients)
    document = orjson.loads(place.path("b1", "-pinnace-keys.json").read_bytes())
    assert [each["kms"] for each in document["kms"]] == [KEY.uri, OTHER.uri]
    assert ("age" in document) is bool(recipients)

    place.kms_keys = (OTHER,)
    assert await contents(place.open()) == CONTENTS
    assert await part(place.open(), 70_000, 10) == CONTENTS[70_000:70_010]
    if recipients:
        place.kms_keys = ()
        assert await contents(place.open(keys=identities(ALICE))) == CONTENTS


@pytest.mark.usefixtures("asked")
async def test_a_key_of_a_service_opens_a_backup_whose_key_was_wrapped_by_it_later(place: Place) -> None:
    await place.back_up("b1", str(ALICE.recipient))
    place.kms_keys = (KEY,)
    assert await place.open(keys=identities(ALICE)).rekey("b1")
    assert await contents(place.open()) == CONTENTS


async def test_a_key_that_the_location_does_not_name_is_not_asked(
    place: Place, asked: dict[str, KMSError | None]
) -> None:
    place.kms_keys = (KEY,)
    await place.back_up("b1", "")
    for keys in ((), (OTHER,)):
        asked.clear()
        place.kms_keys = keys
        with pytest.raises(IdentityMissing, match=r"name the key in encryption\.kms .* hashivault://backups"):
            await contents(place.open())
        assert asked == {}


async def test_a_service_that_refuses_to_unwrap_is_the_error_unless_another_opens(
    place: Place, asked: dict[str, KMSError | None]
) -> None:
    place.kms_keys = (KEY, OTHER)
    await place.back_up("b1", str(ALICE.recipient))
    asked[KEY.uri] = KMSRefused("the first refuses")
    assert await contents(place.open()) == CONTENTS
    asked[OTHER.uri] = KMSRefused("the second refuses")
    with pytest.raises(KMSRefused, match="the first refuses"):
        await contents(place.open())
    assert await contents(place.open(keys=identities(ALICE))) == CONTENTS
    with pytest.raises(IdentityRefused):
        await contents(place.open(keys=identities(BOB)))


async def test_a_service_that_refuses_to_wrap_fails_the_backup_before_a_file_is_written(
    place: Place, asked: dict[str, KMSError | None]
) -> None:
    place.kms_keys = (KEY,)
    asked[KEY.uri] = KMSRefused("no right to encrypt")
    with pytest.raises(KMSRefused):
        await place.back_up("b1", str(ALICE.recipient))
    assert not list(place.path("b1", "").parent.glob("*.gz"))
    assert not place.path("b1", "").with_name("velero-backup.json").exists()


@pytest.mark.usefixtures("asked")
async def test_the_key_of_another_backup_and_what_is_no_key_are_named(place: Place) -> None:
    place.kms_keys = (KEY,)
    await place.back_up("b1", "")
    await place.back_up("b2", "")
    other = place.path("b2", "-pinnace-keys.json").read_bytes()
    document = orjson.loads(other)
    place.path("b1", "-pinnace-keys.json").write_bytes(other)
    with pytest.raises(EncryptionBroken, match="of another backup"):
        await contents(place.open())
    for entries in (
        "text",
        [{"kms": KEY.uri}],
        [1],
        [{"kms": KEY.uri, "ciphertext": "?"}],
        document["kms"] * 9,
    ):
        place.path("b1", "-pinnace-keys.json").write_bytes(orjson.dumps({"version": 1, "kms": entries}))
        with pytest.raises((EncryptionBroken, IdentityMissing)):
            await contents(place.open())


@pytest.mark.parametrize(
    "keys", ["https://kms", "hashivault://a/b", " ".join(f"hashivault://k{n}" for n in range(9))]
)
def test_keys_that_cannot_be_used_refuse_the_location(keys: str, tmp_path: Path) -> None:
    location = location_from_url(str(tmp_path))
    location.spec.config["encryption.kms"] = keys
    with pytest.raises((KMSError, StoreConfigError)):
        open_backup_store(location)


@pytest.fixture
def _plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugin(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def by_plugin(word: str) -> Identities:
    return Identities.parse(identity_of(word).encode(), dialog=NobodyToAsk())


@pytest.mark.usefixtures("_plugin")
async def test_a_backup_for_a_plugin_is_opened_by_it_alone(place: Place) -> None:
    await place.back_up("b1", recipients=f"{BOB.recipient} {recipient_of('plain')}")
    assert await contents(place.open(keys=by_plugin("plain"))) == CONTENTS
    assert await contents(place.open(keys=identities(BOB))) == CONTENTS
    with pytest.raises(AgePluginFailed, match="key of 'b1': the plugin age-plugin-test: no key is"):
        await contents(place.open(keys=by_plugin("error")))
    with pytest.raises(IdentityRefused):
        await contents(place.open(keys=identities(ALICE)))


@pytest.mark.usefixtures("_plugin")
async def test_a_backup_whose_plugin_fails_leaves_nothing(place: Place) -> None:
    with pytest.raises(AgePluginFailed, match="cannot wrap the key of 'b1'"):
        await place.back_up("b1", recipients=f"{BOB.recipient} {recipient_of('error')}")
    assert [path for path in (place.folder / "bucket").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("recipient", [recipient_of("plain"), str(ALICE.recipient)])
def test_a_tenants_location_runs_no_program(tmp_path: Path, recipient: str) -> None:
    location = location_from_url(f"file://{tmp_path}?encryption.recipients={recipient}")
    open_backup_store(location)
    location.metadata.annotations[Origin.LOCATION.namespace_annotation] = "team"
    if recipient == str(ALICE.recipient):
        open_backup_store(location)
    else:
        with pytest.raises(StoreConfigError, match="for locations of administrators"):
            open_backup_store(location)


async def test_the_memory_of_encryption_does_not_grow_with_the_file(place: Place) -> None:
    contents = place.folder / "contents"
    peaks: list[int] = []
    for mebibytes in (8, 64):
        with contents.open("wb") as file:
            file.truncate(mebibytes << 20)
        name = f"b{mebibytes}"
        files = BackupFiles(
            name=name, metadata=encode_metadata(Backup(metadata=ObjectMeta(name=name))), contents=contents
        )
        tracemalloc.start()
        try:
            await place.open(recipients=str(ALICE.recipient)).put_backup(files)
            await place.open(keys=identities(ALICE)).download_contents(name, place.folder / "copy")
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert (place.folder / "copy").stat().st_size == mebibytes << 20
    assert peaks[1] < 1.5 * peaks[0], peaks
    assert peaks[1] < 16 << 20, peaks
