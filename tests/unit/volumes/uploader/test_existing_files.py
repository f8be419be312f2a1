"""What a volume holds before a snapshot is written over it, and beyond it. (docs/spec: AFT 6)"""

import os
from pathlib import Path
from typing import Final

import pytest

from pinnace.volumes.restic.output import saved_directories
from pinnace.volumes.uploader.errors import TargetFailed, UnexpectedOutput, Unsupported
from pinnace.volumes.uploader.existing_files import (
    FileType,
    SavedDirectory,
    SavedFile,
    holds_something,
    make_way,
    remove_extra,
)

DEPTH: Final = 1100
"""More levels than Python has stack, or a process descriptors."""


def directory(*names: str, path: tuple[str, ...] = (), kind: FileType = FileType.FILE) -> SavedDirectory:
    return SavedDirectory(path=path, files=[SavedFile(name=name, type=kind) for name in names])


def node(path: str, kind: str = "file") -> bytes:
    return f'{{"struct_type":"node","type":"{kind}","path":"{path}"}}\n'.encode()


async def test_a_deep_directory_is_removed(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)

    await remove_extra(tmp_path, [directory()])

    assert os.listdir(tmp_path) == []


async def test_a_directory_that_became_a_link_is_not_entered(tmp_path: Path) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    volume.mkdir()
    outside.mkdir()
    (outside / "file").write_bytes(b"of the node")
    (volume / "d").symlink_to(outside)
    saved = [directory("d", kind=FileType.DIRECTORY), directory(path=("d",))]

    await remove_extra(volume, saved)
    assert os.listdir(outside) == ["file"]
    await make_way(volume, saved)

    assert os.listdir(volume) == []
    assert os.listdir(outside) == ["file"]


async def test_a_file_in_the_place_of_a_directory_makes_way_and_the_reverse(tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(b"")
    (tmp_path / "f" / "below").mkdir(parents=True)
    (tmp_path / "stays").write_bytes(b"")

    await make_way(tmp_path, [directory("f", "new"), directory("d", kind=FileType.DIRECTORY)])

    assert os.listdir(tmp_path) == ["stays"]


async def test_names_that_are_not_utf8_are_matched_by_what_restic_lists(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9")
    (tmp_path / odd).write_bytes(b"saved")
    (tmp_path / "extra").write_bytes(b"")
    saved = list(saved_directories([node("/caf\ufffd")]))

    await make_way(tmp_path, saved)
    await remove_extra(tmp_path, saved)

    assert os.listdir(tmp_path) == [odd]


async def test_a_directory_whose_name_is_not_utf8_is_refused_where_it_exists(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    listed = [node("/caf\ufffd", "dir"), node("/caf\ufffd/file")]

    with pytest.raises(Unsupported, match="not UTF-8"):
        await make_way(tmp_path, saved_directories(listed))


def test_the_directories_of_a_list_of_restic_are_whole() -> None:
    listed = [
        b'{"struct_type":"snapshot"}\n',
        node("/a"),
        node("/d", "dir"),
        node("/d/e", "dir"),
        node("/d/e/f"),
        node("/d/g"),
        node("/l", "symlink"),
    ]

    found = {each.path: [file.name for file in each.files] for each in saved_directories(listed)}
    inner = {each.path: [file.name for file in each.files] for each in saved_directories(listed, "d")}

    assert found == {("d", "e"): ["f"], ("d",): ["e", "g"], (): ["a", "d", "l"]}
    assert inner == {("e",): ["f"], (): ["e", "g"]}


@pytest.mark.parametrize(
    "listed",
    [[node("/d/f")], [node("/..")], [node("//f")], [b"{cut"]],
    ids=["without its directory", "leads out", "no name", "cut"],
)
def test_nothing_is_concluded_from_a_list_that_is_damaged(listed: list[bytes]) -> None:
    with pytest.raises(UnexpectedOutput):
        list(saved_directories(listed))


async def test_a_new_volume_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    assert not await holds_something(tmp_path)
    (tmp_path / "file").touch()
    assert await holds_something(tmp_path)
    with pytest.raises(TargetFailed):
        await holds_something(tmp_path / "file")
