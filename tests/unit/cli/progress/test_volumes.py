"""The volumes of a server's run: those in flight by name, those that have ended by number."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from pinnace.cli.progress.volumes import VolumeWatch
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, Forbidden, Gone, KubeError
from pinnace.kube.resources import APIResource
from pinnace.kube.watching import WatchEvent
from tests.support.clock import LeapingClock
from tests.support.tasks import settled


def volume(name: str, phase: str, done: int = 0, total: int = 0, **spec: Any) -> dict[str, Any]:
    status = {"phase": phase, "progress": {"bytesDone": done, "totalBytes": total}}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


POD: dict[str, Any] = {"pod": {"namespace": "shop", "name": "db"}, "volume": "data"}
CLAIM: dict[str, Any] = {"sourceNamespace": "shop", "sourcePVC": "files"}


class Script:
    """Lists of each resource, or an error; watches that wait until the test is done."""

    def __init__(self, **lists: list[Any]) -> None:
        self.lists = lists
        self.events: dict[str, list[WatchEvent | KubeError]] = {}
        self.selectors: set[str] = set()

    async def list_with_version(
        self, resource: APIResource, _namespace: str, *, label_selector: str
    ) -> tuple[list[dict[str, Any]], str]:
        self.selectors.add(label_selector)
        answer = self.lists.get(resource.name, [[]]).pop(0)
        if isinstance(answer, KubeError):
            raise answer
        return answer, "7"

    async def watch(
        self, resource: APIResource, _namespace: str, *, resource_version: str, label_selector: str
    ) -> AsyncGenerator[WatchEvent, None]:
        assert resource_version == "7"
        for event in self.events.pop(resource.name, []):
            if isinstance(event, KubeError):
                raise event
            yield event
        await asyncio.Event().wait()


async def seen(script: Script, what: str = "backup") -> VolumeWatch:
    """What is known when nothing more happens."""
    watch = VolumeWatch(what, "b1", "velero")
    following = asyncio.create_task(watch.follow(cast("KubeClient", script), clock=LeapingClock()))
    await settled()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return watch


async def test_volumes_in_flight_have_names_and_bytes_and_the_others_a_number() -> None:
    script = Script(
        podvolumebackups=[[volume("a", "InProgress", 1, 4, **POD), volume("c", "Completed", 9, 9)]],
        datauploads=[[volume("d", "Prepared", **CLAIM)]],
    )
    script.events["podvolumebackups"] = [
        WatchEvent("MODIFIED", volume("a", "InProgress", 2, 4, **POD)),
        WatchEvent("ADDED", volume("e", "New", **POD)),
        WatchEvent("DELETED", volume("e", "New", **POD)),
    ]
    watch = await seen(script)

    assert script.selectors == {"velero.io/backup-name=b1"}
    assert [(one.name, one.amount.done, one.amount.total, one.phase) for one in watch.moving] == [
        ("shop/db data", 2, 4, "InProgress"),
        ("shop/files", 0, 0, "Prepared"),
    ]
    assert (watch.done, watch.total) == (1, 3)


async def test_a_volume_that_no_agent_has_taken_up_says_what_it_waits_for() -> None:
    new, begun = volume("a", "", **POD), volume("b", "InProgress", 1, 2, **POD)
    for each in (new, begun):
        each["status"]["message"] = "the pod shop/db is not scheduled"
    watch = await seen(Script(podvolumerestores=[[new, begun]]), "restore")

    assert [one.waits_for for one in watch.moving] == ["", "the pod shop/db is not scheduled"]


async def test_a_restore_shows_the_claims_that_are_filled() -> None:
    target: dict[str, Any] = {"targetVolume": {"namespace": "copy", "pvc": "files"}}
    script = Script(datadownloads=[[volume("d", "InProgress", 1, 2, **target, **CLAIM)]])
    watch = await seen(script, "restore")

    assert script.selectors == {"velero.io/restore-name=b1"}
    assert [one.name for one in watch.moving] == ["copy/files"]


@pytest.mark.parametrize("error", [Gone(410, message="too old"), ConnectionFailed("cut")])
async def test_a_watch_that_ends_is_followed_by_a_new_list(error: KubeError) -> None:
    script = Script(podvolumebackups=[[volume("a", "InProgress", **POD)], [volume("b", "Completed", **POD)]])
    script.events["podvolumebackups"] = [error]
    watch = await seen(script)

    assert (watch.moving, watch.done, watch.total) == ((), 1, 1)


async def test_objects_that_may_not_be_read_are_left_out() -> None:
    refused = Forbidden(403, message="no")
    script = Script(podvolumebackups=[refused], datauploads=[[volume("d", "InProgress", **CLAIM)]])
    watch = await seen(script)

    assert [one.name for one in watch.moving] == ["shop/files"]


async def test_malformed_numbers_count_as_zero() -> None:
    odd = volume("d", "InProgress")
    odd["status"]["progress"] = {"bytesDone": "many", "totalBytes": -1}
    watch = await seen(Script(datauploads=[[odd]]))

    assert [(one.name, one.amount.done, one.amount.total) for one in watch.moving] == [("d", 0, 0)]
