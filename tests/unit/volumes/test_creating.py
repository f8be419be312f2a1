"""Generated names: exactly one object, also after lost answers."""

from typing import Any

import pytest

from pinnace.kube.errors import AlreadyExists, ConnectionFailed, Forbidden
from pinnace.kube.resources import velero
from pinnace.volumes import creating
from pinnace.volumes.creating import create_generated
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.controllers.fakes import NAMESPACE, fail_always, fail_once

RESOURCE = velero("podvolumebackups")


def body(base: str = "b1-") -> dict[str, Any]:
    return {"metadata": {"generateName": base, "namespace": NAMESPACE}}


async def test_the_name_begins_with_generate_name_and_is_short_enough() -> None:
    cluster = ScriptedCluster()

    short = await create_generated(cluster.client, RESOURCE, body(), NAMESPACE)
    long = await create_generated(cluster.client, RESOURCE, body("b" * 100), NAMESPACE)

    assert short["metadata"]["name"].startswith("b1-")
    assert short["metadata"]["generateName"] == "b1-"
    assert len(short["metadata"]["name"]) == 8
    assert len(long["metadata"]["name"]) == 63


@pytest.mark.parametrize("moment", ["before", "after"], ids=["request lost", "answer lost"])
async def test_a_lost_request_or_answer_makes_one_object(moment: str) -> None:
    cluster = ScriptedCluster()
    setattr(cluster, moment, fail_once("create"))

    created = await create_generated(cluster.client, RESOURCE, body(), NAMESPACE)

    assert [obj["metadata"]["name"] for obj in cluster.of(RESOURCE.name)] == [created["metadata"]["name"]]


async def test_a_request_that_is_carried_out_late_makes_one_object() -> None:
    cluster = ScriptedCluster()
    answers = iter([ConnectionFailed("cut"), AlreadyExists(409, reason="AlreadyExists")])

    def late(verb: str, _plural: str, name: str) -> None:
        error = next(answers, None) if verb == "create" else None
        if isinstance(error, AlreadyExists):
            cluster.add(RESOURCE.name, name)
        if error is not None:
            raise error

    cluster.before = late
    created = await create_generated(cluster.client, RESOURCE, body(), NAMESPACE)

    assert [obj["metadata"]["name"] for obj in cluster.of(RESOURCE.name)] == [created["metadata"]["name"]]


async def test_a_name_that_is_taken_is_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster()
    names = iter(["b1-taken", "b1-other"])
    monkeypatch.setattr(creating, "_generated", lambda _body: next(names))
    cluster.add(RESOURCE.name, "b1-taken")

    created = await create_generated(cluster.client, RESOURCE, body(), NAMESPACE)

    assert created["metadata"]["name"] == "b1-other"


async def test_a_refused_request_is_not_tried_again() -> None:
    cluster = ScriptedCluster()
    cluster.before = fail_always("create", error=Forbidden(403, reason="Forbidden"))

    with pytest.raises(Forbidden):
        await create_generated(cluster.client, RESOURCE, body(), NAMESPACE)
    assert len(cluster.calls) == 1


async def test_a_server_that_does_not_come_back_is_an_error() -> None:
    cluster = ScriptedCluster()
    cluster.before = fail_always("create")

    with pytest.raises(ConnectionFailed):
        await create_generated(cluster.client, RESOURCE, body(), NAMESPACE)
