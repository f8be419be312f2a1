"""Another file system that is mounted in a volume is neither compared nor removed. (docs/adr/122)"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinnace.volumes.uploader.comparing import FileComparer, FileFate
from pinnace.volumes.uploader.existing_files import FileType, SavedDirectory, SavedFile, remove_extra


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """A directory of a volume where another file system is mounted, with a file."""
    directory = tmp_path / "volume" / "mount"
    directory.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {mounted.stderr.strip()}")
    try:
        (directory / "file").write_bytes(b"of the other file system")
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.parametrize("is_saved", [True, False], ids=["in the backup", "extra"])
async def test_a_mount_in_a_volume_is_named_and_stays(mount: Path, is_saved: bool) -> None:
    root = SavedDirectory(path=(), files=[SavedFile(name="mount", type=FileType.DIRECTORY)] * is_saved)
    below = SavedDirectory(path=("mount",), files=[SavedFile(name="other", type=FileType.FILE)])
    saved = [root, below] if is_saved else [root]
    comparer = FileComparer(delete_extra=True)

    await comparer.compare(mount.parent, saved)
    await remove_extra(mount.parent, saved)

    fate = FileFate.NOT_COMPARED if is_saved else FileFate.EXTRA
    assert comparer.result(rewrites_same=False).names == {fate: ["mount"]}
    assert (mount / "file").exists()
