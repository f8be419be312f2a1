"""A restore whose process dies at any moment ends, when it is resumed, as one that nobody disturbed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.codec import decode
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import Restore, RestoreSpec, RestoreStatusSpec
from pinnace.kube.errors import Invalid
from pinnace.restore.errors import RestoreFailed
from pinnace.restore.journal import NamespaceEntry, RestoreJournal, begun_restore
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError, UnreadableObject
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.cluster.scripted_requests import READS
from tests.unit.restore.world import Harness, configmap, job, obj, world_of

RESTORED_AT = datetime(2021, 8, 11, tzinfo=UTC)
LABELS = {"velero.io/backup-name": "backup-1", "velero.io/restore-name": "restore-1"}
RESTORE = Restore(
    metadata=ObjectMeta(name="restore-1", namespace="velero", uid="uid-1"),
    spec=RestoreSpec(backup_name="backup-1"),
)
IN_BACKUP = (
    obj("Namespace", "ns-1"),
    obj("Namespace", "ns-2", labels={"team": "a"}),
    configmap("new", data={"a": "1"}),
    configmap("new", "ns-2", data={"a": "1"}),
    configmap("same", data={"a": "1"}),
    configmap("other", data={"a": "1"}),
    configmap("frozen", data={"a": "1"}),
    configmap("of-a-controller", "ns-2", data={"a": "1"}),
    configmap("of-a-controller-and-other", "ns-2", data={"a": "1"}),
    obj("ServiceAccount", "robot", "ns-1", secrets=[{"name": "mine"}]),
    job("once", spec={"template": {}}),
    obj("Deployment", "web", "ns-1", api_version="apps/v1", spec={}, status={"replicas": 2}),
)
IN_CLUSTER = (
    obj("Namespace", "ns-1"),
    configmap("same", data={"a": "1"}),
    configmap("other", data={"a": "2"}),
    configmap("frozen", data={"a": "2"}),
    # Of a former restore of this name.
    configmap("new", "ns-1", data={"a": "0"}, labels=LABELS),
    obj("ServiceAccount", "robot", "ns-1", secrets=[{"name": "yours"}]),
)


class Killed(BaseException):
    """What the process of a restore gets at the moment of its death."""


@dataclass
class Life:
    """Lets a number of writes pass; then the process is dead.

    Attributes:
        writes: how many; None for all.
        is_told: whether it dies before it sends the next one; else before it gets the answer to the last.
    """

    writes: int | None = None
    is_told: bool = True
    done: int = 0
    is_dead: bool = False

    def before(self) -> None:
        if self.is_dead or (self.done == self.writes and self.is_told):
            self.is_dead = True
            raise Killed

    def after(self) -> None:
        self.done += 1
        if self.done == self.writes and not self.is_told:
            self.is_dead = True
            raise Killed


class DyingStore(BackupStore):
    """A location whose writer dies."""

    life = Life()

    async def put_restore_journal(
        self, restore: str, owner: str, number: int, entries: Sequence[Mapping[str, Any]]
    ) -> None:
        self.life.before()
        await super().put_restore_journal(restore, owner, number, entries)
        self.life.after()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[DyingStore]:
    async with DyingStore(FilesystemStore(tmp_path / "bucket"), Layout(""), location="default") as made:
        yield made


def cluster_of(policy: str) -> ScriptedCluster:
    world = world_of(*IN_CLUSTER)
    world.with_status.add("deployments")
    refusal = Invalid(422, reason="Invalid", message="it is immutable")
    for verb in ("patch", "simulate"):
        world.refuse(verb, ("configmaps", "ns-1", "frozen"), refusal, times=1000)
    world.clock.turn(timedelta(hours=1))
    world.on_create = lambda _created: control(world)
    return world


def control(world: ScriptedCluster) -> None:
    """What a controller puts into a new namespace."""
    key = ("configmaps", "ns-2", "of-a-controller")
    if ("namespaces", "", "ns-2") in world.objects and key not in world.objects:
        world.put(configmap("of-a-controller", "ns-2", data={"a": "1"}))
        world.put(configmap("of-a-controller-and-other", "ns-2", data={"a": "2"}))


async def run(
    harness: Harness, store: DyingStore, life: Life, policy: str, *, is_resumed: bool
) -> tuple[Any, Any]:
    """One life of the restore: its outcomes and results. Raises Killed."""
    world, store.life = harness.world, life

    def before(verb: str, *_: str) -> None:
        if verb not in READS:
            life.before()

    def after(verb: str, *_: str) -> None:
        if verb not in READS:
            life.after()

    world.before, world.after = before, after
    journal = RestoreJournal()
    harness.request_fields = {"journal": journal}
    try:
        await journal.begin(
            store, RESTORE, LABELS, now=world.clock.now(), patience=None, is_resumed=is_resumed
        )
        results = await harness.restore(
            *IN_BACKUP,
            existing_resource_policy=policy,
            restore_status=RestoreStatusSpec(included_resources=["deployments"]),
        )
    except BaseExceptionGroup as error:
        raise Killed from error
    return harness.outcomes.details(with_created=True), results.to_dict()


def seen(world: ScriptedCluster) -> dict[Any, JSONObject]:
    """The objects of a cluster, without what no two runs have alike."""
    found = {}
    for key, each in world.objects.items():
        metadata = {
            name: value
            for name, value in each["metadata"].items()
            if name not in ("uid", "resourceVersion", "creationTimestamp", "generation")
        }
        found[key] = {**each, "metadata": metadata}
    return found


@pytest.mark.parametrize("is_told", [True, False], ids=["before a write", "without its answer"])
@pytest.mark.parametrize("policy", ["none", "update", "recreate"])
async def test_a_restore_that_died_at_any_write_ends_like_an_undisturbed_one(
    tmp_path: Path, store: DyingStore, policy: str, is_told: bool
) -> None:
    undisturbed = Harness(tmp_path, cluster_of(policy))
    whole = Life()
    wanted = await run(undisturbed, store, whole, policy, is_resumed=False)
    assert whole.done > 8

    for writes in range(whole.done):
        await store.delete_restore_journal("restore-1", "uid-1")
        harness = Harness(tmp_path, cluster_of(policy))
        with contextlib.suppress(Killed):
            await run(harness, store, Life(writes, is_told), policy, is_resumed=False)
        control(harness.world)
        harness.world.clock.turn(timedelta(minutes=5))
        found = await run(harness, store, Life(), policy, is_resumed=True)

        assert found == wanted, writes
        assert seen(harness.world) == seen(undisturbed.world), writes


async def test_a_job_that_ran_and_is_gone_is_not_created_again(tmp_path: Path, store: DyingStore) -> None:
    harness, key = Harness(tmp_path, cluster_of("none")), ("jobs.batch", "ns-1", "once")
    whole = await run(harness, store, Life(), "none", is_resumed=False)
    del harness.world.objects[key]

    found = await run(harness, store, Life(), "none", is_resumed=True)

    assert found == whole
    assert key not in harness.world.objects


async def test_objects_of_a_former_restore_of_the_name_are_not_the_own_ones(
    tmp_path: Path, store: DyingStore
) -> None:
    harness = Harness(tmp_path, cluster_of("none"))
    await run(harness, store, Life(), "none", is_resumed=False)

    details, _ = await run(harness, store, Life(), "none", is_resumed=True)

    (different,) = [group for group in details["groups"] if group["outcome"] == "different"]
    assert "ns-1/new" in different["objects"]["v1/ConfigMap"]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"about": "volume", "name": "v"}], "does not say when"),
        ([{"about": "restore", "at": "yesterday"}], "does not say when"),
        ([{"about": "something"}], "cannot be read"),
        ([{"about": "restore", "at": 7}], "cannot be read"),
    ],
)
async def test_a_restore_whose_journal_is_damaged_is_not_resumed(
    store: DyingStore, entries: list[JSONObject], said: str
) -> None:
    await store.put_restore_journal("restore-1", "uid-1", 1, entries)

    with pytest.raises(RestoreFailed, match=f"cannot be resumed.*{said}"):
        await RestoreJournal().begin(store, RESTORE, LABELS, now=RESTORED_AT, patience=None, is_resumed=True)


class RefusingStore(DyingStore):
    """A location that takes a number of files."""

    left = 0

    async def put_restore_journal(
        self, restore: str, owner: str, number: int, entries: Sequence[Mapping[str, Any]]
    ) -> None:
        if not self.left:
            raise StorageError("you may not write")
        self.left -= 1
        await super().put_restore_journal(restore, owner, number, entries)


@pytest.mark.parametrize("taken", [0, 1])
async def test_a_location_that_takes_no_journal_does_not_disturb_the_restore(
    tmp_path: Path, taken: int
) -> None:
    harness = Harness(tmp_path, cluster_of("update"))
    async with RefusingStore(FilesystemStore(tmp_path), Layout(""), location="default") as store:
        store.left = taken
        found = await run(harness, store, Life(), "update", is_resumed=False)

    journal: RestoreJournal = harness.request_fields["journal"]
    assert journal.problem == "you may not write"
    undisturbed = Harness(tmp_path, cluster_of("update"))
    assert found == await run(undisturbed, store, Life(), "update", is_resumed=False)


async def test_entries_that_come_during_a_write_share_the_next_file(store: DyingStore) -> None:
    journal = RestoreJournal()
    await journal.begin(store, RESTORE, LABELS, now=RESTORED_AT, patience=None, is_resumed=False)

    await asyncio.gather(*(journal.note(NamespaceEntry(name=f"ns-{number}")) for number in range(100)))

    entries, files = await store.read_restore_journal("restore-1", "uid-1", most=1000)
    assert {entry["name"] for entry in entries[1:]} == {f"ns-{number}" for number in range(100)}
    assert files == 3  # the begin, the first, all others
    with pytest.raises(UnreadableObject, match="more than 50 entries"):
        await store.read_restore_journal("restore-1", "uid-1", most=50)
    await store.delete_restore_journal("restore-1", "uid-1")
    assert await store.list_restores() == []


async def test_a_restore_of_a_command_is_found_in_its_journal(store: DyingStore) -> None:
    local = Restore(metadata=ObjectMeta(name="restore-1"), spec=RestoreSpec(backup_name="backup-1"))
    await RestoreJournal().begin(store, local, LABELS, now=RESTORED_AT, patience=None, is_resumed=False)

    kept = await begun_restore(store, "restore-1")

    assert kept is not None
    assert decode(Restore, kept).spec == local.spec
    assert await begun_restore(store, "another") is None


@pytest.mark.parametrize(
    ("outcome", "uid", "is_own"),
    [("updated", "uid-1", False), ("recreated", "uid-1", False), ("recreated", "uid-0", True)],
)
async def test_an_object_that_existed_is_own_only_once_it_was_created_again(
    store: DyingStore, outcome: str, uid: str, is_own: bool
) -> None:
    entry = {"about": "object", "resource": "pods", "namespace": "ns-1", "name": "p"}
    begun = {"about": "restore", "at": "2021-08-11T00:00:00Z"}
    await store.put_restore_journal(
        "restore-1", "uid-1", 1, [begun, {**entry, "uid": uid, "outcome": outcome}]
    )
    journal = RestoreJournal()
    await journal.begin(store, RESTORE, LABELS, now=RESTORED_AT, patience=None, is_resumed=True)
    metadata = {"namespace": "ns-1", "name": "p", "uid": "uid-1", "creationTimestamp": "2021-08-11T00:00:01Z"}

    assert journal.is_own("pods", {"metadata": {**metadata, "labels": LABELS}}) == is_own
    assert journal.is_own("pods", {"metadata": {**metadata, "name": "q", "labels": LABELS}})
    assert not journal.is_own("pods", {"metadata": {**metadata, "name": "q"}})
