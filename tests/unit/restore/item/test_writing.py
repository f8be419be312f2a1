"""Create requests without an answer: the object of the attempt is found, and never mistaken for another."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from pinnace.api.objects import JSONObject
from pinnace.archive.runlog import RunLog
from pinnace.kube.errors import AlreadyExists, ConnectionFailed, Forbidden, KubeError, NotSent
from pinnace.kube.resources import CONFIGMAPS, APIResource
from pinnace.restore.cluster import TargetCluster
from pinnace.restore.item.writing import ClusterWriter
from tests.support.clock import LeapingClock
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.restore.world import Harness, configmap, obj, pod, world_of


class LossyWorld(ScriptedCluster):
    """A world as it is behind a client whose first attempt at each create was carried out and not answered.

    Attributes:
        acts: whether the lost attempt made the object.
    """

    acts = True

    async def create_bytes(
        self, resource: APIResource, body: bytes, namespace: str | None = None, *, field_manager: str = ""
    ) -> bytes:
        try:
            if self.acts:
                await super().create_bytes(resource, body, namespace, field_manager=field_manager)
            return await super().create_bytes(resource, body, namespace, field_manager=field_manager)
        except AlreadyExists as error:
            error.after_open_attempt = True
            raise


def always(answer: bool) -> Callable[[JSONObject], bool]:
    return lambda found: answer


async def create(world: ScriptedCluster, *, ours: bool = True) -> JSONObject:
    body = orjson.dumps(configmap("one", data={"from": "us"}))
    target = TargetCluster(
        client=world, log=RunLog(None, fields={}), clock=LeapingClock(), terminating_timeout_seconds=60
    )
    writer = ClusterWriter(target)
    answer = await writer.create(CONFIGMAPS, "one", body, "ns-1", is_ours=always(ours))
    created: JSONObject = orjson.loads(answer)
    return created


@pytest.mark.parametrize("acts", [False, True], ids=["not-done", "done"])
async def test_the_object_of_an_attempt_without_answer_is_found(acts: bool) -> None:
    world = LossyWorld()
    world.acts = acts
    assert (await create(world))["data"] == {"from": "us"}
    assert world.created == [("configmaps", "ns-1", "one")]


class SilentWorld(ScriptedCluster):
    """A world as it is behind a client none of whose attempts at a create was answered."""

    acts = True

    async def create_bytes(
        self, resource: APIResource, body: bytes, namespace: str | None = None, *, field_manager: str = ""
    ) -> bytes:
        if self.acts:
            await super().create_bytes(resource, body, namespace, field_manager=field_manager)
        raise ConnectionFailed("the connection was lost")


async def test_an_object_is_found_although_no_attempt_was_answered() -> None:
    assert (await create(SilentWorld()))["data"] == {"from": "us"}


async def test_an_attempt_without_answer_that_created_nothing_is_an_error() -> None:
    world = SilentWorld()
    world.acts = False
    with pytest.raises(ConnectionFailed, match="the connection was lost"):
        await create(world)


async def test_an_attempt_without_answer_is_an_error_if_the_object_cannot_be_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = SilentWorld()

    async def get(*_args: object) -> JSONObject:
        raise NotSent("connection refused")

    monkeypatch.setattr(world, "get", get)
    with pytest.raises(ConnectionFailed, match="the connection was lost"):
        await create(world)


async def test_an_object_that_was_there_before_is_not_looked_at() -> None:
    world = world_of(configmap("one", data={"from": "them"}))
    with pytest.raises(AlreadyExists):
        await create(world)


async def test_an_object_that_another_client_created_is_not_taken_for_the_own_one() -> None:
    world = LossyWorld()
    world.put(configmap("one", data={"from": "them"}))
    with pytest.raises(AlreadyExists):
        await create(world, ours=False)


async def test_a_refusal_is_final() -> None:
    world = world_of()
    refusal: KubeError = Forbidden(403)
    world.refuse("create", ("configmaps", "ns-1", "one"), refusal)
    with pytest.raises(Forbidden):
        await create(world)


class TestInARestore:
    async def test_after_a_lost_answer_namespace_and_item_count_as_created(self, tmp_path: Path) -> None:
        world = LossyWorld()
        harness = Harness(tmp_path, world)
        results = await harness.restore(configmap("one"))

        assert results.to_dict() == {"errors": {}, "warnings": {}}
        assert world.created == [("namespaces", "", "ns-1"), ("configmaps", "ns-1", "one")]
        assert harness.numbers.published[-1] == (2, 2)

    async def test_after_a_lost_answer_the_follow_ups_are_started(self, tmp_path: Path) -> None:
        """A pod with hooks: the warning that they are not run shows that the follow-up was started."""
        annotations = {"post.hook.restore.velero.io/command": "true"}
        results = await Harness(tmp_path, LossyWorld()).restore(
            pod("one", spec={"containers": [{"name": "main"}]}, annotations=annotations)
        )

        (warning,) = results.to_dict()["warnings"]["namespaces"]["ns-1"]
        assert "exec restore hooks of pods/ns-1/one were not executed" in warning

    async def test_another_object_of_that_name_is_still_a_warning(self, tmp_path: Path) -> None:
        theirs = configmap("one", data={"from": "them"})
        world = LossyWorld()
        for existing in (obj("Namespace", "ns-1"), theirs):
            world.put(existing)
        results = await Harness(tmp_path, world).restore(configmap("one", data={"from": "us"}))

        (warning,) = results.to_dict()["warnings"]["namespaces"]["ns-1"]
        assert "the in-cluster version is different" in warning
        assert world.item("configmaps", "ns-1", "one")["data"] == {"from": "them"}
