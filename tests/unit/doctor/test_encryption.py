"""What the doctor says of the encryption of a location, without an identity."""

from pathlib import Path

import pytest

from pinnace.age import bech32
from pinnace.age.recipients import parse_recipients
from pinnace.age.x25519 import X25519Identity
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.doctor import locations
from pinnace.doctor.encryption import judge_encryption, look_at_encryption
from pinnace.doctor.findings import Level
from pinnace.kms.access import KMSAccess
from pinnace.kms.uris import parse_key
from pinnace.notices.codes import Code
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout

KEY = X25519Identity.generate()


def opened(folder: Path, encryption: Encryption) -> BackupStore:
    store = FilesystemStore(folder, create=True)
    return BackupStore(store, Layout("some/prefix/"), location="default").encrypted(encryption)


def sealing(recipients: str = str(KEY.recipient)) -> Encryption:
    return Encryption(recipients=parse_recipients(recipients))


async def back_up(store: BackupStore, name: str) -> None:
    metadata = encode_metadata(Backup(metadata=ObjectMeta(name=name)))
    listed = b"{}" if store.encrypts else None
    await store.put_backup(BackupFiles(name=name, metadata=metadata, contents=None, plain_list=listed))


async def found(store: BackupStore, *, of_server: bool = False) -> list[tuple[Level, Code, str]]:
    look = await look_at_encryption(store)
    return [
        (each.level, each.code, each.text) for each in judge_encryption("main", look, of_server=of_server)
    ]


async def test_a_location_of_plain_backups_is_not_looked_at(tmp_path: Path) -> None:
    store = opened(tmp_path, Encryption())
    await back_up(store, "b1")
    assert await found(store) == []


async def test_all_is_well_where_each_backup_has_a_key_file(tmp_path: Path) -> None:
    store = opened(tmp_path, sealing())
    await back_up(store, "b1")
    assert await found(store) == [
        (Level.OK, Code.OK, "backups in main are encrypted, and each has a key file")
    ]
    probe = await locations.probe_store(store)
    assert probe.encryption is not None


async def test_plain_backups_and_lost_key_files_are_named(tmp_path: Path) -> None:
    for number in range(7):
        await back_up(opened(tmp_path, Encryption()), f"old-{number}")
    store = opened(tmp_path, sealing())
    for name in ("lost", "rekeyed", "whole"):
        await back_up(store, name)
    backups = tmp_path / "some/prefix/backups"
    (backups / "lost/lost-pinnace-keys.json").unlink()
    first = backups / "rekeyed/rekeyed-pinnace-keys.json"
    first.rename(first.with_name("rekeyed-pinnace-keys.2.json"))
    (backups / "unfinished").mkdir()
    (backups / "unfinished/unfinished-pinnace-writer.json").write_text("{}")
    assert await found(store) == [
        (
            Level.PROBLEM,
            Code.KEY_FILES_MISSING,
            "encrypted backups in main have lost their key files, and nobody can open them: lost",
        ),
        (
            Level.WARNING,
            Code.BACKUPS_PLAIN,
            "7 of the backups in main are not encrypted, though new ones are: old-0, old-1, old-2, old-3,"
            " old-4 and 2 more",
        ),
    ]


@pytest.mark.parametrize(("of_server", "level"), [(True, Level.WARNING), (False, Level.PROBLEM)])
async def test_a_key_that_takes_nothing_is_said_before_a_backup_fails(
    tmp_path: Path, of_server: bool, level: Level
) -> None:
    vault = Encryption(kms_keys=(parse_key("hashivault://key"),), kms_access=lambda: KMSAccess(environ={}))
    plugin = sealing(f"{bech32.encode('age1absent', b'x')}")
    for encryption, text in (
        (vault, "set VAULT_TOKEN"),
        (plugin, "age-plugin-absent: there is no such program"),
    ):
        ((was, code, said),) = await found(opened(tmp_path, encryption), of_server=of_server)
        assert (was, code, text in said) == (level, Code.ENCRYPTION_REFUSED, True), said
    assert not (tmp_path / "some").exists()
