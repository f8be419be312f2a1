"""Backups into a store that refuses, breaks off, stalls, goes away, or fills up.

In every case, the location has the whole backup or none.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hack.cluster.faults import (
    CutBeforeRequest,
    DropResponse,
    Fault,
    Respond,
    RuleList,
    Stall,
    s3_error,
)
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.api.labels import SIZE_BYTES
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.plugins.protocols import ResourceIdentifier, ResourceSelector
from pinnace.runs.context import ReopenedStore
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.storage.layout import Layout
from pinnace.storage.patience import Patience
from pinnace.store_access.requests import RequestPolicy
from tests.integration.faults.world import Lab, no_longer_than, stored_keys
from tests.support.faulty_parts import IMPATIENT_STORE, QUICK_STORE, OpenBucket
from tests.support.stores.faulty_store import DyingStore

StartProxy = Callable[[S3Server], Awaitable[FaultProxy]]

HANG_SECONDS = 150.0
FILES = [
    "b1-logs.gz",
    "b1.tar.gz",
    "b1-pinnace-index.json.gz",
    "b1-podvolumebackups.json.gz",
    "b1-volumesnapshots.json.gz",
    "b1-resource-list.json.gz",
    "b1-csi-volumesnapshots.json.gz",
    "b1-csi-volumesnapshotcontents.json.gz",
    "b1-results.gz",
    "velero-backup.json",
]
WRITES = len(FILES)

REFUSED = s3_error(403, "AccessDenied")
BROKEN = s3_error(500, "InternalError")
BUSY = s3_error(503, "SlowDown")


@pytest.fixture
async def proxy(s3: S3Server, fault_proxy: StartProxy) -> FaultProxy:
    return await fault_proxy(s3)


def patience_for(fault: Fault) -> RequestPolicy:
    """Deadlines for a fault: short ones for a stall, otherwise ones that a healthy store keeps."""
    return IMPATIENT_STORE if isinstance(fault, Stall) else QUICK_STORE


def assert_failed(done: Backup) -> None:
    assert done.status.phase == BackupPhase.FAILED
    assert done.status.failure_reason.startswith("error uploading backup: ")
    assert "Traceback" not in done.status.failure_reason


PASSING: Sequence[tuple[str, Fault, int]] = [
    ("500", BROKEN, 2),
    ("503", BUSY, 2),
    ("cut-before", CutBeforeRequest(), 2),
    ("answer-dropped", DropResponse(), 2),
    ("stalled", Stall(), 1),
]


@pytest.mark.parametrize(
    ("fault", "times"), [case[1:] for case in PASSING], ids=[case[0] for case in PASSING]
)
async def test_a_fault_that_passes_costs_nothing(
    lab: Lab, bucket: Bucket, proxy: FaultProxy, open_bucket: OpenBucket, fault: Fault, times: int
) -> None:
    """The fault hits each request of an upload: the checks of the name, each file, the metadata."""
    rules = [
        proxy.rules.add(fault, method="HEAD", path="velero-backup.json$", times=times),
        *(proxy.rules.add(fault, method="PUT", path=f"/{name}$", times=times) for name in FILES),
    ]
    async with no_longer_than(HANG_SECONDS):
        done = await lab.back_up(open_bucket(bucket, via=proxy, policy=patience_for(fault)))

    assert [rule.hits for rule in rules] == [times] * len(rules)
    assert done.status.phase == BackupPhase.COMPLETED
    await lab.assert_whole(open_bucket(bucket))


LASTING: Sequence[tuple[str, Fault]] = [
    ("refused", REFUSED),
    ("500", BROKEN),
    ("503", BUSY),
    ("cut-before", CutBeforeRequest()),
    ("answer-dropped", DropResponse()),
    ("stalled", Stall()),
]


@pytest.mark.parametrize("name", ["b1.tar.gz", "velero-backup.json"], ids=["tarball", "metadata"])
@pytest.mark.parametrize("fault", [case[1] for case in LASTING], ids=[case[0] for case in LASTING])
@pytest.mark.spec("STO-013")
async def test_a_file_that_cannot_be_stored_takes_the_backup_back(
    lab: Lab, bucket: Bucket, proxy: FaultProxy, open_bucket: OpenBucket, name: str, fault: Fault
) -> None:
    rule = proxy.rules.add(fault, method="PUT", path=f"/{name}$")
    async with no_longer_than(HANG_SECONDS):
        done = await lab.back_up(open_bucket(bucket, via=proxy, policy=patience_for(fault)))

    assert rule.hits > 0
    assert_failed(done)
    store = open_bucket(bucket)
    await lab.assert_no_backup(store)
    assert await stored_keys(store) == ["backups/b1/b1-logs.gz"]
    # The name is free again, and leftovers do no harm.
    assert (await lab.back_up(store)).status.phase == BackupPhase.COMPLETED
    assert len(await stored_keys(store)) == WRITES


@pytest.mark.parametrize("number", [1, 2, 6, WRITES])  # each is a case of the unit tests of BackupStore
@pytest.mark.spec("STO-014", "STO-016", "CTL-015")
async def test_a_refused_write_leaves_a_whole_backup_or_none(
    lab: Lab, bucket: Bucket, proxy: FaultProxy, open_bucket: OpenBucket, number: int
) -> None:
    files = r"(?<!-pinnace-writer\.json)$"  # the claim is renewed meanwhile
    rule = proxy.rules.add(REFUSED, method="PUT", path=files, skip=number - 1, times=1)
    done = await lab.back_up(open_bucket(bucket, via=proxy))

    assert rule.hits == 1
    store = open_bucket(bucket)
    if number == 1:  # the log, which a backup can do without
        assert done.status.phase == BackupPhase.COMPLETED
        assert sorted(await stored_keys(store)) == sorted(f"backups/b1/{name}" for name in FILES[1:])
        await lab.assert_whole(store)
    else:
        assert_failed(done)
        await lab.assert_no_backup(store)


@pytest.mark.parametrize("fault", [REFUSED, BROKEN, CutBeforeRequest(), Stall()])
async def test_nothing_is_stored_without_the_claim(
    lab: Lab, bucket: Bucket, proxy: FaultProxy, open_bucket: OpenBucket, fault: Fault
) -> None:
    proxy.rules.add(fault, method="PUT", path="-pinnace-writer.json$")
    async with no_longer_than(HANG_SECONDS):
        done = await lab.back_up(open_bucket(bucket, via=proxy, policy=patience_for(fault)))

    assert_failed(done)
    store = open_bucket(bucket)
    assert await stored_keys(store) == []
    assert (await lab.back_up(store)).status.phase == BackupPhase.COMPLETED
    assert len(await stored_keys(store)) == WRITES


DEATHS = [(0, False), (4, False), (WRITES, False), (5, True), (WRITES - 1, True)]
"""After how many writes the store is gone, and whether the last of them was done without an answer.

