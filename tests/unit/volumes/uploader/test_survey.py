"""What a program cannot save of a volume as it is, found in real directories."""

import os
import stat
from pathlib import Path

import pytest

from pinnace.volumes.uploader.survey import SOCKETS, SPECIAL, Names, Survey, as_utf8, survey


def found(names: Names) -> tuple[int, set[str]]:
    return names.count, set(names.shown)


async def test_special_files_are_found_by_their_type(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    os.mkfifo(tmp_path / "deep/pipe")
    os.mknod(tmp_path / "socket", stat.S_IFSOCK)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("socket")

    assert found((await survey(tmp_path, SPECIAL)).special) == (2, {"deep/pipe", "socket"})
    assert found((await survey(tmp_path, SOCKETS)).special) == (1, {"socket"})


async def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    for name in ("good", "g\u00f6\u00f6d", os.fsdecode(b"bad\xff"), os.fsdecode(b"also\xc3")):
        (tmp_path / name).mkdir()

    assert (await survey(tmp_path, SPECIAL)).renamed == Names()
    looked = await survey(tmp_path, SPECIAL, names=True)

    assert found(looked.renamed) == (2, {r"bad\xff", r"also\xc3"})
    assert looked.merged == Names()


@pytest.mark.parametrize("other", [b"a\xfe", "a\ufffd".encode()], ids=["not UTF-8 either", "UTF-8"])
async def test_names_that_would_become_one(tmp_path: Path, other: bytes) -> None:
    for name in (b"a\xff", other):
        (tmp_path / os.fsdecode(name)).touch()

    assert r"a\xff" in (await survey(tmp_path, SPECIAL, names=True)).merged.shown


def test_the_first_names_are_shown_without_what_harms_a_terminal() -> None:
    names = Names()
    for name in ("one\n", "two\x1b[31m", "three", "four", "five"):
        names.add(name)

    assert str(names) == r"one\n, three, two\x1b[31m and 2 more"


def test_each_byte_that_is_not_utf_8_is_replaced_as_go_does_it() -> None:
    assert as_utf8(os.fsdecode(b"\xe2\x80.\xf0\x9f\x98")) == "\ufffd\ufffd.\ufffd\ufffd\ufffd"


async def test_a_directory_that_is_gone_is_nothing(tmp_path: Path) -> None:
    assert await survey(tmp_path / "gone", SPECIAL, names=True) == Survey()
