"""The private directory of a server, and what dead servers leave."""

import asyncio
import fcntl
import os
import re
import stat
import threading
from pathlib import Path

import pytest

import pinnace
from pinnace.operations import workdir
from pinnace.operations.workdir import remove_leftovers, work_directory


def left(parent: Path) -> list[Path]:
    return sorted(parent.iterdir())


async def test_a_work_directory_is_private_and_removed_with_the_server(tmp_path: Path) -> None:
    async with work_directory(tmp_path) as path:
        assert path.parent == tmp_path
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        (path / "credentials").write_text("secret")

    assert left(tmp_path) == []


async def test_a_work_directory_is_removed_when_the_server_fails(tmp_path: Path) -> None:
    async def fail() -> None:
        async with work_directory(tmp_path) as path:
            (path / "spool").mkdir()
            raise LookupError

    with pytest.raises(LookupError):
        await fail()

    assert left(tmp_path) == []


async def test_a_work_directory_is_removed_when_the_command_is_interrupted_while_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    make = workdir._make

    def slow(root: Path) -> tuple[Path, int]:
        begun.set()
        go_on.wait()
        return make(root)

    async def work() -> None:
        async with work_directory(tmp_path):
            pytest.fail("the command was interrupted")

    monkeypatch.setattr(workdir, "_make", slow)
    running = asyncio.create_task(work())
    await asyncio.to_thread(begun.wait)
    running.cancel()
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert left(tmp_path) == []


async def test_the_directory_of_a_living_server_is_left_alone(tmp_path: Path) -> None:
    async with work_directory(tmp_path) as first, work_directory(tmp_path) as second:
        assert first != second
        assert left(tmp_path) == sorted([first, second])


async def test_the_directory_of_a_dead_server_is_removed_at_the_next_start(tmp_path: Path) -> None:
    dead = tmp_path / "pinnace-work-dead"
    (dead / "credentials").mkdir(parents=True)
    (dead / "credentials/velero-cloud").write_text("secret")
    (dead / "lock").touch()

    async with work_directory(tmp_path) as path:
        assert left(tmp_path) == [path]


def test_nothing_else_is_made_in_the_systems_temporary_directory() -> None:
    """A killed command leaves its files, with Secrets and passwords; only a work directory is found again."""
    source = Path(pinnace.__file__).parent
    unaimed = re.compile(
        r"gettempdir\(|\b(?:TemporaryDirectory|NamedTemporaryFile|mkdtemp|mkstemp)\((?![^)]*dir=)"
    )

    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if unaimed.search(path.read_text())
    }

    # The latter is a plugin's program, whose socket is all that it has there.
    assert found == {"operations/workdir.py", "plugins/guest/program.py"}


def test_other_directories_are_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "lock").touch()
    (tmp_path / "pinnace-work-link").symlink_to(target)
    (tmp_path / "pinnace-work-file").touch()
    (tmp_path / "pinnace-work-being-made").mkdir()
    (tmp_path / "pinnace-other").mkdir()
    before = left(tmp_path)

    remove_leftovers(tmp_path)

    assert left(tmp_path) == before


def test_a_directory_whose_lock_is_held_is_left_alone(tmp_path: Path) -> None:
    alive = tmp_path / "pinnace-work-alive"
    alive.mkdir()
    lock = os.open(alive / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)

    remove_leftovers(tmp_path)
    assert alive.exists()

    os.close(lock)
    remove_leftovers(tmp_path)
    assert not alive.exists()


async def test_a_parent_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with work_directory(tmp_path / "missing"):
            pass