Those between are cases of the unit tests of BackupStore.
"""


@pytest.mark.parametrize(("lifetime", "after_effect"), DEATHS)
async def test_a_store_that_goes_away_after_a_write_holds_a_whole_backup_or_none(
    lab: Lab, bucket: Bucket, open_bucket: OpenBucket, lifetime: int, after_effect: bool
) -> None:
    """Nothing can be taken back then: what is stored must be harmless by itself."""
    healthy = open_bucket(bucket)
    dying = DyingStore(healthy._store, lifetime, after_effect=after_effect)
    done = await lab.back_up(BackupStore(dying, Layout(""), location="default"))

    assert done.status.phase == BackupPhase.FAILED
    assert not await healthy.exists("b1")
    again = await lab.back_up(healthy)
    assert again.status.phase == BackupPhase.COMPLETED
    assert len(await stored_keys(healthy)) == WRITES


async def test_metadata_whose_answer_never_came_belongs_to_a_whole_backup(
    lab: Lab, bucket: Bucket, open_bucket: OpenBucket
) -> None:
    """The last write is done, its answer lost, and the store away: Failed, but the backup is complete."""
    healthy = open_bucket(bucket)
    dying = DyingStore(healthy._store, WRITES + 1, after_effect=True)
    done = await lab.back_up(BackupStore(dying, Layout(""), location="default"))

    assert_failed(done)
    assert await healthy.exists("b1")
    await lab.assert_whole(healthy)


@pytest.mark.parametrize("fault", [case[1] for case in LASTING], ids=[case[0] for case in LASTING])
@pytest.mark.spec("BKP-012", "CTL-013")
async def test_nothing_is_stored_while_it_is_unknown_whether_the_name_is_taken(
    lab: Lab, bucket: Bucket, proxy: FaultProxy, open_bucket: OpenBucket, fault: Fault
) -> None:
    proxy.rules.add(fault, method="HEAD")
    async with no_longer_than(HANG_SECONDS):
        done = await lab.back_up(open_bucket(bucket, via=proxy, policy=patience_for(fault)))

    assert done.status.phase == BackupPhase.FAILED
    assert done.status.failure_reason.startswith("error checking if backup already exists in object storage")
    assert proxy.count(method="PUT") == 0
    assert await stored_keys(open_bucket(bucket)) == []


@pytest.mark.spec("BKP-012", "CTL-013")
async def test_a_name_that_is_taken_is_left_alone(lab: Lab, bucket: Bucket, open_bucket: OpenBucket) -> None:
    store = open_bucket(bucket)
    await lab.back_up(store)
    first = await store.get_metadata("b1")
    done = await lab.back_up(store)

    assert done.status.phase == BackupPhase.FAILED
    assert done.status.failure_reason == "backup already exists in object storage"
    assert await store.get_metadata("b1") == first
    await lab.assert_whole(store)


@pytest.mark.parametrize(
    "error",
    [StoreUnavailable("cannot reach it"), StorageError("unable to get credentials")],
    ids=["away", "no"],
)
async def test_a_second_opening_that_fails_fails_the_backup(
    lab: Lab, bucket: Bucket, open_bucket: OpenBucket, error: StorageError
) -> None:
    async def reopen() -> ReopenedStore:
        raise error

    store = open_bucket(bucket)
    done = await lab.back_up(store, reopen_store=reopen)

    assert_failed(done)
    assert str(error) in done.status.failure_reason
    assert await stored_keys(store) == []


class Inflate:
    """A backup item action that makes the tarball so large that it is uploaded in parts."""

    name = "faults.pinnace.io/inflate"

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=("configmaps",))

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        return {**item, "data": {"noise": secrets.token_hex(1 << 20)}}, ()


@pytest.fixture
def own_s3(tmp_path: Path) -> Iterator[S3Server]:
    """A server that only this test uses, and may kill."""
    server = S3Server(tmp_path / "own-s3")
    server.start()
    yield server
    server.remove()


@pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "in-parts"])
async def test_a_store_that_dies_during_an_upload_holds_no_backup(
    lab: Lab, own_s3: S3Server, fault_proxy: StartProxy, open_bucket: OpenBucket, in_parts: bool
) -> None:
    bucket = own_s3.create_bucket("backups")
    proxy = await fault_proxy(own_s3)
    held = proxy.rules.add(Stall(), method="PUT", path="/b1.tar.gz$", skip=1 if in_parts else 0)
    running = asyncio.create_task(
        lab.back_up(open_bucket(bucket, via=proxy), actions=[Inflate()] if in_parts else ())
    )
    await held.struck()
    own_s3.stop(grace_seconds=0)
    held.release()
    async with no_longer_than(HANG_SECONDS):
        done = await running
    own_s3.start()

    assert_failed(done)
    store = open_bucket(bucket)
    assert not await store.exists("b1")
    assert (await lab.back_up(store)).status.phase == BackupPhase.COMPLETED
    await lab.assert_whole(store)


@pytest.mark.found("L6")
@pytest.mark.parametrize("in_parts", [False, True], ids=["whole", "in-parts"])
async def test_a_store_that_comes_back_during_an_upload_gets_the_whole_backup(
    lab: Lab, own_s3: S3Server, fault_proxy: StartProxy, open_bucket: OpenBucket, in_parts: bool
) -> None:
    """It dies in the middle of a file, refuses connections for a while, and is started again."""
    bucket = own_s3.create_bucket("backups")
    proxy = await fault_proxy(own_s3)
    held = proxy.rules.add(Stall(), method="PUT", path="/b1.tar.gz$", skip=1 if in_parts else 0)
    said: list[str] = []
    away = asyncio.Event()

    def tell(text: str) -> None:
        said.append(text)
        away.set()

    store = open_bucket(bucket, via=proxy, policy=QUICK_STORE)
    actions = [Inflate()] if in_parts else ()
    running = asyncio.create_task(lab.back_up(store, actions=actions, patience=Patience(tell)))
    await held.struck()
    own_s3.stop(grace_seconds=0)
    held.release()
    await away.wait()
    own_s3.start()
    async with no_longer_than(HANG_SECONDS):
        done = await running

    assert done.status.phase == BackupPhase.COMPLETED
    if in_parts:  # too large to be restored
        size = await open_bucket(bucket).contents_size("b1")
        assert str(size) == done.metadata.annotations[SIZE_BYTES]
    else:
        await lab.assert_whole(open_bucket(bucket))
    assert "does not answer" in said[0]
    assert "answers again" in said[-1]


LOGIN = Respond(200, b"<html><body>Please log in</body></html>", {"Content-Type": "text/html"})
EMPTY = Respond(200)
FAULT = Respond(200, b"<Error><Code>InternalError</Code></Error>", {"Content-Type": "application/xml"})
OTHER = Respond(200, b"", {"ETag": '"d41d8cd98f00b204e9800998ecf8427e"'})


LIES = {"login": LOGIN, "empty": EMPTY, "error": FAULT, "other-etag": OTHER}
ABOUT = sorted(
    {(name, (*LIES,)[number % len(LIES)]) for number, name in enumerate(FILES)}
    | {(name, lie) for name in ("b1.tar.gz", "velero-backup.json") for lie in LIES}
)
"""Each file with one of the lies, and the two that make a backup with each."""


@pytest.mark.parametrize(("name", "lie"), ABOUT)
async def test_a_put_answered_by_something_else_makes_no_backup(
    lab: Lab, bucket: Bucket, proxy: FaultProxy, open_bucket: OpenBucket, name: str, lie: str
) -> None:
    rule = proxy.rules.add(LIES[lie], method="PUT", path=f"/{name}$")
    done = await lab.back_up(open_bucket(bucket, via=proxy))

    assert rule.hits > 0
    store = open_bucket(bucket)
    if name == "b1-logs.gz":  # a backup can do without
        assert done.status.phase == BackupPhase.COMPLETED
        assert await store.exists("b1")
    else:
        assert_failed(done)
        await lab.assert_no_backup(store)


@pytest.mark.parametrize(
    ("seed", "lie"), list(enumerate([LOGIN, EMPTY, FAULT])), ids=["login", "empty", "error"]
)
async def test_a_proxy_with_occasional_false_answers_makes_no_incomplete_backup(
    lab: Lab, bucket: Bucket, proxy: FaultProxy, open_bucket: OpenBucket, lie: Respond, seed: int
) -> None:
    proxy.rules = RuleList(seed=seed)
    rule = proxy.rules.add(lie, probability=0.3)
    done = await lab.back_up(open_bucket(bucket, via=proxy))
    proxy.rules.remove(rule)

    store = open_bucket(bucket)
    if done.status.phase == BackupPhase.COMPLETED:
        await lab.assert_whole(store)
    else:
        assert done.status.phase == BackupPhase.FAILED
        assert done.status.failure_reason
        assert rule.hits > 0
