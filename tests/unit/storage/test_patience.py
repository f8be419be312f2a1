"""A store that is away for minutes at the end of a backup: the upload waits, says so, and gives up once."""

import gzip
import re
from pathlib import Path

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ClaimLost, StorageError, StoreUnavailable
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from pinnace.storage.patience import LIMIT_SECONDS, Patience
from tests.support.clock import LeapingClock
from tests.support.stores.faulty_store import FaultyStore

CLAIM = "backups/b1/b1-pinnace-writer.json"
CONTENTS = b"tarball " * 1000


class World:
    """A bucket that is away from a certain operation on, for a time, and a backup to be stored in it."""

    def __init__(self, tmp_path: Path, first: str, away_seconds: float) -> None:
        self.clock, self.said, self.waiting = LeapingClock(), list[str](), ["volumes of shop/db"]
        self.seen_waiting: list[str] = []
        self.inner = FilesystemStore(tmp_path / "store")
        self.bucket = FaultyStore(self.inner, self._fault)
        self.backups = BackupStore(self.bucket, Layout(""), location="default")
        self.patience = Patience(self._tell, waiting=self.waiting, clock=self.clock)
        self.sent = 0
        self._first, self._away_seconds = first, away_seconds
        self._until: float | None = None
        contents, log = tmp_path / "b1.tar.gz", tmp_path / "b1.log"
        contents.write_bytes(CONTENTS)
        log.write_bytes(gzip.compress(b"line\n"))
        metadata = encode_metadata(Backup(metadata=ObjectMeta(name="b1", namespace="velero")))
        self.files = BackupFiles(name="b1", metadata=metadata, contents=contents, log=log)

    def _fault(self, operation: str, key: str) -> StorageError | None:
        if self._until is None and f"{operation} {key}".endswith(self._first):
            self._until = self.clock.time + self._away_seconds
        away = self._until is not None and self.clock.time < self._until
        return StoreUnavailable("connection refused") if away else None

    def _tell(self, text: str) -> None:
        self.said.append(text)
        self.seen_waiting = [*self.waiting]

    async def put(self) -> None:
        def sent(size: int) -> None:
            self.sent += size

        await self.backups.put_backup(self.files, sent=sent, patience=self.patience)


@pytest.mark.found("L6")
@pytest.mark.parametrize(
    "first",
    [
        f"get {CLAIM}",
        f"put {CLAIM}",
        "exists backups/b1/velero-backup.json",
        "-logs.gz",
        "put backups/b1/b1.tar.gz",
        "size backups/b1/b1.tar.gz",
        "-resource-list.json.gz",
        "put backups/b1/velero-backup.json",
    ],
)
async def test_a_store_that_is_away_for_five_minutes_fails_no_backup(tmp_path: Path, first: str) -> None:
    world = World(tmp_path, first, LIMIT_SECONDS)

    await world.put()

    kept = await world.inner.list_keys("")
    assert {"backups/b1/velero-backup.json", "backups/b1/b1.tar.gz", "backups/b1/b1-logs.gz"} <= set(kept)
    assert CLAIM not in kept
    assert world.sent == len(CONTENTS) + world.files.log.stat().st_size  # type: ignore[union-attr]
    begins, *reminders, ends = world.said
    assert begins == (
        "The backup storage location does not answer, which is tried again for 300 s: connection refused"
    )
    assert len(reminders) == 4
    assert re.fullmatch(r"The backup storage location answers again, after 30[0-9] s", ends)
    assert world.seen_waiting == ["volumes of shop/db", "the backup storage location, which does not answer"]
    assert world.waiting == ["volumes of shop/db"]


@pytest.mark.found("L6")
async def test_a_store_that_stays_away_fails_the_backup_after_one_wait(tmp_path: Path) -> None:
    world = World(tmp_path, "-logs.gz", 10 * LIMIT_SECONDS)

    with pytest.raises(StorageError, match="connection refused"):
        await world.put()

    assert LIMIT_SECONDS <= world.clock.time < LIMIT_SECONDS + 10
    assert world.waiting == ["volumes of shop/db"]
    assert "backups/b1/velero-backup.json" not in await world.inner.list_keys("")


async def test_an_error_that_waiting_does_not_cure_is_raised_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, "nothing", 0)
    world.bucket.fault = lambda operation, key: (
        StorageError("access denied") if operation == "put" and key.endswith(".tar.gz") else None
    )

    with pytest.raises(StorageError, match="access denied"):
        await world.put()

    assert (world.clock.time, world.said) == (0, [])


@pytest.mark.found("L6")
async def test_nothing_is_sent_again_once_another_process_has_the_claim(tmp_path: Path) -> None:
    world = World(tmp_path, "put backups/b1/b1.tar.gz", 60)
    tell = world._tell

    def taken_over(text: str) -> None:
        tell(text)
        (tmp_path / "store" / CLAIM).write_text('{"writer": "another", "token": "x"}')

    world.patience = Patience(taken_over, clock=world.clock)
    with pytest.raises(ClaimLost, match="another"):
        await world.put()

    assert "backups/b1/b1.tar.gz" not in await world.inner.list_keys("")
