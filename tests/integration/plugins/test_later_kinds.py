"""The kinds of plugins that Velero 1.11 and later have, reached in each way: one suite, three ways.

A plugin in this process, our host with our own program, and our host with a program that the framework of
Velero 1.18 was compiled into.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hack.cluster import binaries
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.plugins.asynchronous import BackupItemActionV2, OperationProgress, RestoreItemActionV2
from pinnace.plugins.errors import PluginError
from pinnace.plugins.installed import InstalledPlugins, PluginOptions, find_plugins
from pinnace.plugins.protocols import RestoreItemInput
from pinnace.plugins.session import PluginSession
from tests.support.later_plugin import STARTED
from tests.support.later_plugin import pod as identifier
from tests.support.plugins.programs import pod, put_own

BACKUP = Backup(metadata=ObjectMeta(name="b1", namespace="velero"))
RESTORE = Restore(metadata=ObjectMeta(name="r1", namespace="velero"))
MODULE = "tests.support.later_plugin"

UNDER_WAY = OperationProgress(
    done=1, total=3, units="Bytes", description="copying", started=STARTED, updated=STARTED
)
DONE = OperationProgress(completed=True, done=3, total=3)
FAILED = OperationProgress(completed=True, error="it broke")


@pytest.fixture
async def installed(way: str, tmp_path: Path) -> InstalledPlugins:
    options = PluginOptions(directory=tmp_path / "plugins", modules=[])
    match way:
        case "in this process":
            return await find_plugins(replace(options, modules=[MODULE]))
        case "own program":
            put_own(tmp_path / "plugins", module=MODULE)
        case _:
            (tmp_path / "plugins").mkdir()
            found = binaries.locate(["later-plugin"])["later-plugin"]
            (tmp_path / "plugins" / "later").symlink_to(found)
    return await find_plugins(options)


@pytest.fixture
async def operation(installed: InstalledPlugins) -> AsyncIterator[PluginSession]:
    async with installed.operation() as opened:
        yield opened


def test_lists_the_later_kinds(installed: InstalledPlugins) -> None:
    assert {str(plugin) for plugin in installed.ids} == {
        "BackupItemActionV2 example.io/later-backup",
        "RestoreItemActionV2 example.io/later-restore",
        "ItemBlockAction example.io/block",
    }


async def test_a_backup_action_starts_an_operation_and_is_asked_for_it(operation: PluginSession) -> None:
    (action,) = operation.backup_actions
    assert isinstance(action, BackupItemActionV2)
    assert (await action.applies_to()).label_selector == "app=web"

    output = await action.execute(pod("", app="web"), BACKUP)

    assert output.item == pod("", app="web")
    assert list(output.additional_items) == [identifier("additional")]
    assert (output.operation_id, list(output.post_operation_items)) == ("op-b1", [identifier("after")])
    assert await action.progress("op-b1", BACKUP) == UNDER_WAY
    assert await action.progress("done", BACKUP) == DONE
    assert await action.progress("failed", BACKUP) == FAILED
    with pytest.raises(PluginError, match="no such operation"):
        await action.progress("unknown", BACKUP)
    await action.cancel("op-b1", BACKUP)
    with pytest.raises(PluginError, match="no such operation"):
        await action.cancel("unknown", BACKUP)


async def test_a_restore_action_starts_an_operation_and_says_when_items_are_ready(
    operation: PluginSession,
) -> None:
    (action,) = operation.restore_actions
    assert isinstance(action, RestoreItemActionV2)
    await action.applies_to()

    item = pod("", app="web")
    output = await action.execute(RestoreItemInput(item=item, item_from_backup=item, restore=RESTORE))

    assert (output.operation_id, output.wait_for_additional_items) == ("op-r1", True)
    assert output.additional_items_ready_timeout is not None
    assert output.additional_items_ready_timeout.total_seconds() == 90
    assert await action.are_additional_items_ready([identifier("additional")], RESTORE) is True
    assert await action.are_additional_items_ready([], RESTORE) is False
    assert await action.progress("done", RESTORE) == DONE
    await action.cancel("op-r1", RESTORE)


async def test_an_item_block_action_names_related_items(operation: PluginSession) -> None:
    (action,) = operation.block_actions
    await action.applies_to()

    assert list(await action.get_related_items(pod(""), BACKUP)) == [identifier("related-b1")]
