"""Finding Python plugins."""

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pinnace.plugins import Plugins
from pinnace.plugins.declaration import by_id
from pinnace.plugins.errors import DuplicatePlugin, PluginLoadError, PluginNameError
from pinnace.plugins.python.loading import load_python_plugins, modules_from
from tests.support.sample_plugin.actions import BackupAction, RestoreAction
from tests.support.sample_plugin.stores import Snapshotter

SAMPLE = "tests.support.sample_plugin"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for modules; what is imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def entry(value: str, name: str = "my-plugin") -> EntryPoint:
    return EntryPoint(name=name, value=value, group="pinnace.plugins")


def names(modules: list[str], *installed: EntryPoint) -> list[str]:
    return [str(plugin) for plugin in load_python_plugins(modules, installed=installed)]


ALL = [
    "BackupItemAction example.io/backup",
    "VolumeSnapshotter example.io/snapshots",
    "ObjectStore example.io/memory",
    "RestoreItemAction example.io/restore",
    "DeleteItemAction example.io/delete",
]


def test_plugins_are_loaded_from_an_entry_point() -> None:
    assert names([], entry(f"{SAMPLE}:plugins")) == ALL


def test_plugins_are_loaded_from_a_module() -> None:
    assert names([SAMPLE]) == ALL
    assert names([f"{SAMPLE}:plugins"]) == ALL


def test_plugins_that_are_offered_in_both_ways_count_once() -> None:
    assert names([SAMPLE], entry(f"{SAMPLE}:plugins")) == ALL


def test_modules_are_named_in_the_environment() -> None:
    assert modules_from({"PINNACE_PLUGINS": "a, b:c,,"}) == ["a", "b:c"]
    assert modules_from({}) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("raise RuntimeError('no')", "plugin module my_broken cannot be loaded: RuntimeError: no"),
        ("import sys; sys.exit(3)", "cannot be loaded: SystemExit: 3"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("", "AttributeError: .* no attribute 'plugins'"),
        ("plugins = [1]", r"is a list, not a pinnace\.plugins\.Plugins"),
        ("(", "SyntaxError"),
    ],
    ids=["raises", "exits", "lacks a module", "lacks plugins", "offers something else", "syntax"],
)
def test_what_cannot_be_loaded_is_named(package: Path, text: str, problem: str) -> None:
    (package / "my_broken.py").write_text(text)

    with pytest.raises(PluginLoadError, match=problem):
        load_python_plugins(["my_broken"], installed=())


def test_an_entry_point_that_cannot_be_loaded_is_named() -> None:
    with pytest.raises(PluginLoadError, match=r"entry point my-plugin \(missing_module:plugins\) cannot be"):
        load_python_plugins(installed=[entry("missing_module:plugins")])


def test_a_name_offered_twice_names_both(package: Path) -> None:
    (package / "other.py").write_text(
        "from pinnace.plugins import Plugins\n"
        "from tests.support.sample_plugin.actions import BackupAction\n"
        "plugins = Plugins(backup_item_actions=[BackupAction])\n"
    )

    with pytest.raises(
        DuplicatePlugin, match=r"example\.io/backup is offered by .*sample_plugin.* by .*other"
    ):
        load_python_plugins([SAMPLE, "other"], installed=())


class Nameless:
    async def applies_to(self) -> None: ...

    async def execute(self) -> None: ...


class BadlyNamed(BackupAction):
    name = "nodomain"


class Numbered(BackupAction):
    name = 5  # type: ignore[assignment]


class Failing(BackupAction):
    def __init__(self) -> None:
        raise OSError("no disk")


@pytest.mark.parametrize(
    ("factory", "kind", "problem"),
    [
        (Nameless, PluginLoadError, "Nameless is no BackupItemAction: it lacks name"),
        (Snapshotter, PluginLoadError, "Snapshotter is no BackupItemAction: it lacks applies_to, execute"),
        (BadlyNamed, PluginNameError, "'nodomain' is invalid"),
        (Numbered, PluginLoadError, "Numbered: its name is not a text"),
        (Failing, PluginLoadError, "BackupItemAction Failing cannot be made: OSError: no disk"),
    ],
)
def test_an_object_that_is_no_plugin_is_refused(factory: type, kind: type[Exception], problem: str) -> None:
    with pytest.raises(kind, match=problem):
        by_id(Plugins(backup_item_actions=[factory]))


def test_two_plugins_of_one_name_in_a_package_are_refused() -> None:
    with pytest.raises(DuplicatePlugin, match=r"BackupItemAction example\.io/backup is registered twice"):
        by_id(Plugins(backup_item_actions=[BackupAction, BackupAction]))


class SameName(RestoreAction):
    name = "example.io/backup"


@pytest.mark.spec("PLG-005")
def test_two_kinds_may_share_a_name() -> None:
    found = by_id(Plugins(backup_item_actions=[BackupAction], restore_item_actions=[SameName]))

    assert len(found) == 2
