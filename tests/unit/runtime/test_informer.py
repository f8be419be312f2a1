"""The informer against a scripted server: gaps, 410, errors, bookmarks. The real server is in integration."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import ConnectionFailed, DeadlineExceeded, KubeError, status_error
from pinnace.kube.resources import CONFIGMAPS
from pinnace.runtime.errors import CacheSyncTimeout
from pinnace.runtime.informer import Informer, InformerState, InformerTimes, wait_for_caches
from pinnace.runtime.keys import Key
from tests.support.clock import FakeClock
from tests.support.tasks import settled
from tests.unit.runtime.fakes import ScriptedClient, bookmark, config_map, event, gone, page


class Journal:
    """What handlers were told, as short texts."""

    def __init__(self, informer: Informer) -> None:
        self.lines: list[str] = []
        informer.add_handlers(
            on_add=lambda obj: self.note("add", obj),
            on_update=lambda _old, new: self.note("update", new),
            on_delete=lambda obj: self.note("delete", obj),
        )

    def note(self, what: str, obj: JSONObject) -> None:
        self.lines.append(f"{what} {obj['metadata']['name']}@{obj['metadata']['resourceVersion']}")


def state_of(informer: Informer) -> InformerState:
    return informer.state


def is_synced(informer: Informer) -> bool:
    return informer.synced


@asynccontextmanager
async def running(informer: Informer) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        await settled()
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()


def new_informer(client: ScriptedClient, clock: FakeClock) -> Informer:
    return Informer(
        client.as_client(), CONFIGMAPS, "demo", times=InformerTimes(clock=clock, jitter=lambda: 0.0)
    )


async def test_list_then_events() -> None:
    client = ScriptedClient(
        lists=[[page(10, config_map("b", 2), config_map("a", 1)), page(10, config_map("c", 3))]],
        watches=[
            [
                event("ADDED", config_map("d", 11)),
                event("MODIFIED", config_map("a", 12)),
                event("DELETED", config_map("b", 13)),
                bookmark(20),
            ]
        ],
    )
    informer = new_informer(client, FakeClock())
    journal = Journal(informer)
    async with running(informer):
        assert is_synced(informer)
        assert state_of(informer) is InformerState.WATCHING
        assert journal.lines == ["add a@1", "add b@2", "add c@3", "add d@11", "update a@12", "delete b@13"]
        assert informer.keys() == [Key("demo", name) for name in "acd"]
        assert informer.get(Key("demo", "a")) == config_map("a", 12)
        assert informer.get(Key("demo", "b")) is None
        # The watch ended; the next goes on from the bookmark, without a list.
        assert client.calls == ["list", "watch 10", "watch 20"]
        assert informer.resource_version == "20"
    assert state_of(informer) is InformerState.STOPPED
    assert client.open_watches == 0


async def test_gone_lists_again_and_tells_what_was_missed() -> None:
    client = ScriptedClient(
        lists=[
            [page(10, config_map("kept", 1), config_map("lost", 2), config_map("reborn", 3, uid="one"))],
            [page(50, config_map("kept", 1), config_map("reborn", 41, uid="two"), config_map("new", 42))],
        ],
        watches=[[event("MODIFIED", config_map("lost", 11)), gone()]],
    )
    clock = FakeClock()
    informer = new_informer(client, clock)
    journal = Journal(informer)
    async with running(informer):
        del journal.lines[:]
        assert state_of(informer) is InformerState.BACKING_OFF
        await clock.advance(0.8)
        assert journal.lines == ["delete lost@11", "add new@42", "delete reborn@3", "add reborn@41"]
        assert client.calls == ["list", "watch 10", "list", "watch 50"]


async def test_a_server_that_always_says_gone_is_asked_ever_less_often() -> None:
    client = ScriptedClient(
        lists=[[page(number)] for number in range(10, 20)], watches=[[gone()] for _ in range(10)]
    )
    clock = FakeClock()
    async with running(new_informer(client, clock)):
        waits = []
        for _ in range(4):
            waits.append(clock.pending[0])
            await clock.advance(clock.pending[0])
    assert waits == pytest.approx([0.8, 1.6, 3.2, 6.4])


async def test_cut_watch_continues_where_it_was() -> None:
    cut = ConnectionFailed("the connection was cut")
    client = ScriptedClient(
        lists=[[page(10)]], watches=[[event("ADDED", config_map("a", 11)), cut], [cut], [cut]]
    )
    clock = FakeClock()
    informer = new_informer(client, clock)
    async with running(informer):
        assert clock.pending == pytest.approx([0.8])
        await clock.advance(0.8)
        assert clock.pending == pytest.approx([1.6])
        await clock.advance(1.6)
        await clock.advance(3.2)
        assert client.calls == ["list", "watch 10", "watch 11", "watch 11", "watch 11"]
        assert len(informer.objects()) == 1


@pytest.mark.parametrize(
    "fault",
    [
        DeadlineExceeded("the API server did not answer in time"),
        status_error(500, {"message": "etcd event received with PrevKv=nil"}),
    ],
)
async def test_changes_are_seen_though_every_watch_stalls_or_fails_at_one_event(fault: KubeError) -> None:
    client = ScriptedClient(
        lists=[[page(10, config_map("a", 1))], [page(12, config_map("a", 1), config_map("b", 12))]],
        watches=[[fault]],
    )
    clock = FakeClock()
    informer = new_informer(client, clock)
    journal = Journal(informer)
    async with running(informer):
        await clock.advance(3)

        assert journal.lines == ["add a@1", "add b@12"]
        assert client.calls == ["list", "watch 10", "list", "watch 12"]


async def test_list_is_tried_until_it_succeeds_and_its_parts_are_not_shown() -> None:
    down = ConnectionFailed("refused")
    client = ScriptedClient(
        lists=[[down], [page(5, config_map("a", 1)), down], [page(6, config_map("b", 2))]]
    )
    clock = FakeClock()
    informer = new_informer(client, clock)
    journal = Journal(informer)
    async with running(informer):
        await clock.advance(0.8)
        assert not is_synced(informer)
        assert journal.lines == []
        await clock.advance(1.6)
        assert is_synced(informer)
        assert journal.lines == ["add b@2"]


async def test_restarted_list_forgets_its_first_pages() -> None:
    first = page(5, config_map("a", 1), config_map("deleted meanwhile", 2))
    client = ScriptedClient(lists=[[first, page(9, config_map("a", 1), restarted=True), page(9)]])
    informer = new_informer(client, FakeClock())
    async with running(informer):
        assert informer.keys() == [Key("demo", "a")]
        assert client.calls == ["list", "watch 9"]


async def test_watch_that_ends_at_once_is_not_repeated_in_a_busy_loop() -> None:
    client = ScriptedClient(lists=[[page(10)]], watches=[[], [], []])
    clock = FakeClock()
    informer = new_informer(client, clock)
    async with running(informer):
        assert client.calls == ["list", "watch 10"]
        assert state_of(informer) is InformerState.BACKING_OFF
        await clock.advance(0.8)
        assert client.calls == ["list", "watch 10", "watch 10"]
        assert clock.pending == pytest.approx([1.6])


async def test_late_handlers_are_told_what_is_there() -> None:
    client = ScriptedClient(lists=[[page(10, config_map("a", 1))]])
    informer = new_informer(client, FakeClock())
    async with running(informer):
        assert Journal(informer).lines == ["add a@1"]


async def test_running_twice_is_an_error() -> None:
    informer = new_informer(ScriptedClient(), FakeClock())
    async with running(informer):
        with pytest.raises(RuntimeError, match="runs already"):
            await informer.run()
        assert state_of(informer) is InformerState.LISTING


async def test_waiting_for_caches_names_those_that_are_late() -> None:
    synced = new_informer(ScriptedClient(lists=[[page(1)]]), FakeClock())
    late = new_informer(ScriptedClient(), FakeClock())
    async with running(synced), running(late):
        await wait_for_caches([synced], 5)
        with pytest.raises(CacheSyncTimeout, match="caches not synced after 0 s: configmaps"):
            await wait_for_caches([synced, late], 0)


async def test_an_object_that_a_handler_cannot_read_does_not_end_the_cache() -> None:
    odd = config_map("odd", 2)
    odd["metadata"]["labels"] = []
    client = ScriptedClient(lists=[[page(10, config_map("a", 1))]], watches=[[event("ADDED", odd)]])
    informer = new_informer(client, FakeClock())
    seen: list[str] = []

    def careless(obj: JSONObject) -> None:
        if obj["metadata"]["labels"].get("a") is None:
            seen.append("first")

    informer.add_handlers(on_add=careless)
    informer.add_handlers(on_add=lambda obj: seen.append(obj["metadata"]["name"]))
    async with running(informer):
        assert state_of(informer) is InformerState.WATCHING
    assert seen == ["first", "a", "odd"]
