"""Namespaces, which are created for the first item that needs them."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from pinnace.aio.clock import SystemClock
from pinnace.archive.runlog import RunLog
from pinnace.kube.errors import AlreadyExists, BadRequest, Forbidden, KubeError
from pinnace.notices.codes import Code
from pinnace.restore.item.modifying import Modifying
from pinnace.restore.item.namespaces import NamespaceKeeper, namespace_manifest, under_name
from pinnace.restore.journal import RestoreJournal
from pinnace.restore.request import RestoreSettings
from pinnace.restore.results import Results
from pinnace.runs.activity import Activity
from tests.support.tasks import settled
from tests.unit.restore.world import (
    Harness,
    configmap,
    obj,
    pod,
)

LABELLED = obj("Namespace", "ns-1", labels={"team": "a"}, annotations={"n": "1"}, spec={"finalizers": ["k"]})
TERMINATING = obj("Namespace", "ns-1", status={"phase": "Terminating"})


@pytest.mark.spec("RST-049")
async def test_a_namespace_that_stays_in_deletion_is_waited_for_once(harness: Harness) -> None:
    harness.options = RestoreSettings(terminating_timeout_seconds=600, workers=1)
    harness.world.put(TERMINATING)
    activity, shown = Activity(), set[tuple[str, ...]]()
    harness.request_fields = {"activity": activity}
    harness.clock.on_sleep = lambda: shown.add(tuple(activity.waiting))

    results = await harness.restore(configmap("a"), configmap("b"), configmap("c"), pod("p", "ns-2"))

    assert (shown, activity.waiting) == ({("namespace ns-1 to be deleted",)}, [])

    text = "error getting namespace ns-1: timed out waiting for the condition"
    assert results.errors.velero == [text] * 3
    assert {notice.code for notice in results.errors.velero} == {Code.NAMESPACE_TERMINATING}
    assert results.errors.count == 3
    assert harness.world.created_of("configmaps") == []
    assert harness.world.created_of("pods") == ["ns-2/p"]
    looks = harness.world.gets.count(("namespaces", "", "ns-1"))
    assert 2 <= looks <= 601, "one wait of ten minutes, asked every second, not three"


async def test_a_namespace_that_is_deleted_in_time_is_created_again(harness: Harness) -> None:
    harness.world.put(TERMINATING)
    harness.clock.on_sleep = lambda: harness.world.objects.pop(("namespaces", "", "ns-1"), None)

    results = await harness.restore(configmap("a"))

    assert results.empty
    assert harness.world.created[0] == ("namespaces", "", "ns-1")


@pytest.mark.spec("RST-050")
async def test_labels_and_annotations_come_back_under_the_mapped_name(harness: Harness) -> None:
    results = await harness.restore(LABELLED, pod("p"), namespace_mapping={"ns-1": "m1"})

    assert results.empty
    stored = harness.world.sent["namespaces", "", "m1"]
    assert stored["metadata"]["labels"] == {"team": "a"}, "no label of the restore"
    assert stored["metadata"]["annotations"] == {"n": "1"}
    assert stored["spec"] == {"finalizers": ["k"]}
    assert harness.world.created_of("namespaces") == ["m1"]


async def test_a_namespace_is_created_for_its_items_though_namespaces_are_excluded(harness: Harness) -> None:
    await harness.restore(LABELLED, pod("p"), excluded_resources=["namespaces"])

    assert harness.world.created_of("namespaces") == ["ns-1"]


async def test_a_namespace_without_items_is_not_made(harness: Harness) -> None:
    results = await harness.restore(LABELLED)

    assert results.errors.count == 0
    assert results.warnings.velero == ["nothing was restored: the only object in the backup is not selected"]
    assert harness.world.created == []


async def test_an_existing_namespace_is_left_alone_and_read_once(harness: Harness) -> None:
    harness.world.put(obj("Namespace", "ns-1"))

    results = await harness.restore(*(configmap(str(index)) for index in range(9)))

    assert results.empty
    assert harness.world.created_of("namespaces") == []
    assert harness.world.gets == [("namespaces", "", "ns-1")]


async def test_a_create_that_is_refused_is_a_velero_error_for_each_item(harness: Harness) -> None:
    harness.world.refuse("create", ("namespaces", "", "ns-1"), Forbidden(403, message="you may not"))

    results = await harness.restore(configmap("a"), configmap("b"))

    assert results.errors.velero == ["error creating namespace ns-1: you may not"] * 2


async def test_a_get_that_is_refused_is_a_velero_error(harness: Harness) -> None:
    harness.world.refuse("get", ("namespaces", "", "ns-1"), BadRequest(400, message="not so"))

    results = await harness.restore(configmap("a"))

    assert results.errors.velero == ["error getting namespace ns-1: not so"]


@pytest.mark.parametrize("answer", [Forbidden(403, message="no"), AlreadyExists(409, message="it is")])
async def test_objects_are_restored_into_a_namespace_that_may_not_be_read(
    harness: Harness, answer: KubeError
) -> None:
    harness.world.refuse("get", ("namespaces", "", "ns-1"), Forbidden(403, message="you may not"))
    harness.world.refuse("create", ("namespaces", "", "ns-1"), answer)

    results = await harness.restore(configmap("a"), configmap("b"))

    assert results.empty
    assert harness.world.created_of("configmaps") == ["ns-1/a", "ns-1/b"]


async def test_a_namespace_that_may_be_made_and_not_read_is_made(harness: Harness) -> None:
    harness.world.refuse("get", ("namespaces", "", "ns-1"), Forbidden(403, message="you may not"))

    results = await harness.restore(configmap("a"))

    assert results.empty
    assert harness.world.created_of("namespaces") == ["ns-1"]
    assert harness.world.created_of("configmaps") == ["ns-1/a"]


@pytest.mark.parametrize(
    ("made_meanwhile", "errors"),
    [
        (obj("Namespace", "ns-1"), []),
        (TERMINATING, ["namespace ns-1 created and marked for termination after timeout"]),
    ],
    ids=["alive", "terminating"],
)
async def test_a_namespace_created_by_another_client_is_used_unless_it_is_being_deleted(
    harness: Harness, made_meanwhile: Any, errors: list[str]
) -> None:
    harness.world.refuse("create", ("namespaces", "", "ns-1"), AlreadyExists(409, message="already exists"))

    def appear_after_the_first_look(*_: str) -> None:
        if harness.world.gets.count(("namespaces", "", "ns-1")) == 2:
            harness.world.put(made_meanwhile)

    harness.world.before = appear_after_the_first_look
    results = await harness.restore(configmap("a"))

    assert results.errors.velero == errors


@pytest.mark.parametrize("raw", [None, b"{", b"[]", b'{"metadata": 3}', b"null"])
def test_what_does_not_parse_becomes_a_bare_namespace(raw: bytes | None) -> None:
    assert namespace_manifest(raw, "m1") == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "m1"},
    }


def test_the_label_with_the_name_follows_the_name() -> None:
    stored = obj("Namespace", "ns-1", labels={"kubernetes.io/metadata.name": "ns-1"})
    assert under_name(namespace_manifest(orjson.dumps(stored), "ns-1"), "m1")["metadata"]["labels"] == {
        "kubernetes.io/metadata.name": "m1"
    }


@pytest.mark.found("K-F4")
async def test_an_item_that_is_cancelled_while_it_asks_leaves_the_namespace_to_the_next() -> None:
    asked = asyncio.Event()

    class SlowWorld:
        """Holds the first question for ever."""

        async def get(self, *args: Any, **kwargs: Any) -> Any:
            if not asked.is_set():
                asked.set()
                await asyncio.Event().wait()
            return obj("Namespace", "ns-1")

    target = SimpleNamespace(
        client=SlowWorld(),
        log=None,
        clock=SystemClock(),
        terminating_timeout_seconds=1.0,
        activity=Activity(),
        journal=RestoreJournal(),
    )
    keeper = NamespaceKeeper(
        cast(Any, target),
        writer=cast(Any, None),
        archive=cast(Any, SimpleNamespace(namespace_manifest=lambda _: None)),
        modifying=Modifying(None, RunLog(None, fields={})),
        on_created=lambda _: None,
    )
    first = asyncio.create_task(keeper.ensure("ns-1", "ns-1", Results()))
    await asked.wait()
    second = asyncio.create_task(keeper.ensure("ns-1", "ns-1", Results()))
    await settled()
    first.cancel()
    await asyncio.wait([first, second])

    assert first.cancelled()
    assert not second.cancelled()
    second.result()
