"""Every call of every kind of plugin is answered with an error, whatever the plugin's code raises."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.plugins.calling import Deadlines
from pinnace.plugins.errors import PluginCallError, PluginGone
from pinnace.plugins.host.calls import PluginTimeout
from pinnace.plugins.installed import PluginOptions, find_plugins
from pinnace.plugins.protocols import RestoreItemInput
from pinnace.plugins.session import PluginSession
from tests.support.panicking_plugin import PANICS, VARIABLE
from tests.support.plugins.programs import RecordingLog, pod, put_own

BACKUP, RESTORE = Backup(), Restore()
GIVEN = RestoreItemInput(item=pod(), item_from_backup=pod(), restore=RESTORE)
MODULE = "tests.support.panicking_plugin"


@asynccontextmanager
async def opened(way: str, how: str, directory: Path) -> AsyncIterator[PluginSession]:
    """An operation with the plugin that panics."""
    modules = []
    if way == "in this process":
        modules = [MODULE]
    else:
        put_own(directory, module=MODULE)
    options = PluginOptions(
        directory=directory,
        modules=modules,
        environ={VARIABLE: how},
        deadlines=Deadlines(question=10.0, work=10.0, block=10.0),
    )
    async with (await find_plugins(options)).operation(sink=RecordingLog()) as operation:
        yield operation


def calls_of(operation: PluginSession) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every method of every kind, by a name."""
    backup, later_backup = operation.backup_actions
    restore, later_restore = operation.restore_actions
    later: Any = later_backup
    later_of_restores: Any = later_restore
    (delete,), (block,) = operation.delete_actions, operation.block_actions
    store = operation.object_store("example.io/store")
    disks = operation.volume_snapshotter("example.io/snapshots")
    volume = {"apiVersion": "v1", "kind": "PersistentVolume"}

    async def body() -> AsyncIterator[bytes]:
        yield b"content"

    async def read(key: str) -> Sequence[bytes]:
        return [part async for part in store.get_object("b", key)]

    return {
        "backup applies to": backup.applies_to,
        "backup execute": lambda: backup.execute(pod(), BACKUP),
        "restore applies to": restore.applies_to,
        "restore execute": lambda: restore.execute(GIVEN),
        "delete applies to": delete.applies_to,
        "delete execute": lambda: delete.execute(pod(), BACKUP),
        "backup v2 applies to": later.applies_to,
        "backup v2 execute": lambda: later.execute(pod(), BACKUP),
        "backup v2 progress": lambda: later.progress("op", BACKUP),
        "backup v2 cancel": lambda: later.cancel("op", BACKUP),
        "restore v2 applies to": later_of_restores.applies_to,
        "restore v2 execute": lambda: later_of_restores.execute(GIVEN),
        "restore v2 progress": lambda: later_of_restores.progress("op", RESTORE),
        "restore v2 cancel": lambda: later_of_restores.cancel("op", RESTORE),
        "restore v2 ready": lambda: later_of_restores.are_additional_items_ready([], RESTORE),
        "block applies to": block.applies_to,
        "block related items": lambda: block.get_related_items(pod(), BACKUP),
        "store init": lambda: store.init({}),
        "store put": lambda: store.put_object("b", "k", body()),
        "store exists": lambda: store.object_exists("b", "k"),
        "store get": lambda: read("k"),
        "store get, second block": lambda: read("half"),
        "store prefixes": lambda: store.list_common_prefixes("b", "", "/"),
        "store keys": lambda: store.list_objects("b", ""),
        "store delete": lambda: store.delete_object("b", "k"),
        "store url": lambda: store.create_signed_url("b", "k", timedelta(minutes=1)),
        "disks init": lambda: disks.init({}),
        "disks create volume": lambda: disks.create_volume_from_snapshot("s", "ssd", "az", None),
        "disks info": lambda: disks.get_volume_info("v", "az"),
        "disks snapshot": lambda: disks.create_snapshot("v", "az", {}),
        "disks delete snapshot": lambda: disks.delete_snapshot("s"),
        "disks id": lambda: disks.get_volume_id(volume),
        "disks set id": lambda: disks.set_volume_id(volume, "v"),
    }


def is_answer(error: BaseException | None) -> bool:
    """Whether the plugin itself answered with an error, in time."""
    return isinstance(error, PluginCallError) and not isinstance(error, PluginGone | PluginTimeout)


@pytest.mark.found("P2", "P14")
@pytest.mark.parametrize("how", PANICS)
@pytest.mark.parametrize("way", ["in this process", "own program"])
async def test_every_call_is_answered_with_an_error(
    way: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, how)
    wrong: dict[str, str] = {}
    async with opened(way, how, tmp_path) as operation:
        calls = calls_of(operation)
        if (way, how) == ("in this process", "its own task cancelled"):
            calls = {name: call for name, call in calls.items() if not name.startswith("store get")}
        for name, call in calls.items():
            try:
                answer = await call()
            except PluginCallError as error:
                is_named = "it cancelled itself" in str(error) or type(PANICS[how]).__name__ in str(error)
                if not is_answer(error) or not is_named:
                    wrong[name] = str(error)
            else:
                wrong[name] = f"answered {answer!r}"

    assert not wrong
