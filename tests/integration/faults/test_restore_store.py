"""Restores from a location that is damaged, incomplete, or away when it is needed."""

import gzip
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from hack.cluster.faults import CutBeforeRequest, CutBody, DropResponse, Fault, Stall, s3_error
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.api.phases import RestorePhase
from pinnace.api.velero.restore import Restore
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import NAMESPACES
from pinnace.runs.context import ReopenedStore
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound, StoreUnavailable
from tests.integration.faults.world import Lab, no_longer_than, results_of
from tests.support.faulty_parts import IMPATIENT_STORE, OpenBucket

StartProxy = Callable[[S3Server], Awaitable[FaultProxy]]

HANG_SECONDS = 150.0
REFUSED = s3_error(403, "AccessDenied")
BROKEN = s3_error(500, "InternalError")


@pytest.fixture
async def proxy(s3: S3Server, fault_proxy: StartProxy) -> FaultProxy:
    return await fault_proxy(s3)


@pytest.fixture
def stored(stored: BackupStore, tmp_path: Path) -> Path:
    """The directory of a good backup b1 in `store`."""
    return tmp_path / "store" / "backups" / "b1"


async def assert_untouched(lab: Lab, target: str) -> None:
    """Assert that nothing was restored, not even the namespace."""
    with pytest.raises(NotFound):
        await lab.client.get(NAMESPACES, target)


def files_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1 :]


def _tar_cut_inside_a_member(data: bytes) -> bytes:
    """A whole gzip stream of half a tarball: only the tarball itself tells."""
    half = _half(gzip.decompress(data))
    return gzip.compress(half[: -(len(half) % 512) - 1])


def _tar_cut_between_members(data: bytes) -> bytes:
    """All members, none damaged, and no zeros that say these were all."""
    members = gzip.decompress(data).rstrip(b"\0")
    return gzip.compress(members + bytes(-len(members) % 512))


DAMAGES: Sequence[tuple[str, Callable[[bytes], bytes]]] = [
    ("empty", lambda _: b""),
    ("first-byte", lambda data: data[:1]),
    ("half", _half),
    ("without-its-checksum", lambda data: data[:-8]),
    ("without-its-last-byte", lambda data: data[:-1]),
    ("flipped", _flipped),
    ("other-checksum", lambda data: data[:-8] + bytes(4) + data[-4:]),
    ("tar-cut-inside-a-member", _tar_cut_inside_a_member),
    ("tar-cut-between-members", _tar_cut_between_members),
    ("no-gzip", lambda _: b"<html>not found</html>" * 50),
    ("zeros", lambda data: bytes(len(data))),
]


@pytest.mark.parametrize("damage", [case[1] for case in DAMAGES], ids=[case[0] for case in DAMAGES])
async def test_a_damaged_tarball_restores_nothing(
    lab: Lab, store: BackupStore, stored: Path, damage: Callable[[bytes], bytes]
) -> None:
    tarball = stored / "b1.tar.gz"
    tarball.write_bytes(damage(tarball.read_bytes()))
    target = lab.new_target()
    done = await lab.restore(store, target)

    assert (done.status.phase, done.status.errors) == (RestorePhase.PARTIALLY_FAILED, 1)
    (error,) = (await results_of(store))["errors"]["velero"]
    assert error.startswith("error reading backup contents: ")
    await assert_untouched(lab, target)


def assert_not_downloaded(done: Restore) -> None:
    assert done.status.phase == RestorePhase.FAILED
    assert done.status.failure_reason.startswith("error downloading backup")


@pytest.mark.spec("RST-014")
async def test_a_missing_tarball_fails_the_restore(lab: Lab, store: BackupStore, stored: Path) -> None:
    (stored / "b1.tar.gz").unlink()
    target = lab.new_target()
    done = await lab.restore(store, target)

    assert_not_downloaded(done)
    await assert_untouched(lab, target)
    restored = stored.parents[1] / "restores" / "r1"
    assert [path.name for path in restored.iterdir()] == ["restore-r1-logs.gz"]


async def test_only_the_tarball_and_the_metadata_are_needed(
    lab: Lab, store: BackupStore, stored: Path
) -> None:
    for path in files_in(stored):
        if path.name not in ("b1.tar.gz", "velero-backup.json"):
            path.unlink()
    await lab.assert_whole(store)


async def test_damaged_snapshot_records_fail_the_restore(lab: Lab, store: BackupStore, stored: Path) -> None:
    (stored / "b1-volumesnapshots.json.gz").write_bytes(gzip.compress(b'[{"spec":'))
    target = lab.new_target()
    done = await lab.restore(store, target)

    assert done.status.phase == RestorePhase.FAILED
    assert done.status.failure_reason.startswith("error fetching volume snapshots metadata")
    await assert_untouched(lab, target)


