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
from tests.support.clock import HurriedClock
from tests.support.stores.faulty_store import FaultyStore

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
    return BackupStore(objects, Layout(""), location="default", clock=HurriedClock())


def renewing_store_on(objects: FaultyStore | FilesystemStore) -> BackupStore:
    """One whose claims are watched for so long that a busy machine surely renews its own meanwhile."""
    return BackupStore(objects, Layout(""), location="default", clock=HurriedClock(factor=5))


async def assert_whole(bucket: FilesystemStore, writer: str) -> None:
    """Check that all files of the backup are of one writer, and that the claim is gone."""
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
            await HurriedClock().sleep(1)

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


async def test_a_claim_whose_answer_was_lost_is_kept(
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


async def test_a_renewal_that_fails_does_not_lose_the_claim(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    renewed = asyncio.Event()

    class AwayForAMoment(FaultyStore):
        failed = False

        async def put(self, key: str, body: Body) -> None:
            if key == TARBALL:
                await renewed.wait()
            if key == CLAIM and not self.failed:
                self.failed = True
                raise StoreUnavailable("no answer")
            await super().put(key, body)
            if key == CLAIM:
                renewed.set()

    async with asyncio.timeout(30):
        await store_on(AwayForAMoment(bucket)).put_backup(files_of("first"))
    await assert_whole(bucket, "first")


async def test_a_claim_that_is_gone_after_a_failed_renewal_is_lost(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    """Another process took it over while the location did not answer, and has finished."""

    class AwayForLong(FaultyStore):
        async def put(self, key: str, body: Body) -> None:
            if key == TARBALL:
                await asyncio.Event().wait()
            if key == CLAIM:
                await self.inner.delete(CLAIM)
                await store_on(bucket).put_backup(files_of("second"))
                raise StoreUnavailable("no answer")
            await super().put(key, body)

    async with asyncio.timeout(30):
        with pytest.raises(ClaimLost):
            await store_on(AwayForLong(bucket)).put_backup(files_of("first"))
    await assert_whole(bucket, "second")


async def test_of_two_processes_that_take_over_one_claim_only_one_writes(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    await bucket.put(CLAIM, b'{"writer": "a process that died"}')
    both_take_it = asyncio.Barrier(2)

    class TakesOver(FaultyStore):
        has_waited = False

        async def put(self, key: str, body: Body) -> None:
            if key == CLAIM and not self.has_waited:
                self.has_waited = True
                await both_take_it.wait()
            await super().put(key, body)

    stores = [TakesOver(bucket), TakesOver(bucket)]
    timer = HurriedClock(factor=10)  # both write the claim at once, and look at it half a second later
    async with asyncio.timeout(60):
        ends = await asyncio.gather(
            *(
                BackupStore(store, Layout(""), location="default", clock=timer).put_backup(
                    files_of(f"writer-{number}")
                )
                for number, store in enumerate(stores)
            ),
            return_exceptions=True,
        )

    assert [store.calls.count(("put", TARBALL)) for store in stores].count(1) == 1
    assert {type(end) for end in ends if end is not None} <= {BackupBeingWritten, BackupExists}
    await assert_whole(bucket, f"writer-{ends.index(None)}")


async def test_a_second_writer_is_refused_by_a_store_that_ignores_conditions(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    class Unconditional(FaultyStore):
        async def put_new(self, key: str, data: bytes) -> bool:
            await super().put(key, data)
            return True

    async def second_writer() -> None:
        with pytest.raises(BackupBeingWritten):
            await renewing_store_on(Unconditional(bucket)).put_backup(files_of("second"))

    await renewing_store_on(Between(bucket, TARBALL, second_writer)).put_backup(files_of("first"))
    await assert_whole(bucket, "first")


async def test_the_claim_is_renewed_until_a_cancelled_upload_is_undone(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    """An abandoned claim is taken over, and the undo would delete the files of the other process."""
    uploading, renewed = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    class SlowToDelete(FaultyStore):
        is_undoing = False

        async def put(self, key: str, body: Body) -> None:
            await super().put(key, body)
            if key == CLAIM and self.is_undoing:
                renewed.set()
            if key == METADATA:
                uploading.set()
                await asyncio.Event().wait()

        async def delete(self, key: str) -> None:
            if key != CLAIM:
                self.is_undoing = True
                await renewed.wait()
            await super().delete(key)
            order.append(key)

    async with asyncio.timeout(30):
        writing = asyncio.create_task(store_on(SlowToDelete(bucket)).put_backup(files_of("first")))
        await uploading.wait()
        writing.cancel()
        await asyncio.wait({writing})

    assert writing.cancelled()
    assert (order[0], order[-1]) == (METADATA, CLAIM)
    assert not await bucket.exists(TARBALL)


async def test_nothing_is_deleted_while_it_is_unknown_which_process_has_the_claim(
    bucket: FilesystemStore, files_of: Callable[[str], BackupFiles]
) -> None:
    store = FaultyStore(bucket)

    def fault(operation: str, key: str) -> StorageError | None:
        has_failed = ("put", METADATA) in store.calls
        if (operation, key) == ("put", METADATA) or (operation == "get" and has_failed):
            return StoreUnavailable("the location is away")
        return None

    store.fault = fault
    with pytest.raises(StorageError, match="the location is away"):
        await store_on(store).put_backup(files_of("first"))

    assert "delete" not in {operation for operation, _ in store.calls}
