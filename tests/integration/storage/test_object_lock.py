"""Backups under object lock, on a real S3 server that enforces both modes. (docs/adr/127)"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import pytest
from msgspec.structs import replace

from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.meta import ObjectMeta
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.browse.checks import CheckResult
from pinnace.operations.verification.signatures import signature_checks
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_files import BackupFiles, FinalFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.chain import LinkFinding, LinkState
from pinnace.storage.errors import BackupExists, BackupLocked, StorageError, StoreConfigError
from pinnace.storage.layout import Layout
from pinnace.storage.location_url import location_from_url
from pinnace.storage.object_lock import LockMode, ObjectLock, ObjectVersion, Retention
from pinnace.storage.open import open_backup_store
from pinnace.storage.own_settings import Signatures
from tests.support.stores.opened import OpenStore

HELD = timedelta(seconds=4)
LONG = timedelta(hours=1)
LARGE = b"a tarball of parts " * 400_000


class OpenBackups(Protocol):
    """The `opened` fixture: the backups of a bucket, with the settings of object lock."""

    def __call__(self, bucket: Bucket, **lock: str) -> BackupStore: ...


@pytest.fixture
async def opened() -> AsyncIterator[OpenBackups]:
    async with AsyncExitStack() as stack:

        def open_them(bucket: Bucket, **lock: str) -> BackupStore:
            server = bucket.server
            settings = "".join(f"&objectLock.{name}={value}" for name, value in lock.items())
            url = (
                f"s3://{bucket.name}/a/prefix?s3Url={server.url}&s3ForcePathStyle=true&region=us-east-1"
                f"&credentialsFile={server.credentials_file}{settings}"
            )
            store = open_backup_store(location_from_url(url))
            stack.push_async_callback(store.close)
            return store

        yield open_them


@pytest.fixture(scope="module")
def locking_s3() -> Iterator[S3Server]:
    # In the folder of temporary files, as the memory that tests use otherwise may lack extended attributes.
    with TemporaryDirectory(dir="/var/tmp") as folder, S3Server(Path(folder), locks=True) as server:
        yield server


@pytest.fixture
def locked(locking_s3: S3Server) -> Bucket:
    return locking_s3.create_bucket(f"locked-{secrets.token_hex(4)}", locks=True)


def backup_of(folder: Path, life: timedelta, *, contents: bytes = b"small") -> tuple[Backup, BackupFiles]:
    """A backup that expires after `life`, and its files."""
    now = SYSTEM_CLOCK.now()
    status = BackupStatus(start_timestamp=now, expiration=now + life)
    backup = Backup(metadata=ObjectMeta(name="b1", namespace="velero", uid="u1"), status=status)
    tarball, log = folder / "tarball", folder / "log"
    tarball.write_bytes(contents)
    log.write_bytes(b"log")
    files = BackupFiles(
        name="b1",
        owner="u1",
        metadata=encode_metadata(backup),
        contents=tarball,
        log=log,
        expiration=status.expiration,
        results={},
        plain_list=b"parked",
    )
    return backup, files


async def versions_of(opened: OpenStore, bucket: Bucket) -> list[ObjectVersion]:
    return await opened(bucket).versions("a/prefix/")


def names(versions: list[ObjectVersion]) -> list[str]:
    return sorted(each.key.rpartition("/")[2] for each in versions if not each.is_marker)


@pytest.mark.parametrize("mode", LockMode)
@pytest.mark.parametrize("contents", [b"small", LARGE], ids=["in one request", "in parts"])
async def test_each_file_of_a_backup_is_held_once_until_it_expires_and_is_deleted_for_good_then(
    opened: OpenBackups,
    open_store: OpenStore,
    locked: Bucket,
    mode: LockMode,
    contents: bytes,
    tmp_path: Path,
) -> None:
    store = opened(locked, mode=mode, until="expiration")
    await store.validate()
    backup, files = backup_of(tmp_path, HELD, contents=contents)
    await store.put_backup(files)
    expiration = backup.status.expiration
    assert expiration is not None
    raw, found = open_store(locked), await versions_of(open_store, locked)
    held = {each.key: await raw.held_until(each) for each in found if not each.is_marker}
    (claim,) = [key for key in held if "pinnace-writer" in key]
    assert held.pop(claim) is None
    assert len(held) == len(found) - 2  # the claim, and the marker of its deletion
    for until in held.values():
        assert until is not None
        assert timedelta() <= until - expiration < timedelta(seconds=1)

    with pytest.raises(BackupLocked, match="object lock holds its files until 20") as refused:
        await store.delete_backup("b1")
    with pytest.raises(StorageError):  # it is the store that holds them
        await raw.delete_version(next(each for each in found if each.key in held))

    assert await versions_of(open_store, locked) == found  # nothing of it was deleted, or hidden
    assert await store.download_contents("b1", tmp_path / "out") == len(contents)
    assert refused.value.until is not None
    await asyncio.sleep((refused.value.until - SYSTEM_CLOCK.now()).total_seconds() + 0.1)
    await store.delete_backup("b1")
    assert await versions_of(open_store, locked) == []


async def test_the_manifest_of_a_signed_backup_is_held_with_it_and_the_notes_beside_are_not(
    opened: OpenBackups, open_store: OpenStore, locked: Bucket, tmp_path: Path
) -> None:
    key = Ed25519Signer.generate()
    store = opened(locked, mode="governance", until="expiration")
    store = store.signed(Signatures(key=key, trusted=(key.public,), required=True))
    backup, files = backup_of(tmp_path, HELD, contents=LARGE)
    status = replace(backup.status, phase=BackupPhase.COMPLETED)
    await store.put_backup(replace(files, metadata=encode_metadata(replace(backup, status=status))))
    raw = open_store(locked)
    held = {
        each.key.rpartition("/")[2]: await raw.held_until(each)
        for each in await versions_of(open_store, locked)
        if not each.is_marker
    }

    assert held["b1-pinnace-manifest.json"] is not None
    assert held[f"pinnace-newest-{key.public.id}.json"] is None
    assert [check.result for check in await signature_checks(store, "b1")] == [CheckResult.OK] * 2
    with pytest.raises(BackupLocked) as refused:
        await store.delete_backup("b1")
    assert await store.look_for((await store.noted_newest())[0]) == LinkFinding(
        (await store.noted_newest())[0], LinkState.PRESENT
    )  # it is not called removed before it can be
    assert refused.value.until is not None
    await asyncio.sleep((refused.value.until - SYSTEM_CLOCK.now()).total_seconds() + 0.1)
    await store.delete_backup("b1")
    assert (await store.look_for((await store.noted_newest())[0])).state == LinkState.REMOVED


async def test_what_is_deleted_by_key_alone_is_still_held(
    opened: OpenBackups, open_store: OpenStore, locked: Bucket, tmp_path: Path
) -> None:
    store = opened(locked, mode="governance")
    await store.put_backup(backup_of(tmp_path, LONG)[1])
    raw = open_store(locked)
    for key in await raw.list_keys("a/prefix/"):
        await raw.delete(key)
    assert not await store.exists("b1")

    with pytest.raises(BackupLocked):
        await store.delete_backup("b1")


async def test_a_backup_that_waits_for_operations_is_held_once_it_is_finished(
    opened: OpenBackups, open_store: OpenStore, locked: Bucket, tmp_path: Path
) -> None:
    store = opened(locked, mode="compliance", until="1h")
    backup, files = backup_of(tmp_path, HELD)
    await store.parked().put_backup(files)
    raw = open_store(locked)
    before = [each for each in await versions_of(open_store, locked) if not each.is_marker]
    assert [await raw.held_until(each) for each in before] == [None] * len(before)
    with pytest.raises(BackupExists):
        await store.put_backup(files)
    (tmp_path / "parked").mkdir()

    final_files = FinalFiles(results={"errors": {}}, plain_list=b"final")
    await store.finish_backup(final_files, backup, tmp_path / "parked")

    found = await versions_of(open_store, locked)
    own = ("pinnace-parked", "pinnace-writer")
    final = [each for each in found if not each.is_marker and not any(name in each.key for name in own)]
    assert await store.read_plain_list("b1", limit_bytes=5) == b"final"
    assert len({each.key for each in final}) == len(final)  # no file has two versions
    assert None not in [await raw.held_until(each) for each in final]
    assert not [key for key in await raw.list_keys("a/prefix/") if "pinnace-parked" in key]


async def test_under_a_default_retention_claims_work_and_short_lives_are_refused(
    opened: OpenBackups, open_store: OpenStore, locking_s3: S3Server, tmp_path: Path
) -> None:
    bucket = locking_s3.create_bucket(f"default-{secrets.token_hex(4)}", locks=True, default_days=2)
    plain, store = opened(bucket), opened(bucket, mode="governance")
    for each in (plain, store):
        await each.validate()
    assert await store.too_short_a_life(timedelta(days=2)) == ""
    assert await plain.too_short_a_life(timedelta(hours=1)) == ""
    assert "of at least 48h" in await store.too_short_a_life(timedelta(days=1))
    await plain.put_backup(backup_of(tmp_path, LONG)[1])
    async with store.probe("p1"):
        pass

    with pytest.raises(BackupLocked):  # by the bucket, whatever the location asks for
        await plain.delete_backup("b1")
    claims = [name for name in names(await versions_of(open_store, bucket)) if "writer" in name]
    assert len(claims) == 1


@pytest.mark.parametrize(
    ("lock", "problem"),
    [
        ({"mode": "governance"}, "config.objectLock.mode is governance, but bucket '.*' has no object lock"),
        ({"mode": "hold"}, "config.objectLock.mode 'hold' is not known: it is governance or compliance"),
        ({"mode": "governance", "until": "x"}, "config.objectLock.until is expiration, or a duration"),
        ({"mode": "governance", "until": "-1h"}, "config.objectLock.until '-1h' is not a positive duration"),
        ({"until": "1h"}, "config.objectLock.until has no effect without config.objectLock.mode"),
    ],
    ids=["bucket without", "mode", "until", "negative", "without mode"],
)
async def test_a_lock_that_cannot_be_kept_is_refused(
    opened: OpenBackups, bucket: Bucket, lock: dict[str, str], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(StoreConfigError, match=problem):
        await opened(bucket, **lock).validate()


async def test_a_store_that_refuses_a_lock_fails_the_backup_and_leaves_its_log_at_most(
    opened: OpenBackups, bucket: Bucket, open_store: OpenStore, tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match="ObjectLockConfiguration"):
        await opened(bucket, mode="governance").put_backup(backup_of(tmp_path, LONG)[1])

    assert await open_store(bucket).list_keys("") == ["a/prefix/backups/b1/b1-logs.gz"]


async def test_a_lock_that_ends_early_is_an_error(open_store: OpenStore, locked: Bucket) -> None:
    requests = await open_store(locked)._bucket()
    now = SYSTEM_CLOCK.now().replace(microsecond=0)
    asked = Retention(mode=LockMode.GOVERNANCE, until=now + LONG)
    await open_store(locked).put_locked("k", b"x", replace(asked, until=now + timedelta(minutes=1)))
    with pytest.raises(StorageError, match="the store holds it only until"):
        await requests.check_retention("k", asked)
    await open_store(locked).put("free", b"x")
    with pytest.raises(StorageError, match="the store holds it not at all"):
        await requests.check_retention("free", asked)


async def test_a_claim_whose_process_died_is_its_owners_at_once(
    open_store: OpenStore, locked: Bucket
) -> None:
    lock = ObjectLock(mode=LockMode.GOVERNANCE)
    store = BackupStore(open_store(locked), Layout(""), location="default").locked(lock)
    left = {"writer": "a dead one", "token": "t", "renewals": 0, "owner": "u1"}
    await open_store(locked).put("backups/b1/b1-pinnace-writer.json", json.dumps(left).encode())

    async with asyncio.timeout(5), store.claim_of_backup("b1", owner="u1") as claim:
        assert claim.was_abandoned
