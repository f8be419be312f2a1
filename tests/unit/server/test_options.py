"""What a server says of flags that it cannot follow."""

from pathlib import Path

from pinnace.server.options import ServerOptions, ignored


def test_nothing_is_said_of_what_nobody_asked_for(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        assert ignored(ServerOptions(namespace="velero", plugin_directory=folder)) == []


def test_plugins_that_are_not_started_are_said(tmp_path: Path) -> None:
    (tmp_path / "plugin").touch()
    [said] = ignored(ServerOptions(namespace="velero", plugin_directory=tmp_path))
    assert str(tmp_path) in said
