"""Foreign code in this process: whatever it does is one error with the plugin's name."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.plugins.calling import Deadlines, MeteredBody
from pinnace.plugins.errors import PluginCallError, PluginError, SettingsUnreadable
from pinnace.plugins.protocols import (
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemInput,
    RestoreItemOutput,
)
from pinnace.plugins.python.in_process import (
    LocalBackupItemAction,
    LocalDeleteItemAction,
    LocalObjectStore,
    LocalRestoreItemAction,
    LocalVolumeSnapshotter,
)
from tests.support.plugins.programs import RecordingLog, pod
from tests.support.sample_plugin.stores import MemoryStore, Snapshotter

BACKUP = Backup()


class Scripted:
    """An action whose `execute` does what the test says."""

    name = "example.io/scripted"

    def __init__(self, behave: Any) -> None:
        self.behave = behave
        self.config: Mapping[str, str] | None = None

    async def applies_to(self) -> ResourceSelector:
        return self.behave()  # type: ignore[no-any-return]

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        found = self.behave()
        if asyncio.iscoroutine(found):
            found = await found
        return found  # type: ignore[no-any-return]


def raising(error: BaseException) -> Any:
    def behave() -> None:
        raise error

    return behave


def local(behave: Any, **kwargs: Any) -> LocalBackupItemAction:
    return LocalBackupItemAction(Scripted(behave), RecordingLog(), **kwargs)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (KeyError("k"), "KeyError: 'k'"),
        (PluginError("for the operator"), "for the operator"),
        (SystemExit(2), "SystemExit: 2"),
        (asyncio.CancelledError(), "it cancelled itself"),
        (TimeoutError("of its own"), "TimeoutError: of its own"),
        (StopIteration(), "StopIteration"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_an_exception_of_a_plugin_becomes_an_error_with_its_name(
    error: BaseException, text: str
) -> None:
    with pytest.raises(PluginCallError, match=r"^plugin example\.io/scripted: ") as caught:
        await local(raising(error)).execute(pod(), BACKUP)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("text", "did not return an item and a list"),
        ((pod(), [], 1), "did not return an item and a list"),
        (({}, []), "returned an item that is no object with a kind"),
        (({"kind": ""}, []), "no object with a kind"),
        (({"kind": 5}, []), "no object with a kind"),
        ((None, []), "no object with a kind"),
        ((pod(), [{"name": "x"}]), "no list of ResourceIdentifier"),
        ((pod(), None), "no list of ResourceIdentifier"),
    ],
)
async def test_a_wrong_result_of_a_plugin_becomes_an_error_with_its_name(
    answer: object, problem: str
) -> None:
    with pytest.raises(PluginCallError, match=problem):
        await local(lambda: answer).execute(pod(), BACKUP)


async def test_a_call_may_take_long_but_not_for_ever() -> None:
    deadlines = Deadlines(work=0.05)

    with pytest.raises(PluginCallError, match=r"example\.io/scripted: it did not answer in time"):
        await local(lambda: asyncio.Event().wait(), deadlines=deadlines).execute(pod(), BACKUP)


async def test_a_cancellation_of_the_caller_is_passed_on() -> None:
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(local(hang).execute(pod(), BACKUP))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_function_that_is_not_async_is_an_error_of_the_plugin() -> None:
    class Plain(Scripted):
        def execute(self, item: JSONObject, backup: Backup) -> Any:
            raise ValueError("not even awaited")

    action = LocalBackupItemAction(Plain(None), RecordingLog())
    with pytest.raises(PluginCallError, match="ValueError: not even awaited"):
        await action.execute(pod(), BACKUP)


async def test_a_selector_of_another_type_is_an_error() -> None:
    with pytest.raises(PluginCallError, match="answered what it applies to as str, not ResourceSelector"):
        await local(lambda: "pods").applies_to()


async def test_a_restore_action_that_returns_another_type_is_an_error() -> None:
    class Wrong:
        name = "example.io/wrong"

        async def applies_to(self) -> ResourceSelector:
            return ResourceSelector()

        async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
            return given.item  # type: ignore[return-value]

    action = LocalRestoreItemAction(Wrong(), RecordingLog())
    given: Any = RestoreItemInput(item=pod(), item_from_backup=pod(), restore=None)  # type: ignore[arg-type]
    with pytest.raises(PluginCallError, match="answered a restored item as dict"):
        await action.execute(given)


class Configured(Scripted):
    async def configure(self, config: Mapping[str, str]) -> None:
        if "bad" in config:
            raise PluginError("no such setting: bad")
        self.config = config


@pytest.mark.parametrize("data", [{}, {"color": "red"}])
async def test_an_action_gets_its_settings_before_it_is_asked_what_it_applies_to(
    data: dict[str, str],
) -> None:
    plugin = Configured(ResourceSelector)

    async def read() -> Mapping[str, str]:
        return data

    await LocalBackupItemAction(plugin, RecordingLog(), read_config=read).applies_to()

    assert plugin.config == data


async def forbidden() -> Mapping[str, str]:
    raise SettingsUnreadable("the ConfigMaps of namespace velero cannot be listed: forbidden")


async def test_settings_that_cannot_be_read_are_an_error_of_the_items_and_not_of_the_run() -> None:
    plugin = Configured(lambda: ResourceSelector(included_resources=["pods"]))
    action = LocalBackupItemAction(plugin, RecordingLog(), read_config=forbidden)

    assert (await action.applies_to()).included_resources == ["pods"]
    for _ in range(2):
        with pytest.raises(PluginCallError, match=r"plugin example\.io/scripted: .*ConfigMaps .* forbidden"):
            await action.execute(pod(), BACKUP)


async def test_an_action_that_needs_its_settings_to_be_asked_anything_names_what_cannot_be_read() -> None:
    def broken() -> ResourceSelector:
        raise AttributeError("config")

    action = LocalBackupItemAction(Configured(broken), RecordingLog(), read_config=forbidden)
    with pytest.raises(SettingsUnreadable, match="cannot be listed: forbidden"):
        await action.applies_to()


async def test_a_deletion_does_not_leave_out_an_action_whose_settings_cannot_be_read() -> None:
    action = LocalDeleteItemAction(Configured(ResourceSelector), RecordingLog(), read_config=forbidden)  # type: ignore[arg-type]
    with pytest.raises(SettingsUnreadable):
        await action.applies_to()


async def test_refused_settings_are_an_error() -> None:
    async def read() -> Mapping[str, str]:
        return {"bad": "x"}

    action = LocalBackupItemAction(Configured(ResourceSelector), RecordingLog(), read_config=read)
    with pytest.raises(PluginError, match=r"plugin example\.io/scripted: no such setting: bad"):
        await action.applies_to()


async def test_a_store_that_breaks_while_it_is_read_is_an_error() -> None:
    class Breaking(MemoryStore):
        async def get_object(self, bucket: str, key: str) -> AsyncIterator[bytes]:
            yield b"some"
            raise OSError("disk")

    stream = LocalObjectStore(Breaking(), RecordingLog()).get_object("b", "k")
    assert await anext(stream) == b"some"
    with pytest.raises(PluginCallError, match=r"example\.io/memory: OSError: disk"):
        await anext(stream)


async def test_a_body_that_stops_moving_ends_the_call() -> None:
    async def stalling() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    store = LocalObjectStore(MemoryStore(), RecordingLog(), deadlines=Deadlines(block=0.05))
    with pytest.raises(PluginCallError, match="did not answer in time"):
        await store.put_object("b", "k", stalling())


async def test_every_block_moves_the_deadline() -> None:
    async def one() -> AsyncIterator[bytes]:
        yield b"x"

    body = MeteredBody(one(), 1000.0)
    async with asyncio.timeout(30) as body.deadline:
        before = body.deadline.when()
        assert [block async for block in body.blocks()] == [b"x"]
        after = body.deadline.when()
    assert before is not None
    assert after is not None
    assert after > before + 900


async def test_an_id_that_is_no_text_is_an_error() -> None:
    class Numbering(Snapshotter):
        async def create_snapshot(self, volume_id: str, volume_az: str, tags: Mapping[str, str]) -> str:
            return 5  # type: ignore[return-value]

    snapshotter = LocalVolumeSnapshotter(Numbering(), RecordingLog())
    with pytest.raises(PluginCallError, match="answered the id of a snapshot as int, not str"):
        await snapshotter.create_snapshot("v", "", {})
