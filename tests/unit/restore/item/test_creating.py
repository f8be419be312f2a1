"""Creates whose answer does not come: repeated where that can do no harm, and never taken for another's."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import (
    AlreadyExists,
    ConnectionFailed,
    DeadlineExceeded,
    Forbidden,
    Invalid,
    KubeError,
    NotSent,
    NotTrusted,
    ServerFault,
    TooManyRequests,
)
from pinnace.kube.resources import CONFIGMAPS, APIResource
from pinnace.restore.item.creating import ATTEMPTS, Creator
from tests.unit.restore.world import (
    Harness,
    PatientTimer,
    World,
    configmap,
    obj,
    pod,
)

LOST = ConnectionFailed("cut")


class FaultyWorld(World):
    """A world that fails the first attempts to create an object, before or after it acted."""

    def __init__(self, *objects: JSONObject) -> None:
        super().__init__(*objects)
        self.errors: list[KubeError] = []
        self.acts = False
        self.attempts = 0

    async def create_bytes(self, resource: APIResource, body: bytes, namespace: str | None = None) -> bytes:
        self.attempts += 1
        if not self.errors:
            return await super().create_bytes(resource, body, namespace)
        error = self.errors.pop()
        if self.acts:
            await super().create_bytes(resource, body, namespace)
        raise error


def always(answer: bool) -> Callable[[JSONObject], bool]:
    return lambda found: answer


async def create(world: World, timer: PatientTimer, *, ours: bool = True) -> JSONObject:
    body = orjson.dumps(configmap("one", data={"from": "us"}))
    answer = await Creator(world, timer).create(CONFIGMAPS, "one", body, "ns-1", is_ours=always(ours))
    created: JSONObject = orjson.loads(answer)
    return created


@pytest.mark.parametrize(
    "error",
    [LOST, DeadlineExceeded("late"), ServerFault(500), ServerFault(502), ServerFault(503), ServerFault(504)],
    ids=["cut", "late", "500", "502", "503", "504"],
)
@pytest.mark.parametrize("acts", [False, True], ids=["not-done", "done"])
async def test_a_failure_that_leaves_it_open_is_tried_again(error: KubeError, acts: bool) -> None:
    world, timer = FaultyWorld(), PatientTimer()
    world.errors, world.acts = [error], acts

    assert (await create(world, timer))["data"] == {"from": "us"}
    assert world.attempts == 2
    assert world.created == [("configmaps", "ns-1", "one")]
    assert 0 < timer.now < 1


@pytest.mark.parametrize(
    "error",
    [
        Forbidden(403),
        Invalid(422),
        TooManyRequests(429),
        ServerFault(501),
        AlreadyExists(409),
        NotSent("unreachable"),
        NotTrusted("certificate"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_clear_answer_is_final(error: KubeError) -> None:
    world, timer = FaultyWorld(), PatientTimer()
    world.errors = [error]
    with pytest.raises(type(error)):
        await create(world, timer)

    assert world.attempts == 1
    assert timer.now == 0


async def test_a_failure_that_lasts_is_raised_after_a_few_seconds() -> None:
    world, timer = FaultyWorld(), PatientTimer()
    world.errors = [LOST] * (ATTEMPTS + 1)
    with pytest.raises(ConnectionFailed):
        await create(world, timer)

    assert world.attempts == ATTEMPTS
    assert 2 < timer.now < 5


async def test_of_a_silent_server_two_deadlines_are_enough() -> None:
    timer = PatientTimer()

    class Silent(FaultyWorld):
        async def create_bytes(
            self, resource: APIResource, body: bytes, namespace: str | None = None
        ) -> bytes:
            timer.now += 30
            return await super().create_bytes(resource, body, namespace)

    world = Silent()
    world.errors = [DeadlineExceeded("late")] * ATTEMPTS
    with pytest.raises(DeadlineExceeded):
        await create(world, timer)

    assert world.attempts == 2


async def test_what_somebody_else_made_meanwhile_is_not_ours() -> None:
    world, timer = FaultyWorld(configmap("one", data={"from": "them"})), PatientTimer()
    world.errors = [LOST]
    with pytest.raises(AlreadyExists):
        await create(world, timer, ours=False)


class TestInARestore:
    @pytest.fixture
    def world(self) -> FaultyWorld:
        world = FaultyWorld()
        world.acts = True
        return world

    async def test_a_lost_answer_costs_neither_namespace_nor_item(
        self, tmp_path: Path, world: FaultyWorld
    ) -> None:
        world.errors = [LOST, LOST]
        harness = Harness(tmp_path, world)
        results = await harness.restore(configmap("one"))

        assert results.to_dict() == {"errors": {}, "warnings": {}}
        assert world.created == [("namespaces", "", "ns-1"), ("configmaps", "ns-1", "one")]
        assert harness.numbers.published[-1] == (2, 2)

    async def test_what_follows_a_creation_follows_all_the_same(
        self, tmp_path: Path, world: FaultyWorld
    ) -> None:
        """A pod with hooks: the warning that nobody runs them shows that they were thought of."""
        world.errors = [LOST, LOST]
        annotations = {"post.hook.restore.velero.io/command": "true"}
        results = await Harness(tmp_path, world).restore(
            pod("one", spec={"containers": [{"name": "main"}]}, annotations=annotations)
        )

        (warning,) = results.to_dict()["warnings"]["namespaces"]["ns-1"]
        assert "exec restore hooks of pods/ns-1/one were not executed" in warning

    async def test_another_object_of_that_name_is_still_a_warning(self, tmp_path: Path) -> None:
        theirs = configmap("one", data={"from": "them"})
        world = FaultyWorld(obj("Namespace", "ns-1"), theirs)
        world.errors = [LOST]
        results = await Harness(tmp_path, world).restore(configmap("one", data={"from": "us"}))

        (warning,) = results.to_dict()["warnings"]["namespaces"]["ns-1"]
        assert "the in-cluster version is different" in warning
        assert world.item("configmaps", "ns-1", "one")["data"] == {"from": "them"}
