"""Encrypted files by the signed URLs of a server: who opens them, and what is refused."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from pinnace.age.identities import Identities
from pinnace.age.recipients import parse_recipients
from pinnace.age.x25519 import X25519Identity
from pinnace.api.labels import KEY_FILES
from pinnace.api.velero.download_request import DownloadTargetKind, decode_key_files, encode_key_files
from pinnace.cli.connect import caller
from pinnace.client.errors import ClientError, PartsUnsupported
from pinnace.client.interface import DownloadOptions, fetch
from pinnace.client.server import ServerBackend
from pinnace.storage.backup_files import BackupFiles
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.key_errors import EncryptionBroken, IdentityMissing, IdentityRefused
from pinnace.storage.layout import Layout
from tests.support.cluster.scripted_cluster import ScriptedCluster

CONTENTS, LOG = DownloadTargetKind.BACKUP_CONTENTS, DownloadTargetKind.BACKUP_LOG
OPTIONS = DownloadOptions(timeout_seconds=10)
TARBALL = bytes(number % 251 for number in range(200_000))
ALICE, BOB = X25519Identity.generate(), X25519Identity.generate()


def identities(*keys: X25519Identity) -> Identities:
    return Identities.parse("\n".join(key.secret_text() for key in keys).encode())


def location(folder: Path, *recipients: X25519Identity, keys: Identities | None = None) -> BackupStore:
    texts = " ".join(str(each.recipient) for each in recipients)
    store = BackupStore(FilesystemStore(folder / "bucket"), Layout(""), location="default")
    return store.encrypted(Encryption(recipients=parse_recipients(texts) if texts else (), identities=keys))


@pytest.fixture
async def stored(tmp_path: Path) -> BackupStore:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "contents").write_bytes(TARBALL)
    store = location(tmp_path, ALICE)
    await store.put_backup(BackupFiles(name="b1", metadata=b"{}", contents=tmp_path / "contents"))
    return store


Serve = Callable[..., ServerBackend]


@pytest.fixture
async def serve(stored: BackupStore) -> Serve:
    url = await stored.signed_url(CONTENTS, "b1")
    key_files = await stored.key_files(CONTENTS, "b1")

    def server(*keys: X25519Identity, notes: str | None = encode_key_files(key_files)) -> ServerBackend:
        cluster = ScriptedCluster()

        def answer(request: dict[str, Any]) -> None:
            request["metadata"]["annotations"] = {KEY_FILES: notes} if notes is not None else {}
            request["status"] = {"downloadURL": url}

        cluster.on_create = answer
        opened_by = identities(*keys) if keys else None
        return ServerBackend(
            cluster.client, "velero", caller(), encryption=lambda: Encryption(identities=opened_by)
        )

    return server


async def fetched(backend: ServerBackend) -> bytes:
    sink = BytesIO()
    await fetch(backend, CONTENTS, "b1", OPTIONS, sink)
    return sink.getvalue()


async def test_the_identity_of_a_recipient_opens_what_the_url_gives(serve: Serve) -> None:
    assert await fetched(serve(BOB, ALICE)) == TARBALL


async def test_each_key_file_is_tried(serve: Serve, stored: BackupStore, tmp_path: Path) -> None:
    assert await location(tmp_path, BOB, keys=identities(ALICE)).rekey("b1")
    key_files = await stored.key_files(CONTENTS, "b1")
    assert len(key_files) == 2
    for key in (ALICE, BOB):
        assert await fetched(serve(key, notes=encode_key_files(key_files))) == TARBALL


@pytest.mark.parametrize(("keys", "error"), [((), IdentityMissing), ((BOB,), IdentityRefused)])
async def test_without_the_right_identity_the_error_names_the_file(
    serve: Serve, keys: tuple[X25519Identity, ...], error: type[Exception]
) -> None:
    with pytest.raises(error, match="tarball of b1"):
        await fetched(serve(*keys))


@pytest.mark.parametrize("notes", [None, "", "[1]", "{", "[" * 100_000])
async def test_a_server_that_sends_no_key_files_is_named(serve: Serve, notes: str | None) -> None:
    with pytest.raises(ClientError, match="does not send the key files"):
        await fetched(serve(ALICE, notes=notes))


async def test_a_plain_file_of_an_encrypted_backup_is_refused(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "bucket/backups/b1/b1.tar.gz").write_bytes(TARBALL)
    with pytest.raises(EncryptionBroken, match="somebody has exchanged it"):
        await fetched(serve(ALICE))


async def test_a_flipped_byte_is_found(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "bucket/backups/b1/b1.tar.gz"
    data = bytearray(path.read_bytes())
    data[150_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(ClientError, match="is damaged"):
        await fetched(serve(ALICE))


async def test_a_part_is_refused_as_the_file_is_read_as_a_whole(serve: Serve) -> None:
    with pytest.raises(PartsUnsupported):
        async with serve(ALICE).stored_part(CONTENTS, "b1", (10, 10), OPTIONS):
            pass


async def test_key_files_without_end_are_cut_behind_the_newest(stored: BackupStore, tmp_path: Path) -> None:
    folder = tmp_path / "bucket/backups/b1"
    for number in range(2, 6):
        (folder / f"b1-pinnace-keys.{number}.json").write_text(str(number) * 60_000)
    assert [text[0] for text in await stored.key_files(CONTENTS, "b1")] == ["5", "4"]
    assert decode_key_files(encode_key_files(["a", "b"])) == ("a", "b")


@pytest.mark.parametrize(
    "value", ["", "{", "{}", "[1]", '["\\ud800"]', '["\\udc00"]', '["\ud800"]', "[" * 100_000]
)
def test_key_files_that_cannot_be_read_are_none(value: str) -> None:
    assert decode_key_files(value) == ()
