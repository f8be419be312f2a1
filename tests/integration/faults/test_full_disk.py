"""Disks that are full where temporary files are made, or where the location is."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pinnace.api.phases import BackupPhase, RestorePhase
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import NAMESPACES
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from tests.integration.faults.world import Lab, stored_keys

PAGE_BYTES = 4096
PLENTY = 100

MakeDisk = Callable[..., Path]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[MakeDisk]:
    """A function that mounts a file system of a few pages and few files; skips the test if it may not."""
    with ExitStack() as stack:

        def make(*, pages: int = PLENTY, files: int = PLENTY) -> Path:
            directory = tmp_path / "small-disk"
            directory.mkdir()
            size = f"size={pages * PAGE_BYTES},nr_inodes={files + 1}"
            mounted = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(directory)],
                check=False,
                capture_output=True,
                text=True,
            )
            if mounted.returncode != 0:
                pytest.skip(f"needs the right to mount a tmpfs: {mounted.stderr.strip()}")
            stack.callback(subprocess.run, ["umount", "--lazy", str(directory)], check=True)
            return directory

        yield make


LIMITS = [
    *(pytest.param({"pages": pages}, id=f"{pages}-pages") for pages in (1, 2)),
    *(pytest.param({"files": files}, id=f"{files}-files") for files in (0, 1, 2, 4)),
]


@pytest.mark.parametrize("limits", LIMITS)
async def test_a_backup_without_room_for_temporary_files_fails(
    lab: Lab, store: BackupStore, small_disk: MakeDisk, limits: dict[str, int]
) -> None:
    lab.workdir = small_disk(**limits)
    done = await lab.back_up(store)

    # A backup without its log is whole; one without its tarball is not a backup.
    if done.status.phase == BackupPhase.COMPLETED:
        assert await store.exists("b1")
        lab.workdir = lab.workdir.parent / "work"
        await lab.assert_whole(store)
    else:
        assert done.status.phase == BackupPhase.FAILED
        assert "No space left" in done.status.failure_reason
        await lab.assert_no_backup(store)


@pytest.mark.parametrize("limits", LIMITS)
async def test_a_backup_into_a_full_location_fails(
    lab: Lab, small_disk: MakeDisk, limits: dict[str, int]
) -> None:
    root = small_disk(**limits)
    async with BackupStore(FilesystemStore(root / "store"), Layout(""), location="default") as store:
        done = await lab.back_up(store)

        assert done.status.phase == BackupPhase.FAILED
        assert "no space left on the device" in done.status.failure_reason
        await lab.assert_no_backup(store)
        kept = [path.name for path in root.rglob("*") if path.is_file()]
        assert kept in ([], ["b1-logs.gz"])


async def test_a_location_that_was_full_takes_the_backup_once_there_is_room(
    lab: Lab, small_disk: MakeDisk
) -> None:
    root = small_disk(pages=30)
    filler = root / "filler"
    filler.write_bytes(bytes(28 * PAGE_BYTES))
    async with BackupStore(FilesystemStore(root / "store"), Layout(""), location="default") as store:
        assert (await lab.back_up(store)).status.phase == BackupPhase.FAILED
        filler.unlink()
        assert (await lab.back_up(store)).status.phase == BackupPhase.COMPLETED
        assert len(await stored_keys(store)) == 10
        await lab.assert_whole(store)


@pytest.mark.parametrize("limits", LIMITS)
async def test_a_restore_without_room_for_temporary_files_fails(
    lab: Lab, store: BackupStore, small_disk: MakeDisk, limits: dict[str, int]
) -> None:
    assert (await lab.back_up(store)).status.phase == BackupPhase.COMPLETED
    lab.workdir = small_disk(**limits)
    target = lab.new_target()
    done = await lab.restore(store, target)

    if done.status.phase == RestorePhase.COMPLETED:
        await lab.assert_same(target)
        return
    reasons = [done.status.failure_reason]
    if done.status.phase == RestorePhase.PARTIALLY_FAILED:
        reasons = (await store.read_restore_results("r1"))["errors"]["velero"]
        assert done.status.errors == len(reasons)
    assert all("No space left" in reason for reason in reasons)
    if reasons[0].startswith("error getting restore log reader"):
        await lab.assert_same(target)
    else:
        with pytest.raises(NotFound):
            await lab.client.get(NAMESPACES, target)
