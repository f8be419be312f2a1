"""Key files and encrypted files that somebody else has written: an error, or the content as it was."""

import gzip
import json
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinnace.age.header import MAGIC, MOST_STANZAS, Stanza, write_header
from pinnace.age.identities import Identities
from pinnace.age.recipients import parse_recipients, wrap
from pinnace.age.x25519 import X25519Identity
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption, open_key_file
from pinnace.storage.errors import StorageError
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.key_errors import EncryptionBroken, IdentityRefused
from pinnace.storage.key_opening import open_key
from pinnace.storage.layout import Layout
from pinnace.storage.own_settings import Signatures

ALICE = X25519Identity.generate()
IDENTITIES = Identities.parse(ALICE.secret_text().encode())
RECIPIENTS = parse_recipients(str(ALICE.recipient))
ENCRYPTION = Encryption(recipients=RECIPIENTS, identities=IDENTITIES)
SIGNER = Ed25519Signer.generate()
SIGNATURES = Signatures(key=SIGNER, trusted=(SIGNER.public,), required=True)
CONTENTS = gzip.compress(b"the tarball")
SECONDS = 5.0
"""How long a hostile file may be worked on; scrypt alone could take minutes."""

WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=80)
TYPES = st.sampled_from(["X25519", "scrypt", "ssh-ed25519", "ssh-rsa", "piv-p256", "p256tag", "test"])
STANZAS = st.lists(
    st.builds(
        lambda kind, rest, body: Stanza((kind, *rest), body),
        TYPES | WORDS,
        st.lists(WORDS, max_size=4),
        st.binary(max_size=200) | st.binary(min_size=32, max_size=32),
    ),
    max_size=MOST_STANZAS + 3,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def encoded(value: object) -> bytes:
    """With numbers beyond what our own encoder takes."""
    return json.dumps(value).encode()


def with_age(wrapped: bytes) -> bytes:
    return orjson.dumps({"version": 1, "age": b64encode(wrapped).decode()})


async def refused(data: bytes) -> str:
    """Open a key file that must not open; returns the reason."""

    async def read(_: str) -> bytes:
        return data

    began = time.monotonic()
    with pytest.raises((EncryptionBroken, IdentityRefused)) as error:
        await open_key(ENCRYPTION, title="b1", backup="b1", files=["keys"], read=read, key="file")
    assert time.monotonic() - began < SECONDS
    return str(error.value)


@given(stanzas=STANZAS, tail=st.binary(max_size=300))
async def test_no_stanzas_of_somebody_else_open_anything(stanzas: list[Stanza], tail: bytes) -> None:
    await refused(with_age(write_header(stanzas, bytes(16)) + tail))


@given(
    data=st.binary(max_size=2_000)
    | st.binary(max_size=2_000).map(lambda data: with_age(MAGIC + data))
    | JSON.map(encoded)
    | JSON.map(lambda value: encoded({"version": 1, "age": value, "kms": value}))
    | JSON.map(lambda kms: encoded({"version": 1, "kms": kms}))
)
async def test_no_file_that_is_no_key_file_passes_for_one(data: bytes) -> None:
    await refused(data)


@given(stanzas=STANZAS)
@settings(max_examples=50)
async def test_a_right_stanza_among_others_needs_the_seal_of_its_header(stanzas: list[Stanza]) -> None:
    """Whoever adds recipients to a key file, a passphrase among them, makes it unreadable and no more."""
    right = wrap(b"x", RECIPIENTS)
    start = right.index(b"-> ")
    added = write_header(stanzas or [Stanza(("test",), b"")], bytes(16))
    await refused(with_age(added[: added.index(b"---")] + right[start:]))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(
            with_age(write_header([Stanza(("X25519", "A" * 43), bytes(32))] * 300, bytes(16)) + bytes(48)),
            "more than 64 recipients",
            id="many recipients",
        ),
        pytest.param(
            with_age(write_header([Stanza(("x",), b"")] * 10_000, bytes(16)) + bytes(48)),
            "more than 6",
            id="10,000 recipients",
        ),
        pytest.param(with_age(MAGIC + b"-> " + b"x" * 70_000), "more than", id="an endless line"),
        pytest.param(with_age(MAGIC + b"-> x\n" + b"A" * 64 + b"\n"), "cut off", id="an endless body"),
        pytest.param(b"[" * 100_000, "no key file", id="deep lists"),
        pytest.param(b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "no key file", id="deep objects"),
        pytest.param(b'{"version":1,"age":' + b"[" * 900 + b"]" * 900 + b"}", "no key file", id="deep value"),
        pytest.param(orjson.dumps({"version": 1, "kms": [{}] * 5_000}), "cannot be read", id="many keys"),
        pytest.param(orjson.dumps({"version": 2, "age": ""}), "no key file", id="a later version"),
    ],
)
async def test_what_costs_time_or_memory_is_refused_at_once(data: bytes, text: str) -> None:
    assert text in await refused(data)


