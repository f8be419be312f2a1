"""Order and uniqueness of actions."""

import pytest

from pinnace.plugins.errors import DuplicatePlugin
from pinnace.plugins.registry import ActionRegistry
from tests.unit.backup.fakes import FakeAction


def action(name: str) -> FakeAction:
    return FakeAction(name=name)


def test_built_in_actions_come_first_sorted_then_the_given_ones_in_order() -> None:
    registry = ActionRegistry(
        builtin_backup_actions=[action("velero.io/b"), action("velero.io/a")],
        backup_actions=[action("z.io/1"), action("a.io/2")],
    )
    names = [found.name for found in registry.backup_actions]
    assert names == ["velero.io/a", "velero.io/b", "z.io/1", "a.io/2"]
    assert registry.restore_actions == ()


def test_built_in_names_cannot_be_used_again() -> None:
    with pytest.raises(DuplicatePlugin, match=r"BackupItemAction velero\.io/pod is registered twice"):
        ActionRegistry(
            builtin_backup_actions=[action("velero.io/pod")], backup_actions=[action("velero.io/pod")]
        )


def test_ids_are_in_the_order_of_listings() -> None:
    registry = ActionRegistry(
        builtin_backup_actions=[action("velero.io/a")], backup_actions=[action("z.io/1")]
    )

    assert [str(plugin) for plugin in registry.ids] == [
        "BackupItemAction velero.io/a",
        "BackupItemAction z.io/1",
    ]
