"""A volume that is saved or filled is held, and let go in the end."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from pinnace.controllers.node.presence import held
from pinnace.controllers.node.reconciler import PodVolumeFailed


def is_open(path: Path) -> bool:
    """Whether this process has the directory open."""
    folder = Path("/proc/self/fd")
    return str(path) in {os.readlink(each) for each in folder.iterdir() if each.is_symlink()}


async def test_a_volume_is_open_in_the_body_and_closed_after_it(tmp_path: Path) -> None:
    async with held(tmp_path):
        assert is_open(tmp_path)
    assert not is_open(tmp_path)


async def test_a_volume_that_was_replaced_in_the_body_fails(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()

    async def replace() -> None:
        async with held(volume):
            volume.rename(tmp_path / "away")
            volume.mkdir()

    with pytest.raises(PodVolumeFailed, match="taken away from its node"):
        await replace()
    assert not is_open(tmp_path / "away")


async def test_a_volume_whose_file_server_is_gone_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(_path: Path) -> bool:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(Path, "is_block_device", stale)

    with pytest.raises(PodVolumeFailed, match="error opening the volume on host: Stale file handle: "):
        async with held(tmp_path):
            raise AssertionError("it cannot be opened")


async def test_a_volume_is_not_held_for_a_task_that_was_cancelled_while_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store of files that hangs answers late: the kubelet could not unmount it any more."""
    opening, cancelled = asyncio.Event(), threading.Event()
    loop, opened = asyncio.get_running_loop(), os.open

    def slow(path: Path, flags: int) -> int:
        loop.call_soon_threadsafe(opening.set)
        assert cancelled.wait(30)
        return opened(path, flags)

    async def hold() -> None:
        async with held(tmp_path):
            raise AssertionError("it was cancelled before")

    monkeypatch.setattr(os, "open", slow)
    holding = asyncio.create_task(hold())
    await opening.wait()
    holding.cancel()
    cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await holding

    assert not is_open(tmp_path)


@pytest.mark.found("V25")
async def test_the_directory_of_a_volume_that_was_unmounted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PodVolumeFailed, match=f"not mounted on its node any more: {tmp_path} is no"):
        async with held(tmp_path, is_mount_point=lambda _: False):
            raise AssertionError("it is not the volume")
    assert not is_open(tmp_path)

    async with held(tmp_path, is_mount_point=lambda _: True):
        assert is_open(tmp_path)
