"""The functions with which authors test their plugins."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.plugins import Backup, PluginError, ResourceIdentifier
from pinnace.plugins.testing import (
    LoggedLine,
    check_object_store,
    plugins_in,
    run_backup_action,
    run_delete_action,
    run_restore_action,
)
from tests.support.plugins.programs import pod, put_own, put_script
from tests.support.sample_plugin.actions import BackupAction, DeleteAction, RestoreAction
from tests.support.sample_plugin.stores import MemoryStore


def test_a_backup_action_is_run() -> None:
    item = pod("change", app="web")
    outcome = run_backup_action(BackupAction(), item)

    assert outcome.item == pod("change", app="web", backup="backup")
    assert item == pod("change", app="web")
    assert [one.name for one in outcome.additional_items] == ["mypod"]
    assert outcome.applies_to("pods")
    assert not outcome.applies_to("nodes")
    assert not run_backup_action(BackupAction(), pod("", app="other")).applies_to("pods")


def test_the_lines_that_a_plugin_logs_are_in_the_outcome() -> None:
    outcome = run_backup_action(BackupAction(), pod("log"))

    assert outcome.log == [
        LoggedLine(level="warning", message="a warning"),
        LoggedLine(level="error", message="an error: ValueError: the cause"),
    ]


def test_a_restore_action_is_run() -> None:
    changed = run_restore_action(RestoreAction(), pod("change"))
    assert changed.item == pod("change", restore="restore-web")
    assert not changed.skip
    assert run_restore_action(RestoreAction(), pod("skip")).skip


def test_a_delete_action_is_run() -> None:
    assert run_delete_action(DeleteAction(), pod()).log[0].message == "deleted with backup backup"
    with pytest.raises(PluginError, match=r"plugin example\.io/delete: it broke"):
        run_delete_action(DeleteAction(), pod("fail"))


def test_an_item_that_is_no_json_fails_here_and_not_in_production() -> None:
    class Broken(BackupAction):
        async def execute(
            self, item: JSONObject, backup: Backup
        ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
            return item | {"when": object()}, []

    with pytest.raises(PluginError, match="the item is no JSON"):
        run_backup_action(Broken(), pod())


def test_a_correct_object_store_passes_the_check() -> None:
    check_object_store(MemoryStore(), {"bucket": "b"})


def test_an_object_store_that_loses_bytes_fails_the_check() -> None:
    class Losing(MemoryStore):
        async def get_object(self, bucket: str, key: str) -> AsyncIterator[bytes]:
            blocks = [block async for block in super().get_object(bucket, key)]
            for block in blocks[:-1]:
                yield block

    with pytest.raises(AssertionError, match=r"large came back with .* bytes, not as it was stored"):
        check_object_store(Losing(), {"bucket": "b"})


def test_an_object_store_that_keeps_half_an_object_fails_the_check() -> None:
    class Hasty(MemoryStore):
        async def put_object(self, bucket: str, key: str, body: AsyncIterator[bytes]) -> None:
            blocks: list[bytes] = []
            try:
                async for block in body:
                    blocks.append(block)
            finally:
                self._objects_of(bucket)[key] = b"".join(blocks)

    with pytest.raises(AssertionError, match="keeps an object whose body raised"):
        check_object_store(Hasty(), {"bucket": "b"})


def test_the_plugins_in_a_program_are_listed(tmp_path: Path) -> None:
    assert "ObjectStore example.io/memory" in plugins_in(put_own(tmp_path))
    with pytest.raises(PluginError, match="Unrecognized remote plugin message: 'hello'"):
        plugins_in(put_script(tmp_path, "other", "#!/bin/sh\necho hello\n"))
