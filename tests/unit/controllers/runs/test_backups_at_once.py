"""Several backups at once: those that work on the same namespaces run one after the other. (docs/adr/042)"""

import asyncio

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.backup.request import ServerDefaults
from pinnace.controllers.backup import BackupWork, Scheduling
from pinnace.controllers.shared.namespace_queue import NamespaceQueue, Targets
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Forbidden
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.keys import Key
from tests.support.tasks import settled
from tests.unit.controllers.fakes import NAMESPACE, World, fail_always


class Backups:
    """A queue of backups in a cluster with the namespaces ns1 and ns2."""

    def __init__(self, world: World) -> None:
        self.woken: list[str] = []
        self.queue = NamespaceQueue(lambda key: self.woken.append(key.name))
        scheduling = Scheduling(namespaces=self.queue)
        self.work = BackupWork(world.scope, world.locations, defaults=ServerDefaults(), scheduling=scheduling)
        world.add_location("default", default=True)
        for name in ("ns1", "ns2"):
            world.cluster.add("namespaces", name, namespace="")

    async def targets(self, *included: str, excluded: tuple[str, ...] = ()) -> Targets:
        return await self.work._targets(
            BackupSpec(included_namespaces=list(included), excluded_namespaces=list(excluded))
        )

    async def starts(self, name: str, *included: str) -> bool:
        backup = Backup(
            metadata=ObjectMeta(name=name, namespace=NAMESPACE),
            spec=BackupSpec(included_namespaces=list(included)),
        )
        plan = await self.work.plan(backup)
        assert plan.execute is not None, plan.begun.status.validation_errors
        return self.queue.try_start(Key(NAMESPACE, name), plan.begun, plan.targets)


@pytest.fixture
def backups(world: World, monkeypatch: pytest.MonkeyPatch) -> Backups:
    async def load(*_args: object, **_kwargs: object) -> Discovery:
        return Discovery([])

    monkeypatch.setattr(Discovery, "load", load)
    return Backups(world)


@pytest.mark.spec("BEY-041")
async def test_one_worker_takes_one_backup_at_a_time() -> None:
    begun: asyncio.Queue[str] = asyncio.Queue()
    go_on = asyncio.Event()

    async def reconcile(key: Key) -> Result:
        begun.put_nowait(key.name)
        await go_on.wait()
        return DONE

    made = Controller("backup", reconcile, workers=1)
    running = asyncio.create_task(made.run())
    for name in ("a", "b"):
        made.enqueue(Key(NAMESPACE, name))
    assert await begun.get() == "a"
    await settled()
    assert begun.empty()

    go_on.set()
    assert await begun.get() == "b"
    made.stop()
    await running


@pytest.mark.parametrize(
    ("running", "waiting", "starts"),
    [
        pytest.param("no-such", ["ns1"], ["b"], marks=pytest.mark.spec("BEY-041")),
        pytest.param("ns1", ["ns2"], ["b"], marks=pytest.mark.spec("BEY-041")),
        pytest.param("ns1", ["ns1", "ns2"], ["c"], marks=pytest.mark.spec("BEY-041")),
        pytest.param("ns1", ["ns*", "ns2"], ["c"], marks=pytest.mark.spec("BEY-041")),
        pytest.param("*", ["ns1"], [], marks=pytest.mark.spec("BEY-042")),
        pytest.param("ns1", ["*"], [], marks=pytest.mark.spec("BEY-042")),
        pytest.param("no-such", ["*"], ["b"], marks=pytest.mark.spec("BEY-042")),
    ],
)
async def test_a_backup_starts_if_no_earlier_one_works_on_its_namespaces(
    backups: Backups, running: str, waiting: list[str], starts: list[str]
) -> None:
    assert await backups.starts("a", running)

    found = [name for name, spec in zip("bc", waiting, strict=False) if await backups.starts(name, spec)]

    assert found == starts


@pytest.mark.spec("BEY-044")
async def test_a_backup_that_has_read_the_cluster_holds_no_other(backups: Backups) -> None:
    """So a location that hangs in the middle of an upload keeps its worker, but no namespace."""
    assert await backups.starts("a", "*")
    assert not await backups.starts("b", "ns1")

    backups.work._collected(Key(NAMESPACE, "a"), "", 1)

    assert backups.woken == ["b"]
    assert await backups.starts("b", "ns1")


async def test_patterns_and_exclusions_are_taken_of_the_namespaces_that_exist(backups: Backups) -> None:
    assert await backups.targets("ns*", excluded=("ns2",)) == Targets(frozenset({"ns1"}))


async def test_without_the_right_to_list_namespaces_a_backup_overlaps_with_all(
    backups: Backups, world: World
) -> None:
    denied = Forbidden(403, reason="Forbidden", message="you may not")
    world.cluster.before = fail_always("list", "namespaces", error=denied)

    assert await backups.targets("ns1") == Targets(None)
