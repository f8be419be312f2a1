"""The files of a volume that a program does not save as they are, found in real directories."""

import asyncio
import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from pinnace.volumes.uploader import survey as survey_module
from pinnace.volumes.uploader.survey import BY_KOPIA, BY_RESTIC, Names, SearchedFiles, Survey, as_utf8, survey
from tests.support.volumes.uploader_conformance import CAPABILITY

NOTHING = SearchedFiles(types=())


ACL = bytes.fromhex(
    "0200000001000700ffffffff02000500e803000004000500ffffffff10000500ffffffff20000500ffffffff"
)
"""user::rwx user:1000:r-x group::r-x mask::r-x other::r-x"""


def found(names: Names) -> tuple[int, set[str]]:
    return names.count, set(names.shown)


async def test_special_files_are_found_by_their_type(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    os.mkfifo(tmp_path / "deep/pipe")
    os.mknod(tmp_path / "socket", stat.S_IFSOCK)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("socket")

    assert found((await survey(tmp_path, BY_KOPIA)).special) == (2, {"deep/pipe", "socket"})
    assert found((await survey(tmp_path, BY_RESTIC)).special) == (1, {"socket"})


async def test_names_that_are_not_utf_8_are_found(tmp_path: Path) -> None:
    for name in ("good", "g\u00f6\u00f6d", os.fsdecode(b"bad\xff"), os.fsdecode(b"also\xc3")):
        (tmp_path / name).mkdir()

    assert (await survey(tmp_path, NOTHING)).renamed == Names()
    looked = await survey(tmp_path, BY_KOPIA)

    assert found(looked.renamed) == (2, {r"bad\xff", r"also\xc3"})
    assert looked.merged == Names()


@pytest.mark.found("V34")
async def test_what_kopia_takes_for_its_own_placeholders_is_found(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a.kopia-entry").touch()
    (tmp_path / "b.kopia-entry").mkdir()
    (tmp_path / "c.kopia-entry").symlink_to("nowhere")
    (tmp_path / ".kopia-entry.txt").touch()

    assert (await survey(tmp_path, NOTHING)).placeholders == Names()
    looked = await survey(tmp_path, BY_KOPIA)
    assert found(looked.placeholders) == (3, {"deep/a.kopia-entry", "b.kopia-entry", "c.kopia-entry"})


@pytest.mark.found("V24")
async def test_links_whose_targets_are_not_utf_8_are_found(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name, target in (("good", b"g\xc3\xb6\xc3\xb6d"), ("plain", b"../x"), ("deep/bad", b"dangling\xff")):
        os.symlink(target, os.fsencode(tmp_path / name))

    assert (await survey(tmp_path, BY_KOPIA)).retargeted == Names()
    assert found((await survey(tmp_path, BY_RESTIC)).retargeted) == (1, {"deep/bad"})


@pytest.mark.found("V07")
async def test_hard_links_and_extended_attributes_are_found(tmp_path: Path) -> None:
    """An ACL and a capability as the kernel has them; what SELinux gives each file is no loss."""
    volume = tmp_path / "volume"
    (volume / "deep").mkdir(parents=True)
    for name in ("plain", "one", "able", "labeled"):
        (volume / name).touch()
    os.link(volume / "one", volume / "deep/two")
    (volume / "link").symlink_to("one")
    os.setxattr(volume, "user.of.the.root", b"x")
    os.setxattr(volume / "able", "security.capability", CAPABILITY)
    os.setxattr(volume / "deep", "system.posix_acl_default", ACL)
    os.setxattr(volume / "labeled", "security.selinux", b"system_u:object_r:container_file_t:s0")

    looked = await survey(volume, BY_KOPIA)

    assert found(looked.linked) == (2, {"one", "deep/two"})
    assert found(looked.attributed) == (
        3,
        {". (user.of.the.root)", "able (security.capability)", "deep (system.posix_acl_default)"},
    )
    looked = await survey(volume, BY_RESTIC)
    assert (looked.linked, looked.attributed) == (Names(), Names())


async def test_a_file_system_without_extended_attributes_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def refuse(path: str, *, follow_symlinks: bool) -> list[str]:
        asked.append(path)
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "listxattr", refuse)
    for name in ("a", "b"):
        (tmp_path / name).touch()
    os.link(tmp_path / "a", tmp_path / "c")

    looked = await survey(tmp_path, BY_KOPIA)

    assert (looked.linked.count, asked) == (2, [str(tmp_path)])


@pytest.mark.parametrize("other", [b"a\xfe", "a\ufffd".encode()], ids=["not UTF-8 either", "UTF-8"])
async def test_names_that_would_become_the_same_are_found(tmp_path: Path, other: bytes) -> None:
    for name in (b"a\xff", other):
        (tmp_path / os.fsdecode(name)).touch()

    assert r"a\xff" in (await survey(tmp_path, BY_KOPIA)).merged.shown


def test_the_first_names_are_shown_without_control_characters() -> None:
    names = Names()
    for name in ("one\n", "two\x1b[31m", "three", "four", "five"):
        names.add(name)

    assert str(names) == r"one\n, three, two\x1b[31m and 2 more"


def test_each_byte_that_is_not_utf_8_is_replaced_as_go_does_it() -> None:
    assert as_utf8(os.fsdecode(b"\xe2\x80.\xf0\x9f\x98")) == "\ufffd\ufffd.\ufffd\ufffd\ufffd"


async def test_a_missing_directory_has_no_files(tmp_path: Path) -> None:
    assert await survey(tmp_path / "gone", BY_KOPIA) == Survey()


async def test_a_directory_that_cannot_be_read_does_not_hide_the_names_elsewhere(tmp_path: Path) -> None:
    """Two files would be saved as one without a word."""
    too_long = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):  # the path of the last ones is longer than the kernel takes
        os.mkdir("d" * 250, dir_fd=too_long)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=too_long)
        os.close(too_long)
        too_long = below
    os.close(too_long)
    for directory in ("a", "z"):
        (tmp_path / directory).mkdir()
        for name in (b"x\xff", b"x\xfe"):
            (tmp_path / directory / os.fsdecode(name)).touch()

    assert (await survey(tmp_path, BY_KOPIA)).merged.count == 4


async def test_a_directory_that_becomes_a_file_meanwhile_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for directory in ("a", "b"):
        (tmp_path / directory).mkdir()
        os.mkfifo(tmp_path / directory / "pipe")
    scandir, replaced = os.scandir, list[Path]()

    def scan(path: str) -> "os._ScandirIterator[str]":
        if Path(path) != tmp_path and not replaced:
            replaced.append(Path(path))
            (replaced[0] / "pipe").unlink()
            replaced[0].rmdir()
            replaced[0].touch()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)

    assert (await survey(tmp_path, BY_KOPIA)).special.count == 1


async def test_a_survey_that_is_cancelled_ends_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, was_stopped = threading.Event(), list[bool]()

    def look(_directory: Path, _types: object, stopped: threading.Event) -> Survey:
        began.set()
        was_stopped.append(stopped.wait(5.0))
        return Survey()

    monkeypatch.setattr(survey_module, "_look", look)
    looking = asyncio.create_task(survey(tmp_path, BY_KOPIA))
    await asyncio.to_thread(began.wait)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking

    assert was_stopped == [True]
