"""The executables of a plugin directory."""

from pathlib import Path

import pytest

from pinnace.plugins.errors import PluginStartError
from pinnace.plugins.host.directory import find_programs


def put(root: Path, name: str, mode: int) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(mode)
    return path


@pytest.mark.spec("PLG-004", "SRV-011")
def test_executables_are_found_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, mode in {
        "nested/nonexecutable5": 0o644,
        "nested/executable4": 0o755,
        "executable3": 0o755,
        "nonexecutable2": 0o644,
        "executable1": 0o755,
    }.items():
        put(tmp_path, name, mode)

    found = [str(path.relative_to(tmp_path)) for path in find_programs(tmp_path)]

    assert found == ["executable1", "executable3", "nested/executable4"]


@pytest.mark.spec("PLG-004", "SRV-011")
@pytest.mark.parametrize(
    ("mode", "counts"),
    [(0o444, False), (0o666, False), (0o100, True), (0o010, True), (0o001, True), (0o777, True)],
)
def test_any_execute_bit_counts(tmp_path: Path, mode: int, counts: bool) -> None:
    put(tmp_path, "plugin", mode)

    assert bool(find_programs(tmp_path)) is counts


@pytest.mark.spec("PLG-004", "SRV-011")
def test_a_missing_directory_holds_no_plugins(tmp_path: Path) -> None:
    assert find_programs(tmp_path / "missing") == []


def test_links_count_as_what_they_point_to(tmp_path: Path) -> None:
    put(tmp_path, "elsewhere/plugin", 0o755)
    put(tmp_path, "elsewhere/notes", 0o644)
    directory = tmp_path / "plugins"
    directory.mkdir()
    (directory / "folder").symlink_to(tmp_path / "elsewhere")
    (directory / "to-notes").symlink_to(tmp_path / "elsewhere" / "notes")
    (directory / "to-plugin").symlink_to(tmp_path / "elsewhere" / "plugin")
    (directory / "to-nothing").symlink_to(tmp_path / "nothing")

    found = [str(path.relative_to(directory)) for path in find_programs(directory)]

    assert found == ["folder/plugin", "to-plugin"]


def test_a_link_to_a_folder_above_is_not_followed(tmp_path: Path) -> None:
    plugin = put(tmp_path, "plugins/nested/plugin", 0o755)
    (plugin.parent / "up").symlink_to(tmp_path / "plugins")

    assert find_programs(tmp_path / "plugins") == [plugin]


def test_a_file_in_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "plugins", 0o755)

    with pytest.raises(PluginStartError, match="cannot read the plugin directory"):
        find_programs(tmp_path / "plugins")
