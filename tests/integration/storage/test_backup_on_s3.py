"""A whole backup through a location with a prefix, on a real S3 server with an authority of its own."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from hack.cluster.faults import Stall, s3_error
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.storage import location_files
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encoding import compress
from pinnace.storage.errors import InvalidLocation, ObjectNotFound
from pinnace.storage.layout import Layout
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store
from pinnace.storage.s3.requests import BucketRequests
from tests.support.clock import HurriedClock
from tests.support.stores.faulty_store import DyingStore
from tests.support.stores.opened import OpenStore

TARBALL = b"tarball " * 1_200_000
PYTHONPATH = os.pathsep.join(sys.path)
StartProxy = Callable[[S3Server], Awaitable[FaultProxy]]


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


def url_of(bucket: Bucket, *, at: str = "") -> str:
    server = bucket.server
    query = f"s3Url={at or server.url}&s3ForcePathStyle=true&credentialsFile={server.credentials_file}"
    trust = f"&caCertFile={server.ca_file}" if server.authority else ""
    return f"s3://{bucket.name}/clusters/one?{query}&region=us-east-1{trust}"


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


UPLOADING = """
import asyncio, sys
from pathlib import Path
from pinnace.storage.backup_files import BackupFiles
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store

async def main(url: str, contents: str) -> None:
    async with open_backup_store(location_from_url(url)) as store:
        files = BackupFiles(name="b1", owner="uid-1", metadata=b"{}", contents=Path(contents))
        await store.put_backup(files)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def interrupted(
    bucket: Bucket, fault_proxy: StartProxy, files: BackupFiles, open_store: OpenStore
) -> AsyncIterator[list[str]]:
    """Keys of unfinished uploads: one of a process that was killed, and those of living strangers."""
    proxy = await fault_proxy(bucket.server)
    stalled = proxy.rules.add(Stall(), method="PUT", query={"partNumber": "2"})
    url = url_of(bucket, at=proxy.url)
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        UPLOADING,
        url,
        str(files.contents),
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    await stalled.struck()
    child.kill()
    await child.wait()
    strangers = await open_store(bucket)._requests()
    assert isinstance(strangers, BucketRequests)
    for key in ("clusters/one/backups/b10/b10.tar.gz", "clusters/one/kopia/ns/p1", "elsewhere"):
        await strangers.create_upload(key)
    keys = [upload.key async for upload in strangers.uploads("")]
    assert sorted(keys) == sorted({*keys}), "no upload is listed twice"
    yield keys
    proxy.rules.remove(stalled)


async def left_in(bucket: Bucket, open_store: OpenStore) -> list[str]:
    requests = await open_store(bucket)._requests()
    assert isinstance(requests, BucketRequests)
    return sorted([upload.key async for upload in requests.uploads("")])


async def test_only_the_upload_of_the_run_that_died_is_aborted(
    bucket: Bucket, interrupted: list[str], open_store: OpenStore
) -> None:
    killed = "clusters/one/backups/b1/b1.tar.gz"
    assert killed in interrupted
    others = sorted(key for key in interrupted if key != killed)
    now = SYSTEM_CLOCK.now()
    async with open_backup_store(location_from_url(url_of(bucket))) as backups:
        for uid, began in (("uid-2", now), ("", now), ("uid-1", now + timedelta(hours=1))):
            await backups.abort_interrupted("b1", uid, began)
            assert await left_in(bucket, open_store) == sorted(interrupted)
        await backups.abort_interrupted("b1", "uid-1", now)
        assert await left_in(bucket, open_store) == others


async def test_a_deletion_aborts_what_is_old(
    bucket: Bucket, interrupted: list[str], open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_backup_store(location_from_url(url_of(bucket))) as backups:
        await backups.delete_backup("b1")  # what is younger than an hour may be somebody's
        assert await left_in(bucket, open_store) == sorted(interrupted)
        monkeypatch.setattr(location_files, "_LONGEST_UPLOAD", timedelta(hours=-1))
        await backups.delete_backup("b1")

    assert await left_in(bucket, open_store) == sorted(key for key in interrupted if "/b1/" not in key)


async def test_a_store_that_lists_no_uploads_is_left_alone(
    bucket: Bucket, fault_proxy: StartProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "pinnace.storage")
    proxy = await fault_proxy(bucket.server)
    proxy.rules.add(s3_error(403, "AccessDenied"), query={"uploads": ""})
    async with open_backup_store(location_from_url(url_of(bucket, at=proxy.url))) as backups:
        await backups.delete_backup("b1")

    assert [(record.levelname, record.message) for record in caplog.records] == [
        (
            "DEBUG",
            "Unfinished uploads below clusters/one/backups/b1/ stay: cannot list the unfinished uploads"
            f" in bucket '{bucket.name}': injected (AccessDenied)",
        )
    ]


async def test_a_process_that_takes_the_name_over_aborts_what_was_left(
    bucket: Bucket, interrupted: list[str], open_store: OpenStore, files: BackupFiles
) -> None:
    store = open_store(bucket)
    backups = BackupStore(store, Layout("clusters/one/"), location="default", clock=HurriedClock())

    await backups.put_backup(files)

    assert await left_in(bucket, open_store) == sorted(key for key in interrupted if "/b1/" not in key)
    assert await backups.exists("b1")
