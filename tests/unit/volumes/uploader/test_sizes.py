"""How much is in a directory."""

import threading
from pathlib import Path

import pytest

from pinnace.volumes.uploader.progress import directory_size


@pytest.mark.spec("PVL-037")
def test_files_on_all_levels_count(tmp_path: Path) -> None:
    for name in ("one", "a/two", "a/three", "a/b/four", "a/b/five"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")

    assert directory_size(tmp_path, threading.Event()) == 25


def test_links_count_by_their_own_size_and_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "up").symlink_to("..")
    (tmp_path / "big").write_bytes(b"x" * 1000)

    assert directory_size(tmp_path / "in", threading.Event()) == len("..")


def test_counting_ends_when_it_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    stopped = threading.Event()
    stopped.set()

    assert directory_size(tmp_path, stopped) == 0


def test_files_that_disappear_are_left_out(tmp_path: Path) -> None:
    assert directory_size(tmp_path / "gone", threading.Event()) == 0
