"""The file that tells a waiting pod that a volume has its data."""

import os
from pathlib import Path

import pytest

from pinnace.volumes.pods.done_file import DoneFileError, remove_done_files, write_done_file


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    return path


@pytest.mark.spec("PVL-046")
def test_the_done_files_of_earlier_restores_are_removed(volume: Path) -> None:
    (volume / ".velero" / "deep").mkdir(parents=True)
    (volume / ".velero" / "earlier").touch()

    remove_done_files(volume)
    write_done_file(volume, "uid")

    assert [path.name for path in (volume / ".velero").iterdir()] == ["uid"]
    remove_done_files(volume)
    remove_done_files(volume)
    assert list(volume.iterdir()) == []


def test_every_user_can_read_the_done_file_whatever_the_umask(volume: Path) -> None:
    before = os.umask(0o077)
    try:
        write_done_file(volume, "uid")
    finally:
        os.umask(before)

    assert (volume / ".velero").stat().st_mode & 0o777 == 0o755
    assert (volume / ".velero" / "uid").stat().st_mode & 0o777 == 0o644
    assert (volume / ".velero" / "uid").read_bytes() == b""


def test_a_link_does_not_lead_out_of_the_volume(volume: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (volume / ".velero").symlink_to(elsewhere)

    with pytest.raises(DoneFileError, match=r"^error creating \.velero directory for done file: "):
        write_done_file(volume, "uid")
    remove_done_files(volume)
    write_done_file(volume, "uid")

    assert [path.name for path in elsewhere.iterdir()] == ["kept"]
    assert not (volume / ".velero").is_symlink()


def test_a_link_in_place_of_the_file_is_replaced(volume: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (volume / ".velero").mkdir()
    (volume / ".velero" / "uid").symlink_to(victim)

    write_done_file(volume, "uid")

    assert victim.read_text() == "kept"
    assert not (volume / ".velero" / "uid").is_symlink()


def test_a_file_in_place_of_the_directory(volume: Path) -> None:
    (volume / ".velero").write_text("a file of the user")

    with pytest.raises(DoneFileError, match="Not a directory"):
        write_done_file(volume, "uid")
    remove_done_files(volume)
    write_done_file(volume, "uid")


@pytest.mark.parametrize("uid", ["", ".", "..", "../out", "a/b"])
def test_an_invalid_uid_is_refused(volume: Path, uid: str) -> None:
    with pytest.raises(DoneFileError):
        write_done_file(volume, uid)
    assert list(volume.parent.iterdir()) == [volume]


def test_a_missing_volume_is_an_error(volume: Path) -> None:
    with pytest.raises(DoneFileError, match=r"^error creating .*: No such file or directory$"):
        write_done_file(volume / "gone", "uid")
