"""What Backups and Restores show while they wait, and that it decides nothing. (docs/adr/046)"""

from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace.api.labels import WAITS_FOR
from pinnace.api.objects import JSONObject
from pinnace.api.values.queue_positions import NEAR
from pinnace.api.velero.backup import Backup
from pinnace.controllers.shared.lanes import limit_text
from pinnace.controllers.shared.namespace_queue import NamespaceQueue, Targets
from pinnace.controllers.waiting_runs import MOST_SHOWN, QueuedRuns, WaitingRuns
from pinnace.kube.errors import Conflict, Invalid, KubeError
from pinnace.kube.resources import BACKUPS, RESTORES
from pinnace.runtime.keys import Key
from pinnace.runtime.queue import Share
from tests.unit.controllers.fakes import Cached, World, fail_always, fail_once, key


class Scene:
    def __init__(self, world: World, plural: str = "backups") -> None:
        self.world = world
        self.plural = plural
        self.in_flight: set[Key] = set()
        self.order: NamespaceQueue | None = None
        self.limit: Callable[[Key], str] = lambda _key: ""
        self.restart()

    def restart(self) -> None:
        resource = BACKUPS if self.plural == "backups" else RESTORES
        self.shown = WaitingRuns(
            self.world.scope,
            QueuedRuns(
                resource=resource,
                cache=Cached(self.world, resource),
                in_flight=self.in_flight,
                queue=self.order,
                has_positions=self.plural == "backups",
                limit=self.limit,
            ),
        )

    def add(self, name: str, minute: int = 0, phase: str = "") -> JSONObject:
        created = f"2021-08-11T21:{minute:02}:00Z"
        status = {"phase": phase} if phase else {}
        return self.world.cluster.add(self.plural, name, creationTimestamp=created, spec={}, status=status)

    async def rounds(self, number: int = 2) -> None:
        for _ in range(number):
            await self.shown.resync()

    def status(self, name: str) -> JSONObject:
        return self.world.cluster.status(self.plural, name)

    def reason(self, name: str) -> str:
        annotations = self.world.cluster.stored(self.plural, name)["metadata"].get("annotations") or {}
        return str(annotations.get(WAITS_FOR, ""))

    @property
    def positions(self) -> dict[str, int | None]:
        return {
            name: self.status(name).get("queuePosition") for name in sorted(self.world.all_of(self.plural))
        }


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(World(tmp_path))


@pytest.mark.spec("BEY-043")
async def test_positions_follow_when_one_leaves_the_queue(scene: Scene) -> None:
    scene.add("runs", phase="InProgress")
    for minute, name in enumerate(("c", "a", "b"), start=1):
        scene.add(name, minute)
    await scene.rounds()
    assert scene.positions == {"a": 2, "b": 3, "c": 1, "runs": None}
    assert scene.status("a")["phase"] == "Queued"
    assert scene.reason("a") == "a free worker of the server, which runs backup runs"

    scene.world.cluster.vanish("backups", "a")
    before = len(scene.world.cluster.writes())
    await scene.rounds()

    assert scene.positions == {"b": 2, "c": 1, "runs": None}
    assert len(scene.world.cluster.writes()) - before == 1


async def test_working_off_a_long_queue_takes_few_writes_and_near_positions_are_right(scene: Scene) -> None:
    names = [f"b{number:03}" for number in range(MOST_SHOWN)]
    for number, name in enumerate(names):
        scene.add(name, number % 60, phase="")
        scene.world.cluster.stored("backups", name)["metadata"]["creationTimestamp"] = (
            f"2021-08-11T{20 + number // 60}:{number % 60:02}:00Z"
        )
    await scene.rounds()
    before = len(scene.world.cluster.writes())
    for done, name in enumerate(names[:-1], start=1):
        scene.world.cluster.stored("backups", name)["status"] = {"phase": "InProgress"}
        await scene.rounds(1)
        due = {each: position for position, each in enumerate(names[done:], start=1)}
        shown = {each: scene.status(each)["queuePosition"] for each in due}
        assert {each: shown[each] for each in names[done : done + NEAR]} == {
            each: due[each] for each in names[done : done + NEAR]
        }
        assert all(due[each] <= shown[each] < 3 * due[each] + 3 for each in due)
        assert scene.reason(names[done]) == f"a free worker of the server, which runs backup {name}"
        scene.world.cluster.stored("backups", name)["status"] = {"phase": "Completed"}

    assert len(scene.world.cluster.writes()) - before <= 6 * MOST_SHOWN


