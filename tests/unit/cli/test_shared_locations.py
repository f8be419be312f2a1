"""A location that also holds other folders: it is read, and these folders are named once."""

import shutil
from pathlib import Path

import orjson
import pytest

from pinnace.cli.main import run


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A location with one backup and other folders."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "location"
    for name in ("backups/one", "photos", "music"):
        (folder / name).mkdir(parents=True)
    backup = {"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "one"}, "spec": {}}
    (folder / "backups" / "one" / "velero-backup.json").write_bytes(orjson.dumps(backup))
    (folder / "photos" / "a.jpg").touch()
    (folder / "music" / "b.ogg").touch()
    return folder


def shown(capsys: pytest.CaptureFixture[str], location: Path, *words: str) -> tuple[str, str]:
    assert run(["--location", str(location), *words]) == 0
    return capsys.readouterr()


def test_backups_are_listed_with_one_warning_that_names_other_folders(
    location: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = shown(capsys, location, "backup", "get")
    assert [line.split()[0] for line in out.splitlines()] == ["NAME", "one"]
    assert err.splitlines() == [
        f"WARNING: {location} also holds folders that are not of backups: music, photos. They are left alone,"
        " but `backup create` refuses to write among them: give it an empty folder or prefix."
    ]


def test_other_folders_are_named_in_a_location_without_backups(
    location: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, err = shown(capsys, location, "restore", "get")
    assert err.startswith(f"No restores in {location}.")
    assert err.count("WARNING") == 1


@pytest.mark.found("op-85")
@pytest.mark.parametrize("noun", ["backup", "restore"])
def test_a_folder_that_is_no_location_is_told_of_once(
    location: Path, noun: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(location / "backups")

    _, err = shown(capsys, location, noun, "get")

    assert err.startswith(f"No {noun}s in {location}. It does not look like a location of backups: ")
    assert err.count("photos") == 1


@pytest.mark.parametrize("words", [("backup", "get", "one"), ("backup", "get", "-o", "json")])
def test_output_for_programs_and_a_named_backup_come_without_a_warning(
    location: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, location, *words)[1] == ""
