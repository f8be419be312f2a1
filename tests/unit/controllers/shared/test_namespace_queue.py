"""No two restores write to one namespace at a time, and nobody is overtaken for ever."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.phases import RestorePhase
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.controllers.shared.namespace_queue import NamespaceQueue, Targets, targets_of
from pinnace.controllers.shared.runs import RESTORE_RUNS, RunDecision, RunReconciler
from pinnace.controllers.shared.settling import Settler
from pinnace.kube.errors import Forbidden, KubeError
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import RECORD_ATTRIBUTE
from pinnace.runtime.queue import RateLimitedQueue
from tests.support.waiting import eventually
from tests.unit.controllers.fakes import NAMESPACE, World, fail_once, key

NOON = datetime(2021, 8, 11, 12, 0, tzinfo=UTC)


def restore(*included: str, minute: int = 0, mapping: dict[str, str] | None = None) -> Restore:
    metadata = ObjectMeta(name="r", creation_timestamp=NOON + timedelta(minutes=minute))
    spec = RestoreSpec(included_namespaces=list(included), namespace_mapping=mapping or {})
    return Restore(metadata=metadata, spec=spec)


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (RestoreSpec(), None),
        (RestoreSpec(included_namespaces=["*"]), None),
        (RestoreSpec(included_namespaces=["a", "b*"]), None),
        (RestoreSpec(excluded_namespaces=["a"]), None),
        (RestoreSpec(included_namespaces=["a", "b"]), {"a", "b"}),
        (RestoreSpec(included_namespaces=["a", "b"], namespace_mapping={"a": "x", "c": "y"}), {"x", "b"}),
        (RestoreSpec(included_namespaces=["a", "b"], namespace_mapping={"a": "b"}), {"b"}),
        (RestoreSpec(included_namespaces=["a", "b"], excluded_namespaces=["b"]), {"a"}),
        (RestoreSpec(included_namespaces=["a"], excluded_namespaces=["a*"]), set()),
    ],
)
def test_the_targets_of_a_restore_follow_its_spec(spec: RestoreSpec, names: set[str] | None) -> None:
    assert targets_of(spec) == Targets(None if names is None else frozenset(names))


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        (None, None, True),
        (None, {"a"}, True),
        (None, set(), True),
        ({"a", "b"}, {"b", "c"}, True),
        ({"a"}, {"b"}, False),
        (set(), {"a"}, False),
    ],
)
def test_which_targets_overlap(one: set[str] | None, other: set[str] | None, overlaps: bool) -> None:
    first, second = (Targets(None if names is None else frozenset(names)) for names in (one, other))
    assert first.overlaps(second) is second.overlaps(first) is overlaps


class RecordedQueue:
    """A queue, and the names that were woken and not started again yet."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.queue = NamespaceQueue(lambda woken: self.woken.append(woken.name))

    def begin(self, name: str, run: Restore) -> bool:
        return self.queue.try_start(key(name), run, targets_of(run.spec))

    def leave(self, name: str) -> list[str]:
        self.woken.clear()
        self.queue.remove(key(name))
        return self.woken


def test_a_waiting_restore_is_woken_when_its_namespaces_are_free(caplog: pytest.LogCaptureFixture) -> None:
    recorded = RecordedQueue()
    with caplog.at_level(logging.INFO):
        assert recorded.begin("r1", restore("a"))
        assert not recorded.begin("r2", restore("x", mapping={"x": "a"}, minute=1))
        assert not recorded.begin("r2", restore("x", mapping={"x": "a"}, minute=1))
    assert recorded.begin("r3", restore("b", minute=2))
    [said] = caplog.records
    assert "waits for another" in said.getMessage()
    assert vars(said)[RECORD_ATTRIBUTE] == {"waits_for": f"{NAMESPACE}/r1", "namespaces": "a"}

    assert recorded.leave("r3") == []
    assert recorded.leave("r1") == ["r2"]
    assert recorded.begin("r2", restore("x", mapping={"x": "a"}, minute=1))
    assert recorded.leave("unknown") == []


@pytest.mark.found("Z3")
def test_a_restore_that_waits_for_a_long_one_keeps_no_other_namespace_waiting() -> None:
    recorded = RecordedQueue()
    assert recorded.begin("long", restore("a"))
    assert not recorded.begin("all", restore("*", minute=1))
    for number in range(50):
        assert recorded.begin(f"b{number}", restore("b", minute=2 + number))
        assert not recorded.begin("same", restore("a", "b", minute=2 + number))
        recorded.leave(f"b{number}")
        recorded.leave("same")


