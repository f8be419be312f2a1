"""What a comparison finds in a volume whose content is not trusted. (docs/adr/122)"""

import os
from pathlib import Path
from typing import Final

import pytest

from pinnace.volumes.restic.output import saved_directories
from pinnace.volumes.uploader import comparing
from pinnace.volumes.uploader.comparing import FileComparer, FileComparison, FileFate
from pinnace.volumes.uploader.errors import Unsupported
from pinnace.volumes.uploader.existing_files import FileType, SavedDirectory, SavedFile, remove_extra

DEPTH: Final = 1100
"""More levels than Python has stack, or a process descriptors."""


async def compared(root: Path, *saved: SavedDirectory, delete_extra: bool = True) -> FileComparison:
    comparer = FileComparer(delete_extra=delete_extra)
    await comparer.compare(root, saved)
    return comparer.result(rewrites_same=False)


def directory(*files: SavedFile, path: tuple[str, ...] = ()) -> SavedDirectory:
    return SavedDirectory(path=path, files=files)


def file(name: str, kind: FileType = FileType.FILE) -> SavedFile:
    return SavedFile(name=name, type=kind)


async def test_a_deep_directory_is_counted_to_its_end(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)

    found = await compared(tmp_path, directory())
    await remove_extra(tmp_path, [directory()])  # as pytest could not

    assert found.counts[FileFate.REMOVED] == DEPTH
    assert max(found.names[FileFate.REMOVED], key=len) == "/".join(["d"] * DEPTH)


async def test_a_link_is_not_entered_and_what_it_leads_to_is_not_named(tmp_path: Path) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "file").write_bytes(b"of the node")
    volume.mkdir()
    (volume / "d").symlink_to(outside)
    (volume / "extra").symlink_to(outside)
    saved = [directory(file("d", FileType.DIRECTORY)), directory(file("file"), path=("d",))]

    found = await compared(volume, *saved)

    assert found.names == {
        FileFate.OVERWRITTEN: ["d"],
        FileFate.CREATED: ["d/file"],
        FileFate.REMOVED: ["extra"],
    }


async def test_names_that_are_not_utf8_are_found_by_what_restic_lists(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).symlink_to("x")
    (tmp_path / os.fsdecode(b"th\xe9")).symlink_to("x")
    printed = [
        b'{"struct_type":"node","type":"symlink","path":"/caf\xef\xbf\xbd","mtime":"1970-01-01T00:00:00Z"}'
    ]

    found = await compared(tmp_path, *saved_directories(printed, with_state=True))

    assert found.names == {FileFate.OVERWRITTEN: ["caf\ufffd"], FileFate.REMOVED: ["th\ufffd"]}


async def test_a_directory_of_both_whose_name_is_not_known_is_refused_as_in_the_restore(
    tmp_path: Path,
) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    printed = [b'{"struct_type":"node","type":"dir","path":"/caf\xef\xbf\xbd"}']

    with pytest.raises(Unsupported, match="its name is not UTF-8"):
        await compared(tmp_path, *saved_directories(printed, with_state=True))


async def test_more_names_than_fit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MOST_NAMES_BYTES", 10)

    found = await compared(tmp_path, directory(*(file(f"f{number}") for number in range(8))))

    assert found.counts[FileFate.CREATED] == 8
    assert found.names == {FileFate.CREATED: ["f0", "f1", "f2"]}
    assert found.unlisted == 5


async def test_what_belongs_to_the_file_system_and_to_the_waiting_pod_is_no_extra_file(
    tmp_path: Path,
) -> None:
    for name in ("lost+found", ".velero", "d"):
        (tmp_path / name).mkdir()
    (tmp_path / "d" / "lost+found").mkdir()

    found = await compared(tmp_path, directory(file("d", FileType.DIRECTORY)), directory(path=("d",)))

    assert found.names == {FileFate.REMOVED: ["d/lost+found"]}


@pytest.mark.parametrize("delete_extra", [True, False])
async def test_sockets_and_pipes_stay_whatever_is_asked_for(tmp_path: Path, delete_extra: bool) -> None:
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "d" / "pipe")

    found = await compared(tmp_path, directory(), delete_extra=delete_extra)

    assert FileFate.EXTRA in found.names
    assert "d/pipe" in found.names[FileFate.EXTRA]
