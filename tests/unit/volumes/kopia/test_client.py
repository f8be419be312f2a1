"""Which snapshots are removed after a save with kopia that failed; how images come back to devices."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import (
    CommandFailed,
    DataDamaged,
    FilesUnreadable,
    UnexpectedOutput,
    Unsupported,
    UploaderError,
)
from pinnace.volumes.uploader.interface import Source, Target
from pinnace.volumes.uploader.output import ByteCounts
from pinnace.volumes.uploader.progress import OnProgress
from tests.support.clock import LeapingClock
from tests.unit.volumes.programs import TAGS, ScriptedProgram

SHOP = Repository(location="default", namespace="shop", uploader="kopia")
MADE, OTHER = "a" * 32, "b" * 32


@pytest.fixture
def program(tmp_path: Path) -> ScriptedProgram:
    repository = tmp_path / "bucket/kopia/shop"
    repository.mkdir(parents=True)
    (repository / "kopia.repository.f").touch()
    return ScriptedProgram(tmp_path)


async def save(program: ScriptedProgram, create: str, tags: dict[str, str] = TAGS) -> None:
    """Save the volume with a kopia that runs this on `snapshot create`, and lists the snapshot MADE."""
    program.answer(snapshot_create=create, snapshot_list=f"""echo '[{{"id":"{MADE}"}}]'""")
    kopia = Kopia(program.accesses, program=str(program.path))
    await kopia.save(SHOP, Source(path=program.volume, name="n", tags=tags))


def removed(program: ScriptedProgram) -> list[str]:
    """The ids of the snapshots that were removed."""
    return [line.split()[-1] for line in program.calls("snapshot delete")]


def printed(members: str = "", summary: str = "") -> str:
    """The shell command that prints the snapshot OTHER as kopia does."""
    return f"""echo '{{"id":"{OTHER}","rootEntry":{{"obj":"k1","summ":{{"size":1{summary}}}}}{members}}}'"""


async def test_a_snapshot_that_lacks_a_part_is_refused_and_removed(program: ScriptedProgram) -> None:
    with pytest.raises(CommandFailed, match=r"only a part of the volume \(canceled\)"):
        await save(program, printed(',"incomplete":"canceled"'))
    assert removed(program) == [OTHER]


async def test_a_snapshot_that_lacks_files_is_refused_and_removed(program: ScriptedProgram) -> None:
    errors = ',"numFailed":2,"errors":[{"path":"a","error":"denied"}]'
    with pytest.raises(FilesUnreadable, match="a: denied and 1 more"):
        await save(program, printed(summary=errors))
    assert removed(program) == [OTHER]


@pytest.mark.parametrize(
    ("create", "kind"),
    [("kill -9 $$", CommandFailed), ("true", UnexpectedOutput), ("echo none", UnexpectedOutput)],
    ids=["killed", "nothing printed", "no JSON"],
)
async def test_a_snapshot_whose_id_is_not_known_is_removed_by_its_tags(
    program: ScriptedProgram, create: str, kind: type[UploaderError]
) -> None:
    with pytest.raises(kind):
        await save(program, create)

    assert removed(program) == [MADE]
    (listing,) = program.calls("snapshot list")
    assert all(f"--tags={name}:{value}" in listing for name, value in TAGS.items())


@pytest.mark.parametrize("missing", ["backup-uid", "ns", "volume", "pod-uid"])
async def test_nothing_is_removed_by_tags_that_other_volumes_may_have(
    program: ScriptedProgram, missing: str
) -> None:
    with pytest.raises(UnexpectedOutput):
        await save(program, "true", {name: value for name, value in TAGS.items() if name != missing})
    assert removed(program) == []


async def test_nothing_is_removed_after_an_error_without_a_snapshot(program: ScriptedProgram) -> None:
    with pytest.raises(CommandFailed):
        await save(program, "exit 1")
    assert removed(program) == []


SOURCE = "snapshot-data-upload-download/velero-block/shop/data"
NAME = "snapshot-data-upload-download-velero-block-shop-data"
MEBIBYTE = 1 << 20
IMAGE = b"\1" * MEBIBYTE + bytes(MEBIBYTE) + b"\2" * (MEBIBYTE // 2) + bytes(MEBIBYTE // 2)
USED = b"\xff" * 4 * MEBIBYTE


MOVED = "snapshot-data-upload-download/kopia/shop/data"


def entry(name: str = NAME, size: int = len(IMAGE), obj: str = "Ix" + "c" * 32) -> str:
    return f"-rwxrwxrwx {size} 1754-08-30 22:43:41 UTC {obj} {name}"


class Images:
    """A kopia that has an image of Velero's block mover, and the device that it is restored to.

    Args:
        device_bytes: the size of the device, which was in use.
    """

    def __init__(self, program: ScriptedProgram, folder: Path, device_bytes: int = len(USED)) -> None:
        self.program = program
        self.device = folder / "device"
        self.device.write_bytes(USED[:device_bytes])
        self.image = folder / "image"
        self.image.write_bytes(IMAGE)

    def answer(
        self, size: object = "2621440", listed: str = entry(), show: str = "", source: str = SOURCE
    ) -> None:
        tags = {} if size is None else {"bdev-source-size": size}
        root = {"type": "d", "mode": "0777", "mtime": "1754-08-30T22:43:41.128654848Z", "obj": "k" + "1" * 32}
        manifest = json.dumps({"source": {"path": source}, "id": "", "rootEntry": root, "tags": tags})
        self.program.answer(
            **{
                "manifest_show": f"echo '// id: 1\n{manifest}'",
                "ls_-l": f"echo '{listed}'",
                "show": show or f"cat {self.image}",
            }
        )

    async def fill(self, path: Path | None = None, on_progress: OnProgress | None = None) -> None:
        kopia = Kopia(self.program.accesses, program=str(self.program.path), clock=LeapingClock())
        await kopia.fill(SHOP, OTHER, Target(path=path or self.device), on_progress=on_progress)


@pytest.fixture
def images(program: ScriptedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Images:
    monkeypatch.setattr(Path, "is_block_device", lambda path: path.name == "device")
    return Images(program, tmp_path)


@pytest.mark.spec("AFT-133", "AFT-139", "AFT-140")
async def test_an_image_is_cut_to_its_device_and_the_rest_of_the_target_stays(images: Images) -> None:
    images.answer()
    await images.fill()
    assert images.device.read_bytes() == IMAGE[:2621440] + USED[2621440:]


@pytest.mark.spec("AFT-134")
@pytest.mark.parametrize("size", [None, "", "0", "-1", "1e6", "9" * 30, 2621440])
async def test_an_image_without_a_readable_size_is_written_whole(images: Images, size: object) -> None:
    images.answer(size=size)
    await images.fill()
    assert images.device.read_bytes() == IMAGE + USED[len(IMAGE) :]


@pytest.mark.spec("AFT-136")
async def test_an_image_whose_list_is_itself_a_list_is_read_by_its_object(images: Images) -> None:
    obj = "IIx" + "c" * 32
    images.answer(listed=entry(obj=obj))
    await images.fill()
    assert images.program.calls(f"show {obj}")
    assert images.device.read_bytes()[:2621440] == IMAGE[:2621440]


@pytest.mark.spec("AFT-133", "AFT-134", "AFT-135")
@pytest.mark.parametrize(
    ("answers", "device_bytes", "message"),
    [
        ({}, 2621439, r"dest dev\(.*/device\) size is too small \(2621439 vs. 2621440\)"),
        ({"size": None}, 2621440, r"size is too small \(2621440 vs. 3145728\)"),
        ({"source": MOVED}, 2621440, r"size is too small \(2621440 vs. 3145728\)"),
        ({"size": "3145729"}, 4 << 20, rf"unexpected size \(3145728 vs. 3145729\) for bdev object {NAME}"),
        (
            {"listed": f"{entry()}\n{entry('b')}"},
            4 << 20,
            rf"unexpected number of bdev object \(2\) for snapshot {OTHER}",
        ),
        ({"listed": ""}, 4 << 20, r"unexpected number of bdev object \(0\)"),
        ({"listed": entry().replace("-", "d", 1)}, 4 << 20, r"unexpected number of bdev object \(1\)"),
    ],
    ids=[
        "too small",
        "too small without a tag",
        "too small for what is no image",
        "larger than its file",
        "two",
        "none",
        "a directory",
    ],
)
async def test_what_is_not_an_image_of_that_device_is_refused_before_a_byte_is_written(
    images: Images, answers: dict[str, Any], device_bytes: int, message: str
) -> None:
    os.truncate(images.device, device_bytes)
    images.answer(**answers)

    with pytest.raises(Unsupported, match=message):
        await images.fill()

    assert images.device.read_bytes() == USED[:device_bytes]
    assert not any(line.split()[3] == "show" for line in images.program.calls("show Ix"))


@pytest.mark.spec("AFT-138")
async def test_an_image_is_never_written_as_a_file(images: Images) -> None:
    images.answer()
    with pytest.raises(Unsupported, match="volume is a directory: an image is written to devices only"):
        await images.fill(images.program.volume)
    assert list(images.program.volume.iterdir()) == []


async def test_an_image_that_ends_early_is_an_error(images: Images) -> None:
    images.answer(show=f"head -c 1000 {images.image}")
    with pytest.raises(UnexpectedOutput, match="kopia printed 1000 of 2621440 bytes"):
        await images.fill()


async def test_the_error_of_a_program_is_told_and_not_the_lack_of_its_output(images: Images) -> None:
    images.answer(show=f"head -c 1000 {images.image}; echo 'ERROR is backed by missing blob' >&2; exit 1")
    with pytest.raises(DataDamaged):
        await images.fill()


async def test_the_error_of_a_device_is_told_and_ends_the_program(images: Images) -> None:
    images.device.unlink()
    images.device.symlink_to("/dev/full")
    images.answer(source=MOVED, listed=entry(size=0), show="yes")
    with pytest.raises(CommandFailed, match=r"command=write.*/device: No space left on device"):
        await images.fill()


async def test_the_progress_of_a_device_is_told_and_its_program_ends_when_it_is_cancelled(
    images: Images,
) -> None:
    images.answer(show=f"cat {images.image}; exec sleep 600")
    told: list[ByteCounts] = []
    written = asyncio.Event()

    async def on_progress(progress: ByteCounts) -> None:
        told.append(progress)
        if progress.bytes_done == 2621440:
            written.set()

    filling = asyncio.create_task(images.fill(on_progress=on_progress))
    await asyncio.wait_for(written.wait(), 60)
    filling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await filling
    assert told[-1] == ByteCounts(total_bytes=2621440, bytes_done=2621440)
