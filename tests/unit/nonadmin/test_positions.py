"""The queue positions that tenants see, and the number of writes for them."""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Any, cast

import pytest

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.api.values.queue_positions import FAR_FACTOR, NEAR, is_worth_showing
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Conflict
from pinnace.kube.resources import APIResource
from pinnace.nonadmin.events import origin_keys
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS
from pinnace.nonadmin.positions import AT_ONCE, FAR_EVERY, FAR_SECONDS, Positions, QueuedRequests
from pinnace.nonadmin.queue_position import WaitingQueue
from pinnace.runtime.cache import ObjectCache
from pinnace.runtime.keys import Key
from tests.support.clock import FakeClock


class Scene:
    """A server's queue, and requests that show positions; each write is counted.

    Attributes:
        before_write: called before each write; an exception fails it.
    """

    def __init__(self, count: int) -> None:
        self.requests, self.made, self.queue = ObjectCache(), ObjectCache(), WaitingQueue()
        self.writes = 0
        self.before_write: Callable[[str], None] = lambda _: None
        self.shown: dict[str, list[int]] = {}
        for number in range(count):
            self._add(number, shown=number + 1)
        queue = QueuedRequests(
            resource=NON_ADMIN_BACKUPS,
            requests=self.requests,
            made=self.made,
            waiting=self.queue,
            request_of=origin_keys(Origin.BACKUP),
        )
        self.clock = FakeClock()
        self.positions = Positions(cast("KubeClient", self), queue, clock=self.clock)

    def _add(self, number: int, *, shown: int) -> None:
        marks = {
            "labels": {
                "openshift.io/oadp": "True",
                "app.kubernetes.io/managed-by": "oadp-nac-controller",
                Origin.BACKUP.id_label: f"id-{number}",
            },
            "annotations": {
                Origin.BACKUP.name_annotation: f"r-{number}",
                Origin.BACKUP.namespace_annotation: f"tenant-{number % 7}",
            },
        }
        created = f"2021-08-11T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
        metadata = {"name": f"id-{number}", "namespace": "velero", "creationTimestamp": created, **marks}
        backup: JSONObject = {"metadata": metadata, "status": {"phase": "New"}}
        self.made.put(backup)
        self.queue.put(backup)
        name, namespace = f"r-{number}", f"tenant-{number % 7}"
        status = {"queueInfo": {"estimatedQueuePosition": shown}}
        self.requests.put(
            {"metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"}, "status": status}
        )
        self.shown[name] = [shown]

    async def patch(
        self, _resource: APIResource, name: str, patch: JSONObject, namespace: str, **_: Any
    ) -> JSONObject:
        self.writes += 1
        await asyncio.sleep(0)
        self.before_write(name)
        request = self.requests.get(Key(namespace, name))
        assert request is not None
        version = request["metadata"]["resourceVersion"]
        assert patch["metadata"] == {"resourceVersion": version}
        metadata = {**request["metadata"], "resourceVersion": str(int(version) + 1)}
        self.requests.put({"metadata": metadata, "status": patch["status"]})
        self.shown[name].append(patch["status"]["queueInfo"]["estimatedQueuePosition"])
        return {}

    def end(self, number: int) -> None:
        """The server ends one backup. The pass that follows shows 0, and is not counted here."""
        key = Key("velero", f"id-{number}")
        backup = self.made.get(key)
        assert backup is not None
        ended = {**backup, "status": {"phase": "Completed"}}
        self.made.put(ended)
        self.queue.put(ended)

    def due(self, first: int | None = None) -> dict[str, int]:
        """The right positions, of the first few or of all."""
        return {
            f"r-{key.name[3:]}": self.queue.position(self.made.get(key)) for key in islice(self.queue, first)
        }


