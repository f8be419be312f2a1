"""Encrypted locations of the Python API."""

from pathlib import Path

import pytest

from pinnace.age.x25519 import X25519Identity
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.python_api._running import opened_location
from pinnace.python_api.types import Location
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.key_errors import IdentityMissing


async def test_a_location_encrypts_to_its_recipients_and_opens_by_its_identity_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity, url = X25519Identity.generate(), tmp_path / "backups"
    (tmp_path / "key").write_text(identity.secret_text())
    sealing = Location(url=url, recipients=[str(identity.recipient)])
    metadata = encode_metadata(Backup(metadata=ObjectMeta(name="b1", namespace="velero")))
    async with opened_location(sealing, create=True) as (_, store):
        await store.put_backup(
            BackupFiles(
                name="b1", metadata=metadata, contents=tmp_path / "key", resource_list={"v1/Pod": ["a/b"]}
            )
        )
    async with opened_location(Location(url=url, identity_file=tmp_path / "key")) as (_, store):
        assert await store.read_resource_list("b1") == {"v1/Pod": ["a/b"]}
    async with opened_location(Location(url=url)) as (_, store):
        with pytest.raises(IdentityMissing):
            await store.read_resource_list("b1")
    monkeypatch.setenv("PINNACE_RECIPIENTS", str(identity.recipient))
    async with opened_location(Location(url=url, recipients=())) as (_, store):  # plain, whatever it says
        await store.put_backup(BackupFiles(name="b2", metadata=metadata, contents=tmp_path / "key"))
    assert not (url / "backups/b2/b2-pinnace-keys.json").exists()


@pytest.mark.parametrize("content", [None, "x"])
async def test_an_identity_file_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_text(content)
    with pytest.raises(StoreConfigError, match=r"identity file '.*key'"):
        async with opened_location(Location(url=tmp_path, identity_file=path)):
            pass