@pytest.mark.found("Z3")
def test_a_restore_is_not_overtaken_once_only_those_that_overtook_it_run() -> None:
    """Without that, restores into one namespace could keep one into all of them waiting for ever."""
    recorded = RecordedQueue()
    assert recorded.begin("r1", restore("a"))
    assert not recorded.begin("all", restore("*", minute=1))
    assert recorded.begin("r2", restore("b", minute=2))
    assert not recorded.begin("some", restore("a", "c", minute=3))

    assert recorded.leave("r1") == []  # r2 still runs
    assert not recorded.begin("r3", restore("c", minute=4))
    assert not recorded.begin("r4", restore("b", minute=5))
    assert recorded.leave("r2") == ["all"]
    assert not recorded.begin("r3", restore("c", minute=4))  # looked at again before the elder was
    assert recorded.begin("all", restore("*", minute=1))
    assert recorded.leave("all") == ["some", "r4"]


@pytest.mark.found("Z3")
def test_endless_restores_of_other_namespaces_do_not_starve_one_of_all() -> None:
    recorded = RecordedQueue()
    assert recorded.begin("r0", restore("a"))
    assert not recorded.begin("all", restore("*", minute=1))
    for number in range(1, 20):
        began = recorded.begin(f"r{number}", restore("ab"[number % 2], minute=1 + number))
        assert began == (number == 1)  # b overtakes while r0 runs, nothing after that
        if number == 2:
            recorded.leave("r0")
        if number == 4:
            assert recorded.leave("r1") == ["all"]
    assert recorded.begin("all", restore("*", minute=1))


def test_the_older_restore_starts_first_even_if_it_is_seen_later() -> None:
    """As after a restart, or when a name is retried."""
    recorded = RecordedQueue()
    assert recorded.begin("r1", restore("a"))
    assert not recorded.begin("younger", restore("a", minute=2))
    assert not recorded.begin("elder", restore("a", minute=1))
    assert recorded.leave("r1") == ["elder"]


def test_removing_a_waiting_restore_wakes_those_it_blocked() -> None:
    recorded = RecordedQueue()
    assert recorded.begin("r1", restore("a"))
    assert not recorded.begin("deleted", restore("a", "b", minute=1))
    assert recorded.begin("overtaker", restore("b", minute=2))
    assert recorded.leave("r1") == []
    assert not recorded.begin("r3", restore("a", minute=3))
    assert recorded.leave("deleted") == ["r3"]


def test_an_edited_restore_takes_and_frees_what_it_says_now() -> None:
    recorded = RecordedQueue()
    assert recorded.begin("r1", restore("a"))
    assert not recorded.begin("r2", restore("a", "b", minute=1))
    assert recorded.begin("overtaker", restore("b", minute=2))
    assert recorded.leave("r1") == []
    assert not recorded.begin("r3", restore("a", minute=3))
    assert recorded.begin("r2", restore("c", minute=1))
    assert recorded.woken == ["r3"]


def test_a_party_that_was_served_in_vain_lets_the_older_request_start_first() -> None:
    """Two conflicts at the first patch, say, while another was created earlier and heard of later."""
    recorded = RecordedQueue()
    assert recorded.begin("younger", restore("a", minute=1))
    assert not recorded.begin("elder", restore("a"))
    assert not recorded.begin("younger", restore("a", minute=1))
    assert recorded.woken == ["elder"]
    assert recorded.begin("elder", restore("a"))


@given(
    st.lists(
        st.tuples(st.sampled_from(["begin", "leave"]), st.integers(0, 5), st.sets(st.sampled_from("abc"))),
        max_size=40,
    )
)
def test_no_two_run_in_one_namespace_and_all_run_in_the_end(steps: list[tuple[str, int, set[str]]]) -> None:
    wanted: dict[str, Restore] = {}
    running: dict[str, Targets] = {}
    woken: list[str] = []
    queue = NamespaceQueue(lambda one: woken.append(one.name))

    def begin(name: str) -> None:
        if queue.try_start(key(name), wanted[name], targets_of(wanted[name].spec)):
            mine = targets_of(wanted[name].spec)
            assert not any(mine.overlaps(other) for former, other in running.items() if former != name)
            running[name] = mine

    def leave(name: str) -> None:
        queue.remove(key(name))
        wanted.pop(name, None)
        running.pop(name, None)

    for step, number, names in steps:
        name = f"r{number}"
        if step == "leave":
            leave(name)
        elif name not in wanted:
            wanted[name] = restore(*names, minute=number)
            begin(name)
    # Each waiting restore is woken in the end, by the removal of others alone.
    for _ in range(20):
        while woken:
            name = woken.pop(0)
            if name in wanted and name not in running:
                begin(name)
        if running:
            leave(next(iter(running)))
    assert wanted == {}


def key_of(tenant: str, number: int) -> Key:
    return Key(NAMESPACE, f"{tenant}-{number}")


def test_a_party_with_many_entries_delays_another_party_by_one() -> None:
    queue = NamespaceQueue(lambda _key: None, party_of=lambda key: key.name.split("-")[0])
    everything, own = Targets(None), Targets(frozenset({"own"}))
    starts = [queue.try_start(key_of("tenant", n), restore("own", minute=n), own) for n in range(50)]
    assert starts == [True, *[False] * 49]
    assert not queue.try_start(key_of("admin", 0), restore("*", minute=100), everything)

    queue.remove(key_of("tenant", 0))
    assert queue.try_start(key_of("tenant", 1), restore("own", minute=1), own)
    queue.remove(key_of("tenant", 1))

    assert not queue.try_start(key_of("tenant", 2), restore("own", minute=2), own)
    assert queue.try_start(key_of("admin", 0), restore("*", minute=100), everything)