async def test_backups_of_tenants_show_an_estimate_when_they_are_near(scene: Scene) -> None:
    """Their requests show the position, and each write to a Backup looks at its request again."""
    scene.add("runs", phase="InProgress")
    names = [f"b{number}" for number in range(1, NEAR + 3)]
    for minute, name in enumerate(names, start=1):
        annotations = scene.add(name, minute)["metadata"].setdefault("annotations", {})
        annotations["openshift.io/oadp-nab-origin-namespace"] = "tenant"
    await scene.rounds()
    assert [scene.positions[name] for name in names] == [1, 2, 3, None, None]
    assert scene.reason("b1") == scene.reason("b3") == "a free worker of the server"

    shown = {}
    for name in names[:-1]:
        scene.world.cluster.stored("backups", name)["status"] = {"phase": "Completed"}
        await scene.rounds(1)
        shown[name] = [scene.positions[each] for each in names[names.index(name) + 1 :]]

    assert shown == {"b1": [2, 3, 3, None], "b2": [1, 3, 3], "b3": [1, 3], "b4": [1]}


async def test_a_backup_that_begins_at_once_is_never_touched(scene: Scene) -> None:
    scene.add("new")
    await scene.rounds(1)
    scene.in_flight.add(key("new"))
    await scene.rounds(3)
    assert scene.world.cluster.writes() == []


async def test_a_backup_that_waits_for_another_names_it(scene: Scene) -> None:
    scene.order = NamespaceQueue(lambda key: None)
    for minute, name in enumerate(("runs", "blocked", "behind")):
        backup = Backup()
        backup.metadata.name = name
        scene.order.try_start(key(name), backup, Targets(frozenset({"ns"})))
        scene.add(name, 9 - minute, phase="" if minute else "InProgress")
    scene.add("not-planned-yet")
    scene.restart()
    await scene.rounds()

    assert scene.positions == {"behind": 2, "blocked": 1, "not-planned-yet": 3, "runs": None}
    assert scene.reason("blocked") == "backup runs, which may work on the same namespaces"
    assert "a free worker" in scene.reason("not-planned-yet")


async def test_a_restore_has_a_reason_and_no_phase_for_it(tmp_path: Path) -> None:
    scene = Scene(World(tmp_path), "restores")
    scene.add("r")
    await scene.rounds(3)
    assert (scene.status("r"), scene.reason("r")) == ({}, "a free worker of the server")
    assert len(scene.world.cluster.writes()) == 1


async def test_a_long_queue_is_shown_from_its_beginning_only(scene: Scene) -> None:
    for number in range(MOST_SHOWN + 20):
        scene.add(f"b{number:03}", number % 60)
    await scene.rounds(3)
    shown = [position for position in scene.positions.values() if position]
    assert sorted(shown) == list(range(1, MOST_SHOWN + 1))
    assert len(scene.world.cluster.writes()) == MOST_SHOWN


async def test_a_backup_that_has_begun_meanwhile_is_not_changed(scene: Scene) -> None:
    scene.add("a")
    scene.world.cluster.before = fail_always("patch", error=Conflict(409, reason="Conflict"))
    await scene.rounds(3)
    assert scene.status("a") == {}


@pytest.mark.parametrize("error", [Invalid(422, message="phase: Unsupported value")])
async def test_definitions_without_the_phase_get_the_reason_alone(scene: Scene, error: KubeError) -> None:
    scene.add("a")
    scene.world.cluster.before = fail_once("patch", error=error)
    await scene.rounds(4)
    assert scene.status("a") == {}
    assert scene.reason("a") == "a free worker of the server"


async def test_a_backup_that_is_being_deleted_has_no_position(scene: Scene) -> None:
    scene.add("gone")["metadata"]["deletionTimestamp"] = "2021-08-11T21:00:00Z"
    await scene.rounds(3)
    assert scene.world.cluster.writes() == []


@pytest.mark.found("Z3")
@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, ""),
        (Share("workers", 2), ""),
        (Share("location/default", 1), " for location default (at most 1 at a time)"),
        (Share("location/default under way", 2), " for location default (at most 2 at a time)"),
        (Share("tenants", 3), " for tenants (at most 3 at a time)"),
        (Share("tenant/shop", 1), " for tenants (at most 1 at a time)"),
    ],
)
async def test_the_limit_that_keeps_a_backup_from_an_idle_worker_is_shown(
    scene: Scene, share: Share | None, text: str
) -> None:
    scene.limit = lambda _key: limit_text(share)
    scene.restart()
    scene.add("a")
    await scene.rounds()
    assert scene.reason("a") == f"a free worker of the server{text}"
