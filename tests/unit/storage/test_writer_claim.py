"""Two processes that write a backup of one name at once: one does, and the other harms nothing."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import BackupBeingWritten, BackupExists, ClaimLost, StorageError, StoreUnavailable
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.interface import Body
from pinnace.storage.layout import Layout
from tests.support.clock import HurriedTimer
from tests.support.faulty_store import FaultyStore

CLAIM = "backups/b1/b1-pinnace-writer.json"
METADATA = "backups/b1/velero-backup.json"
TARBALL = "backups/b1/b1.tar.gz"


@pytest.fixture
def bucket(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path / "store")


@pytest.fixture
def files_of(tmp_path: Path) -> Callable[[str], BackupFiles]:
    """The files of a backup `b1`, by who writes it."""

    def made(writer: str) -> BackupFiles:
        contents, log = tmp_path / f"{writer}.tar.gz", tmp_path / f"{writer}.log"
        contents.write_bytes(writer.encode() * 1000)
        log.write_bytes(gzip.compress(writer.encode()))
        backup = Backup(metadata=ObjectMeta(name="b1", namespace="velero", labels={"writer": writer}))
        return BackupFiles(name="b1", metadata=encode_metadata(backup), contents=contents, log=log)

    return made


class Between(FaultyStore):
    """Runs something once, just before the put of a key."""

    def __init__(self, inner: FilesystemStore, key: str, happening: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner)
        self._key = key
        self._happening: Callable[[], Awaitable[None]] | None = happening

    async def put(self, key: str, body: Body) -> None:
        if key == self._key and self._happening is not None:
            happening, self._happening = self._happening, None
            await happening()
        await super().put(key, body)


def store_on(objects: FaultyStore | FilesystemStore) -> BackupStore:
    return BackupStore(objects, Layout(""), location="default", timer=HurriedTimer())


def renewing_store_on(objects: FaultyStore | FilesystemStore) -> BackupStore:
    """One whose claims are watched for so long that a busy machine surely renews its own meanwhile."""
    return BackupStore(objects, Layout(""), location="default", timer=HurriedTimer(factor=5))


async def assert_whole(bucket: FilesystemStore, writer: str) -> None:
    """All of the backup is of one writer, and nothing else is there."""
    backups = store_on(bucket)
    assert (await backups.read_backup("b1")).metadata.labels == {"writer": writer}
    async with backups.read_bytes(DownloadTargetKind.BACKUP_CONTENTS, "b1") as stream:
        assert b"".join([block async for block in stream]) == writer.encode() * 1000
    assert CLAIM not in await bucket.list_keys("")


@pytest.mark.parametrize("key", [TARBALL, METADATA])
async def test_a_second_writer_is_refused_while_the_first_one_writes(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles], key: str
) -> None:
    async def second_writer() -> None:
        with pytest.raises(BackupBeingWritten, match="choose another name"):
            await renewing_store_on(bucket).put_backup(files_of("second"))

    await renewing_store_on(Between(bucket, key, second_writer)).put_backup(files_of("first"))
    await assert_whole(bucket, "first")


async def test_of_writers_at_once_one_finishes_and_all_files_are_its_own(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    writers = [f"writer-{number}" for number in range(5)]
    ends = await asyncio.gather(
        *(renewing_store_on(bucket).put_backup(files_of(writer)) for writer in writers),
        return_exceptions=True,
    )

    finished = [writer for writer, end in zip(writers, ends, strict=True) if end is None]
    assert len(finished) == 1
    assert {type(end) for end in ends if end is not None} <= {BackupBeingWritten, BackupExists}
    await assert_whole(bucket, finished[0])


@pytest.mark.parametrize("key", [TARBALL, METADATA])
async def test_a_writer_that_was_taken_for_dead_stops_and_deletes_nothing_of_the_other(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles], key: str
) -> None:
    """Its process stood still, so that another one took the claim over and finished."""

    async def stood_still() -> None:
        await bucket.delete(CLAIM)
        await store_on(bucket).put_backup(files_of("second"))
        raise StoreUnavailable("the connection was cut meanwhile")

    first = BackupStore(Between(bucket, key, stood_still), Layout(""), location="default")
    with pytest.raises(StorageError):
        await first.put_backup(files_of("first"))

    await assert_whole(bucket, "second")


async def test_a_writer_that_lost_its_claim_does_not_write_the_metadata(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    async def taken_over() -> None:
        await bucket.put(CLAIM, b'{"writer": "node-2, process 7"}')

    first = BackupStore(Between(bucket, TARBALL, taken_over), Layout(""), location="default")
    with pytest.raises(ClaimLost, match="'node-2, process 7' has written or deleted"):
        await first.put_backup(files_of("first"))

    assert not await bucket.exists(METADATA)
    assert await bucket.exists(CLAIM)


async def test_a_lost_claim_ends_an_upload_that_is_under_way(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    async def taken_over() -> None:
        while True:  # as its own renewals do; one alone may be overwritten by a renewal that began before it
            await bucket.put(CLAIM, b'{"writer": "second"}')
            await HurriedTimer().sleep(1)

    async with asyncio.timeout(30):
        with pytest.raises(ClaimLost):
            await store_on(Between(bucket, TARBALL, taken_over)).put_backup(files_of("first"))

    assert not await bucket.exists(TARBALL)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"writer": ["a"]}', b'{"writer": "\x1b[2J"}'])
async def test_a_claim_that_cannot_be_read_is_taken_over_when_it_is_not_renewed(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles], content: bytes
) -> None:
    await bucket.put(CLAIM, content)
    await store_on(bucket).put_backup(files_of("first"))
    await assert_whole(bucket, "first")


async def test_a_claim_whose_answer_was_lost_is_ones_own(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    class AnswerLost(FaultyStore):
        async def put_new(self, key: str, data: bytes) -> bool:
            await super().put_new(key, data)
            raise StoreUnavailable("no answer")

    await store_on(AnswerLost(bucket)).put_backup(files_of("first"))
    await assert_whole(bucket, "first")


async def test_a_writer_whose_claim_was_deleted_does_not_finish(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    """A deletion of the backup, or a writer that took over and has finished."""

    async def deleted() -> None:
        for key in await bucket.list_keys("backups/b1/"):
            await bucket.delete(key)

    first = BackupStore(Between(bucket, TARBALL, deleted), Layout(""), location="default")
    with pytest.raises(ClaimLost):
        await first.put_backup(files_of("first"))
    assert not await bucket.exists(METADATA)


async def test_a_renewal_that_failed_and_undid_itself_does_not_lose_the_claim(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    """A store deletes what it may have stored when it hears no answer."""
    renewed = asyncio.Event()

    class AwayForAMoment(FaultyStore):
        failed = False

        async def put(self, key: str, body: Body) -> None:
            if key == TARBALL:
                await renewed.wait()
            if key == CLAIM and not self.failed:
                self.failed = True
                await self.inner.delete(key)
                raise StoreUnavailable("no answer")
            await super().put(key, body)
            if key == CLAIM:
                renewed.set()

    async with asyncio.timeout(30):
        await store_on(AwayForAMoment(bucket)).put_backup(files_of("first"))
    await assert_whole(bucket, "first")