@pytest.mark.parametrize("factor", ["1", "18", "24", "30", "x"])
@pytest.mark.parametrize("others", [0, 1, 5])
async def test_no_passphrase_is_tried_whatever_stands_beside_it(factor: str, others: int) -> None:
    own = ALICE.recipient.wrap(bytes(16))
    stanzas = [own] * others + [Stanza(("scrypt", "A" * 22, factor), bytes(32))]
    assert "passphrase" in await refused(with_age(write_header(stanzas, bytes(16)) + bytes(48)))


async def test_a_key_file_with_the_text_of_another_backup_is_of_no_use() -> None:
    text = f'# the key of "b2"\n{ALICE.secret_text()}\n'.encode()
    assert "another backup" in await refused(with_age(wrap(text, RECIPIENTS)))
    assert "cannot be read" in await refused(
        with_age(wrap(b'# the key of "b1"\n' + b"AGE-SECRET-KEY-1" * 9, RECIPIENTS))
    )
    own = f'# the key of "b1"\n{ALICE.secret_text()}\n'.encode()
    opened = await open_key_file(with_age(wrap(own, RECIPIENTS)), "b1", IDENTITIES)
    assert opened.secret_text() == ALICE.secret_text()


# --- Every byte -------------------------------------------------------------------------------------------


def opened(bucket: Path, signatures: Signatures) -> BackupStore:
    store = BackupStore(FilesystemStore(bucket), Layout(""), location="default")
    return store.encrypted(ENCRYPTION).signed(signatures)


async def restored(store: BackupStore, folder: Path) -> tuple[object, ...]:
    """What a restore reads of the backup, all of it before it creates anything."""
    contents = folder / "contents"
    try:
        await store.download_contents("b1", contents)
    except StorageError:
        assert not contents.exists(), "a half"
        raise
    return (
        contents.read_bytes(),
        (await store.read_backup("b1")).spec,
        await store.read_resource_list("b1"),
        await store.read_backup_results("b1"),
    )


READERS: dict[str, Callable[[BackupStore, Path], Awaitable[object]]] = {
    ".tar.gz": restored,
    "-pinnace-keys.json": restored,
    "-pinnace-details.json.gz": restored,
    "-resource-list.json.gz": restored,
    "-results.gz": restored,
}


async def back_up(folder: Path, signatures: Signatures) -> Path:
    bucket = folder / "bucket"
    bucket.mkdir()
    (folder / "tarball").write_bytes(CONTENTS)
    encryption = Encryption(
        recipients=ENCRYPTION.recipients, identities=ENCRYPTION.identities, hides_details=True
    )
    store = opened(bucket, signatures).encrypted(encryption)
    await store.put_backup(
        BackupFiles(
            name="b1",
            metadata=encode_metadata(Backup(metadata=ObjectMeta(name="b1"))),
            contents=folder / "tarball",
            resource_list={"v1/ConfigMap": ["app/a"]},
            results={"errors": {}, "warnings": {"app": ["x"]}},
        )
    )
    return bucket


async def flips(bucket: Path, suffix: str, store: Callable[[], BackupStore], folder: Path) -> tuple[int, int]:
    """Flip a bit in each byte of a file; returns how often nothing changed, and the number of errors."""
    path = bucket / "backups" / "b1" / f"b1{suffix}"
    data, whole = path.read_bytes(), await restored(store(), folder)
    (folder / "contents").unlink()
    same = errors = 0
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            found = await READERS[suffix](store(), folder)
        except StorageError:
            errors += 1
        else:
            assert found == whole, f"byte {place} of {suffix}"
            same += 1
            (folder / "contents").unlink()
    path.write_bytes(data)
    return same, errors


@pytest.mark.parametrize("suffix", READERS)
async def test_a_flipped_byte_anywhere_is_an_error_or_changes_nothing(tmp_path: Path, suffix: str) -> None:
    bucket = await back_up(tmp_path, Signatures())
    same, errors = await flips(bucket, suffix, lambda: opened(bucket, Signatures()), tmp_path)
    assert errors
    # White space and the unused names of a key file may change; each byte of an encrypted file is sealed.
    assert same <= (60 if suffix == "-pinnace-keys.json" else 0)


async def test_a_flipped_byte_of_plain_metadata_is_found_where_it_is_signed_or_hidden(tmp_path: Path) -> None:
    bucket = await back_up(tmp_path, SIGNATURES)
    path = bucket / "backups" / "b1" / "velero-backup.json"
    data = path.read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(StorageError):
            await opened(bucket, SIGNATURES).read_backup("b1")
