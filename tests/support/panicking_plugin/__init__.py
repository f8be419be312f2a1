"""A plugin of all eight kinds; every method raises what the variable EXAMPLE_PANIC names."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any, Final

from pinnace.plugins import Plugins

VARIABLE: Final = "EXAMPLE_PANIC"


async def _await_a_cancelled_task() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    task.cancel()
    await task


async def _cancel_the_current_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def panic(how: str) -> Any:
    """Raise, in one of the ways of `PANICS`."""
    match how:
        case "a cancelled task":
            await _await_a_cancelled_task()
        case "its own task cancelled":
            await _cancel_the_current_task()
        case _:
            raise PANICS[how]


PANICS: Final[dict[str, BaseException]] = {
    "CancelledError": asyncio.CancelledError(),
    "a cancelled task": asyncio.CancelledError(),
    "its own task cancelled": asyncio.CancelledError(),
    "SystemExit": SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "BaseException": BaseException("of its own"),
}
"""The ways to panic, each with what is raised."""


async def _panic(*_: object) -> Any:
    return await panic(os.environ[VARIABLE])


class _Action:
    applies_to = execute = progress = cancel = are_additional_items_ready = get_related_items = _panic


class BackupAction(_Action):
    name = "example.io/backup"


class RestoreAction(_Action):
    name = "example.io/restore"


class DeleteAction(_Action):
    name = "example.io/delete"


class LaterBackupAction(_Action):
    name = "example.io/later-backup"


class LaterRestoreAction(_Action):
    name = "example.io/later-restore"


class BlockAction(_Action):
    name = "example.io/block"


class Store:
    name = "example.io/store"
    init = put_object = object_exists = list_common_prefixes = list_objects = _panic
    delete_object = create_signed_url = _panic

    async def get_object(self, bucket: str, key: str) -> AsyncIterator[bytes]:
        if key == "half":
            yield b"half"
        await _panic()


class Snapshotter:
    name = "example.io/snapshots"
    init = create_volume_from_snapshot = get_volume_info = create_snapshot = _panic
    delete_snapshot = get_volume_id = set_volume_id = _panic


_KINDS: Final[dict[str, Any]] = {
    "backup_item_actions": [BackupAction],
    "restore_item_actions": [RestoreAction],
    "delete_item_actions": [DeleteAction],
    "backup_item_actions_v2": [LaterBackupAction],
    "restore_item_actions_v2": [LaterRestoreAction],
    "item_block_actions": [BlockAction],
    "object_stores": [Store],
    "volume_snapshotters": [Snapshotter],
}
plugins = Plugins(**_KINDS)