class Restores:
    """Some workers at one queue, and restores that run until they are let go."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.queue: RateLimitedQueue[Key] = RateLimitedQueue()
        self.running: dict[str, asyncio.Event] = {}
        self.reconciler = RunReconciler(
            world.scope,
            RESTORE_RUNS,
            self,
            Settler(world.scope, world.locations),
            queue=NamespaceQueue(self.queue.add),
        )

    def add(self, name: str, *included: str) -> None:
        self.world.cluster.add("restores", name, spec={"includedNamespaces": list(included)})
        self.queue.add(key(name))

    async def plan(self, run: Restore, caveats: Sequence[str] = ()) -> RunDecision[Restore]:
        status = msgspec.structs.replace(
            run.status, phase=RestorePhase.IN_PROGRESS, start_timestamp=self.world.clock.now()
        )
        if run.spec.included_namespaces == ["invalid"]:
            status.phase = RestorePhase.FAILED_VALIDATION
            return RunDecision(begun=msgspec.structs.replace(run, status=status))
        return RunDecision(
            begun=msgspec.structs.replace(run, status=status),
            execute=self._execute,
            targets=targets_of(run.spec),
        )

    async def _execute(self, run: Restore, read: JSONObject) -> Restore:
        name = run.metadata.name
        self.running[name] = asyncio.Event()
        try:
            await self.running[name].wait()
        finally:
            del self.running[name]
        return msgspec.structs.replace(
            run, status=msgspec.structs.replace(run.status, phase=RestorePhase.COMPLETED)
        )

    def taken(self, run: Restore) -> None: ...

    def ended(self, run: Restore) -> None: ...

    async def work(self) -> None:
        while True:
            taken = await self.queue.get()
            try:
                await self.reconciler.reconcile(taken)
            except KubeError:
                self.queue.add(taken)
            finally:
                self.queue.done(taken)

    async def runs(self, *names: str) -> None:
        async def check() -> bool:
            return set(self.running) == set(names) and not len(self.queue)

        await eventually(check)

    def phase(self, name: str) -> str:
        return str(self.world.cluster.status("restores", name).get("phase"))


@pytest.fixture
async def restores(world: World) -> AsyncIterator[Restores]:
    """With three workers."""
    made = Restores(world)
    workers = [asyncio.create_task(made.work()) for _ in range(3)]
    yield made
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers)


async def test_a_waiting_restore_stays_new_and_holds_no_worker(restores: Restores) -> None:
    restores.add("r1", "a")
    await restores.runs("r1")
    for name in ("r2", "r3", "r4"):
        restores.add(name, "a")
    restores.add("other", "b")
    restores.add("bad", "invalid")
    await restores.runs("r1", "other")

    assert restores.phase("r2") == restores.phase("r3") == restores.phase("r4") == "None"
    assert restores.phase("bad") == "FailedValidation"
    for name in ("r1", "r2", "r3", "r4"):
        await restores.runs(name, "other")
        restores.running[name].set()
    await restores.runs("other")
    assert {restores.phase(name) for name in ("r1", "r2", "r3", "r4")} == {"Completed"}


async def test_a_deleted_waiting_restore_blocks_no_other(restores: Restores) -> None:
    restores.add("r1", "a")
    restores.add("r2", "a", "b")
    await restores.runs("r1")
    restores.add("overtaker", "b")
    await restores.runs("r1", "overtaker")
    restores.running["r1"].set()
    await restores.runs("overtaker")
    restores.add("r3", "a")
    await restores.runs("overtaker")
    assert restores.phase("r3") == "None"

    restores.world.cluster.vanish("restores", "r2")
    restores.queue.add(key("r2"))

    await restores.runs("overtaker", "r3")
    assert (restores.phase("overtaker"), restores.phase("r3")) == ("InProgress", "InProgress")
    assert "r2" not in restores.running


async def test_namespaces_stay_taken_while_it_is_unknown_whether_the_restore_began(
    restores: Restores,
) -> None:
    restores.world.cluster.after = fail_once("patch", "restores", "r1")
    restores.add("r1", "a")
    restores.add("r2", "a")

    await restores.runs("r1")

    assert (restores.phase("r1"), restores.phase("r2")) == ("InProgress", "None")
    restores.running["r1"].set()
    await restores.runs("r2")


async def test_namespaces_are_free_even_if_the_end_cannot_be_stored(restores: Restores) -> None:
    restores.add("r1", "a")
    restores.add("r2", "a")
    await restores.runs("r1")
    restores.world.cluster.before = fail_once("patch", "restores", "r1", error=Forbidden(403, message="no"))

    restores.running["r1"].set()  # its end cannot be stored

    await restores.runs("r2")
    assert restores.phase("r1") == "InProgress"