@pytest.fixture
async def in_bucket(lab: Lab, bucket: Bucket, open_bucket: OpenBucket) -> BackupStore:
    """A location in a bucket, without faults, with a good backup b1."""
    store = open_bucket(bucket)
    assert (await lab.back_up(store)).status.phase == "Completed"
    return store


DOWNLOAD_FAULTS: Sequence[tuple[str, Fault]] = [
    ("refused", REFUSED),
    ("500", BROKEN),
    ("cut-before", CutBeforeRequest()),
    ("cut-in-the-body", CutBody(1000)),
    ("stalled", Stall()),
    ("stalled-in-the-body", Stall(after_bytes=1000)),
]


@pytest.mark.parametrize(
    "fault", [case[1] for case in DOWNLOAD_FAULTS], ids=[case[0] for case in DOWNLOAD_FAULTS]
)
@pytest.mark.spec("RST-014")
async def test_a_download_that_fails_restores_nothing(
    lab: Lab, bucket: Bucket, in_bucket: BackupStore, proxy: FaultProxy, open_bucket: OpenBucket, fault: Fault
) -> None:
    rule = proxy.rules.add(fault, method="GET", path="/b1.tar.gz$")
    target = lab.new_target()
    faulty = open_bucket(bucket, via=proxy, policy=IMPATIENT_STORE)
    async with no_longer_than(HANG_SECONDS):
        done = await lab.restore(faulty, target)

    assert rule.hits > 0
    assert_not_downloaded(done)
    with pytest.raises(ObjectNotFound):
        await results_of(in_bucket)
    await assert_untouched(lab, target)


@pytest.mark.parametrize(
    "fault", [BROKEN, CutBeforeRequest(), CutBody(1000)], ids=["500", "cut-before", "cut-in-the-body"]
)
async def test_a_download_fault_that_passes_costs_nothing(
    lab: Lab, bucket: Bucket, in_bucket: BackupStore, proxy: FaultProxy, open_bucket: OpenBucket, fault: Fault
) -> None:
    rule = proxy.rules.add(fault, method="GET", path="/b1.tar.gz$", times=1)
    target = lab.new_target()
    done = await lab.restore(open_bucket(bucket, via=proxy), target)

    assert rule.hits == 1
    assert (done.status.phase, done.status.errors) == (RestorePhase.COMPLETED, 0)
    await lab.assert_same(target)


@pytest.mark.parametrize(
    "fault", [REFUSED, DropResponse(), Stall()], ids=["refused", "answer-dropped", "stalled"]
)
@pytest.mark.spec("RST-016")
async def test_a_log_that_cannot_be_kept_is_one_error(
    lab: Lab, bucket: Bucket, in_bucket: BackupStore, proxy: FaultProxy, open_bucket: OpenBucket, fault: Fault
) -> None:
    proxy.rules.add(fault, method="PUT", path="/restore-r1-logs.gz$")
    target = lab.new_target()
    async with no_longer_than(HANG_SECONDS):
        done = await lab.restore(open_bucket(bucket, via=proxy, policy=IMPATIENT_STORE), target)

    assert (done.status.phase, done.status.errors) == (RestorePhase.PARTIALLY_FAILED, 1)
    (error,) = (await results_of(in_bucket))["errors"]["velero"]
    assert error.startswith("error uploading log file to backup storage: ")
    await lab.assert_same(target)


async def test_results_that_cannot_be_kept_change_nothing(
    lab: Lab, bucket: Bucket, in_bucket: BackupStore, proxy: FaultProxy, open_bucket: OpenBucket
) -> None:
    proxy.rules.add(REFUSED, method="PUT", path="/restore-r1-results.gz$")
    target = lab.new_target()
    done = await lab.restore(open_bucket(bucket, via=proxy), target)

    assert (done.status.phase, done.status.errors) == (RestorePhase.COMPLETED, 0)
    await lab.assert_same(target)


async def test_a_second_opening_that_fails_fails_the_restore(
    lab: Lab, store: BackupStore, stored: Path
) -> None:
    async def reopen() -> ReopenedStore:
        raise StoreUnavailable("cannot reach it")

    target = lab.new_target()
    done = await lab.restore(store, target, reopen_store=reopen)

    assert done.status.phase == RestorePhase.FAILED
    assert done.status.failure_reason.endswith("persist log and results files: cannot reach it")
    await lab.assert_same(target)