@pytest.mark.parametrize("phase", ["Deleting", "FailedValidation"])
def test_a_backup_that_will_not_run_keeps_no_place_in_the_queue(phase: str) -> None:
    scene = Scene(2)
    refused = scene.made.get(Key("velero", "id-0"))
    assert refused is not None

    scene.queue.put({**refused, "status": {"phase": phase}})

    assert [key.name for key in scene.queue] == ["id-1"]


@pytest.mark.parametrize("ends_a_round", [1, 5], ids=["one end a second", "five ends a second"])
async def test_serving_five_hundred_requests_takes_few_writes(ends_a_round: int) -> None:
    """Of 20 calls for a request, some 11 are for other things: 9 are left for positions."""
    scene = Scene(500)
    for number in range(500):
        scene.end(number)
        if number % ends_a_round == 0:
            await scene.positions.refresh()
            for name, position in scene.due(NEAR).items():
                assert scene.shown[name][-1] == position
    assert scene.writes <= 500 * 9
    for seen in scene.shown.values():
        assert seen == sorted(seen, reverse=True)


async def test_far_positions_are_never_shown_more_than_a_few_times_too_high() -> None:
    scene = Scene(120)
    for number in range(110):
        scene.end(number)
        for _ in range(FAR_EVERY):
            await scene.positions.refresh()
        for name, position in scene.due().items():
            assert position <= scene.shown[name][-1] < max(position * FAR_FACTOR, NEAR + 1)


async def test_nothing_is_written_while_no_position_changes() -> None:
    scene = Scene(100)
    for _ in range(3 * FAR_EVERY):
        await scene.positions.refresh()
    assert scene.writes == 0


async def test_a_written_position_is_not_compared_again() -> None:
    """Writes that end at the same time all count."""
    scene = Scene(30)
    for number in range(20):
        scene.end(number)
    for _ in range(FAR_EVERY):
        await scene.positions.refresh()

    def looked_at(*_: object) -> None:
        raise AssertionError("nothing has moved")

    writes = scene.writes
    scene.queue.position = looked_at  # type: ignore[method-assign, assignment]
    for _ in range(2 * FAR_EVERY):
        await scene.positions.refresh()
    assert scene.writes == writes


async def test_near_positions_do_not_wait_long_for_far_ones() -> None:
    """On a slow API server, writing hundreds of far positions takes longer than near ones may be late."""
    scene = Scene(300)
    for number in range(200):
        scene.end(number)
    written: list[str] = []

    def slow(name: str) -> None:
        written.append(name)
        scene.clock.time += 0.05

    scene.before_write = slow
    for _ in range(FAR_EVERY):
        began = scene.clock.time
        await scene.positions.refresh()
        near = min(NEAR, len(written))
        assert scene.clock.time - began <= near * 0.05 + FAR_SECONDS + AT_ONCE * 0.05
    assert written[:NEAR] == [f"r-{number}" for number in range(200, 200 + NEAR)]
    before = scene.writes
    await scene.positions.refresh()
    assert scene.writes > before, "the far ones that are left are written in the next rounds"


async def test_a_request_that_changed_meanwhile_is_shown_in_the_next_round() -> None:
    scene = Scene(3)
    scene.end(0)

    def conflict(name: str) -> None:
        if name == "r-1":
            raise Conflict(409, reason="Conflict", message="the object has been modified")

    scene.before_write = conflict
    await scene.positions.refresh()
    assert {name: seen[-1] for name, seen in scene.shown.items()} == {"r-0": 1, "r-1": 2, "r-2": 2}
    scene.before_write = lambda _: None
    await scene.positions.refresh()
    assert scene.shown["r-1"][-1] == 1


@pytest.mark.parametrize(
    ("shown", "position", "worth"),
    [
        (4, 3, True),
        (3, 3, False),
        (400, 134, False),
        (400, 133, True),
        (7, 6, False),
        (3, 4, False),
        (0, 1, False),
    ],
)
def test_near_positions_and_far_jumps_are_worth_a_write(shown: int, position: int, worth: bool) -> None:
    assert is_worth_showing(shown, position) is worth
