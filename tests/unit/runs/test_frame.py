"""The frame of both engines: the order of the steps names no kind; handlers have what one needs. (ADR 120)"""

import inspect
from collections.abc import Mapping
from types import ModuleType

import pytest

from pinnace.api import kinds
from pinnace.backup.item import life as backup_life
from pinnace.backup.item.handlers import table as backup_table
from pinnace.backup.item.handlers.handler import BackupHandler
from pinnace.restore.item import life as restore_life
from pinnace.restore.item.handlers import table as restore_table
from pinnace.restore.item.handlers.handler import RestoreHandler

ENGINES = [
    pytest.param(backup_life, BackupHandler, backup_table.HANDLERS, id="backup"),
    pytest.param(restore_life, RestoreHandler, restore_table.HANDLERS, id="restore"),
]


@pytest.mark.parametrize(("life", "base", "table"), ENGINES)
def test_the_order_of_the_steps_names_no_kind(
    life: ModuleType, base: type, table: Mapping[str, type]
) -> None:
    source = inspect.getsource(life)
    named = {value.group_resource for value in vars(kinds).values() if isinstance(value, kinds.Kind)}
    assert not any(f'"{name}"' in source for name in named)
    assert "pinnace.api.kinds" not in source
    assert "pinnace.kube.resources import APIResource" in source or "pinnace.kube.resources" not in source


@pytest.mark.parametrize(("life", "base", "table"), ENGINES)
def test_each_handler_takes_part_in_a_step_and_plain_kinds_have_none(
    life: ModuleType, base: type, table: Mapping[str, type]
) -> None:
    for handler in table.values():
        assert issubclass(handler, base)
        steps = {name for each in handler.__mro__ if each not in base.__mro__ for name in vars(each)}
        assert steps & {name for each in base.__mro__ for name in vars(each) if not name.startswith("_")}
    assert not {"configmaps", "secrets", "deployments.apps"} & table.keys()
