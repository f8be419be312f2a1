"""A server whose scratch directory is full: its runs fail with the reason, and the next ones work."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinnace.kube.resources import velero
from tests.support.servers.homes import ALONE, Home, NewServer, names

PAGES = 64


@pytest.fixture
def small_scratch(tmp_path: Path) -> Iterator[Path]:
    """The server's scratch directory as a small file system; skips the test if none may be mounted."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={PAGES * 4096}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"needs the right to mount a tmpfs: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Write until there is no room."""
    file = folder / "filler"
    with file.open("wb", buffering=0) as sink:
        try:
            for _ in range(PAGES + 1):
                sink.write(bytes(4096))
        except OSError:
            return file
    raise AssertionError("the file system is larger than it should be")


async def test_runs_fail_while_there_is_no_room_and_work_afterwards(
    home: Home, new_server: NewServer, small_scratch: Path
) -> None:
    server = await new_server(ALONE)
    await server.ready()
    await home.create_backup("before")
    assert (await home.ended("backups", "before"))["phase"] == "Completed"

    filler = fill(small_scratch)
    await home.create_backup("full")
    restore = {
        "apiVersion": "velero.io/v1",
        "kind": "Restore",
        "metadata": {"name": "full"},
        "spec": {"backupName": "before"},
    }
    await home.client.create(velero("restores"), restore, home.namespace)
    failed = await home.ended("backups", "full")
    failed_restore = await home.ended("restores", "full")
    filler.unlink()
    await home.create_backup("after")

    assert (await home.ended("backups", "after"))["phase"] == "Completed"
    assert failed["phase"] == failed_restore["phase"] == "Failed"
    for status in (failed, failed_restore):
        assert "No space left on device" in status["failureReason"]
    stored = names(home.location / "backups")
    assert "full" not in stored or "full.tar.gz" not in names(home.location / "backups" / "full")
    assert await server.stop() == 0
    assert names(small_scratch) == []
    assert "Traceback" not in server.log
