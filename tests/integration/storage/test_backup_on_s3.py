"""A whole backup through a location with a prefix, on a real S3 server with an authority of its own."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encoding import compress
from pinnace.storage.errors import InvalidLocation, ObjectNotFound
from pinnace.storage.layout import Layout
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store
from tests.support.stores.faulty_store import DyingStore
from tests.support.stores.opened import OpenStore

TARBALL = b"tarball " * 1_200_000


@pytest.fixture
def files(tmp_path: Path) -> BackupFiles:
    contents, log = tmp_path / "contents", tmp_path / "log"
    contents.write_bytes(TARBALL)
    log.write_bytes(compress(b"line\n"))
    backup = Backup(metadata=ObjectMeta(name="b1", namespace="velero"))
    return BackupFiles(
        name="b1",
        metadata=encode_metadata(backup),
        contents=contents,
        log=log,
        resource_list={"v1/Pod": ["ns/p"]},
    )


def url_of(bucket: Bucket) -> str:
    server = bucket.server
    query = (
        f"s3Url={server.url}&s3ForcePathStyle=true&credentialsFile={server.credentials_file}&region=us-east-1"
    )
    return f"s3://{bucket.name}/clusters/one?{query}&caCertFile={server.ca_file}"


async def test_a_backup_is_stored_listed_read_and_deleted(
    tls_bucket: Bucket, files: BackupFiles, tmp_path: Path
) -> None:
    async with open_backup_store(location_from_url(url_of(tls_bucket))) as backups:
        await backups.validate()
        await backups.put_backup(files)
        await backups.validate()

        assert await backups.list_backups() == ["b1"]
        assert (await backups.read_backup("b1")).metadata.name == "b1"
        assert await backups.read_resource_list("b1") == {"v1/Pod": ["ns/p"]}
        assert await backups.read_snapshots("b1") == []
        assert await backups.download_contents("b1", tmp_path / "out") == len(TARBALL)
        assert await asyncio.to_thread((tmp_path / "out").read_bytes) == TARBALL
        async with backups.read_text(DownloadTargetKind.BACKUP_LOG, "b1") as stream:
            assert b"".join([block async for block in stream]) == b"line\n"

        await backups.delete_backup("b1")
        assert await backups.list_backups() == []
        with pytest.raises(ObjectNotFound):
            await backups.get_metadata("b1")


async def test_a_signed_url_of_a_missing_file_is_404(
    s3: S3Server, bucket: Bucket, open_store: OpenStore
) -> None:
    backups = BackupStore(open_store(bucket), Layout(""), location="default")
    url = await backups.signed_url(DownloadTargetKind.BACKUP_LOG, "absent")

    async with aiohttp.ClientSession() as session, session.get(URL(url, encoded=True)) as answer:
        assert answer.status == 404


async def test_foreign_directories_make_a_location_invalid(bucket: Bucket, open_store: OpenStore) -> None:
    store = open_store(bucket)
    await store.put("readme.txt", b"")
    await store.put("foreign/x", b"")
    with pytest.raises(InvalidLocation, match=r"invalid top-level directories: \[foreign\]"):
        await BackupStore(store, Layout(""), location="default").validate()


@pytest.mark.parametrize("lifetime", [2, 5, 9, 11])
async def test_an_upload_that_dies_leaves_a_whole_backup_or_none(
    bucket: Bucket, open_store: OpenStore, files: BackupFiles, lifetime: int
) -> None:
    store = open_store(bucket)
    dying = BackupStore(DyingStore(store, lifetime, after_effect=False), Layout(""), location="default")
    outcome = (await asyncio.gather(dying.put_backup(files), return_exceptions=True))[0]

    backups = BackupStore(store, Layout(""), location="default")
    assert await backups.exists("b1") == (outcome is None) == (lifetime >= 9)
    await backups.delete_backup("b1")
    assert await store.list_keys("") == []
