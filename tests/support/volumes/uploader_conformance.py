"""The behaviour of every Uploader, as one class of tests for restic and kopia.

A subclass gives the fixture `lab`: a VolumeLab whose repository is not made yet.
"""

import asyncio
import itertools
import os
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from pinnace.volumes.kopia import client as kopia
from pinnace.volumes.restic import client as restic
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.comparing import FileFate
from pinnace.volumes.uploader.errors import (
    AccessError,
    DataDamaged,
    InvalidSnapshot,
    RepositoryMissing,
    UploaderError,
    WrongPassword,
)
from pinnace.volumes.uploader.interface import Source, Target, Uploader
from pinnace.volumes.uploader.output import ByteCounts
from pinnace.volumes.uploader.progress import OnProgress
from pinnace.volumes.uploader.share import ReadShare
from tests.support.volumes.volume_labs import PASSWORD, TAGS, Lab

FILES = {"a.txt": b"one", "deep/er/b.bin": bytes(range(256)) * 400, "empty": b""}
CAPABILITY = bytes.fromhex("0100000202000000000000000000000000000000")
"""cap_net_bind_service, revision 2, effective."""
NAME = "snapshot-pod-volume/kopia/shop/p/data"


@dataclass(frozen=True)
class UploaderLab:
    """An uploader, and the lab that it works in."""

    uploader: Uploader
    repository: Repository
    lab: Lab

    def source(self, backup: str = "b1", *, parent: str = "") -> Source:
        return Source(path=self.lab.volume, name=NAME, tags={**TAGS, "backup-uid": backup}, parent=parent)

    def nothing_is_left(self) -> bool:
        """Whether no private file is left; caches may stay."""
        return [path for path in self.lab.work.iterdir() if path.name != "cache"] == []


class UploaderConformance:
    """The tests.

    Attributes:
        keeps_unchanged: whether the program can leave files that have not changed.
    """

    keeps_unchanged = True

    async def test_what_was_saved_is_restored_over_what_is_there(
        self, lab: UploaderLab, tmp_path: Path
    ) -> None:
        lab.lab.fill(FILES)
        (lab.lab.volume / "link").symlink_to("a.txt")
        (lab.lab.volume / "a.txt").chmod(0o640)
        saved: list[ByteCounts] = []
        restored: list[ByteCounts] = []
        await lab.uploader.init(lab.repository)

        made = await lab.uploader.save(lab.repository, lab.source(), on_progress=_into(saved))
        target = tmp_path / "target"
        target.mkdir()
        (target / "kept").write_bytes(b"was there")
        (target / "a.txt").write_bytes(b"is replaced")
        place = Target(path=target, size_bytes=made.total_bytes)
        await lab.uploader.fill(lab.repository, made.snapshot, place, on_progress=_into(restored))

        assert _content(target) == {**FILES, "kept": b"was there"}
        assert (target / "link").readlink() == Path("a.txt")
        assert (target / "a.txt").stat().st_mode & 0o777 == 0o640
        size = sum(len(data) for data in FILES.values())
        assert saved[-1] == ByteCounts(total_bytes=size, bytes_done=size)
        assert restored[-1] == ByteCounts(total_bytes=size, bytes_done=size)
        assert lab.nothing_is_left()

    @pytest.mark.found("V07")
    @pytest.mark.parametrize("is_in_place", [False, True], ids=["plain", "incremental"])
    async def test_nothing_is_written_through_links_that_lead_out_of_the_volume(
        self, lab: UploaderLab, tmp_path: Path, is_in_place: bool
    ) -> None:
        lab.lab.fill(FILES)
        (lab.lab.volume / "link").symlink_to("a.txt")
        await lab.uploader.init(lab.repository)
        made = await lab.uploader.save(lab.repository, lab.source())
        target, outside = tmp_path / "target", tmp_path / "outside"
        target.mkdir()
        outside.mkdir()
        (outside / "file").write_bytes(b"of the node")
        (target / "a.txt").symlink_to(outside / "file")
        (target / "deep").symlink_to(outside)
        (target / "link").symlink_to(outside)
        (target / "empty").mkdir()
        (target / "empty" / "out").symlink_to(outside)
        place = Target(path=target, keep_unchanged=is_in_place, delete_extra=is_in_place)

        await lab.uploader.fill(lab.repository, made.snapshot, place)

        assert _content(target) == FILES
        assert (target / "link").readlink() == Path("a.txt")
        assert _content(outside) == {"file": b"of the node"}

    async def test_in_place_a_volume_becomes_what_was_saved_and_what_is_unchanged_is_kept(
        self, lab: UploaderLab, tmp_path: Path
    ) -> None:
        files = {**FILES, "same": b"same", "late": b"abcd", "one": b"1", "two": b"2", "mode": b"m"}
        lab.lab.fill(files)
        (lab.lab.volume / "link").symlink_to("a.txt")
        await lab.uploader.init(lab.repository)
        made = await lab.uploader.save(lab.repository, lab.source())
        target = tmp_path / "target"
        target.mkdir()
        await lab.uploader.fill(lab.repository, made.snapshot, Target(path=target))
        (target / "a.txt").write_bytes(b"longer than before")
        late = (target / "late").stat().st_mtime_ns
        (target / "late").write_bytes(b"efgh")
        os.utime(target / "late", ns=(late, late + 1_000_000_000))
        (target / "two").unlink()
        (target / "two").hardlink_to(target / "one")
        (target / "mode").chmod(0o777)
        (target / "link").unlink()
        (target / "link").symlink_to("empty")
        outside = tmp_path / "outside"
        lab_files = {"kept": b"by nobody"}
        outside.mkdir()
        (outside / "kept").write_bytes(lab_files["kept"])
        (target / "extra" / "er").mkdir(parents=True)
        (target / "extra" / "er" / "file").write_bytes(b"extra")
        (target / "extra" / "out").symlink_to(outside)
        (target / "deep" / "er" / "hard").hardlink_to(outside / "kept")
        (target / "lost+found").mkdir()
        os.mkfifo(target / "pipe")
        deep_time = (lab.lab.volume / "deep" / "er").stat().st_mtime_ns
        unchanged = (target / "same").stat().st_ctime_ns
        place = Target(path=target, keep_unchanged=True, delete_extra=True)

        await lab.uploader.fill(lab.repository, made.snapshot, place)

        assert {name for name in os.listdir(target) if "/" not in name} == {
            *(name.partition("/")[0] for name in files),
            *("link", "lost+found", "pipe"),
        }
        (target / "pipe").unlink()
        assert _content(target) == files
        assert (target / "link").readlink() == Path("a.txt")
        assert (target / "mode").stat().st_mode & 0o777 == (lab.lab.volume / "mode").stat().st_mode & 0o777
        assert (target / "deep" / "er").stat().st_mtime_ns == deep_time
        assert _content(outside) == lab_files
        if self.keeps_unchanged:
            assert (target / "same").stat().st_ctime_ns == unchanged

    async def test_without_the_wish_for_it_what_the_snapshot_does_not_have_stays(
        self, lab: UploaderLab, tmp_path: Path
    ) -> None:
        lab.lab.fill(FILES)
        await lab.uploader.init(lab.repository)
        made = await lab.uploader.save(lab.repository, lab.source())
        target = tmp_path / "target"
        (target / "deep").mkdir(parents=True)
        (target / "deep" / "mine").write_bytes(b"mine")

        await lab.uploader.fill(lab.repository, made.snapshot, Target(path=target, keep_unchanged=True))

        assert _content(target) == {**FILES, "deep/mine": b"mine"}

    @pytest.mark.parametrize("deletes", [True, False], ids=["deletes extra files", "keeps extra files"])
    async def test_a_comparison_changes_nothing_and_says_what_a_restore_then_changes(
        self, lab: UploaderLab, tmp_path: Path, deletes: bool
    ) -> None:
        volume, target, outside = lab.lab.volume, tmp_path / "target", tmp_path / "outside"
        lab.lab.fill(
            {**FILES, "same": b"same", "late": b"abcd", "mode": b"m", "gone/far": b"", "was/in": b""}
        )
        (volume / "was" / "a-file").write_bytes(b"")
        for name in ("link", "other"):
            (volume / name).symlink_to("a.txt")
        await lab.uploader.init(lab.repository)
        made = await lab.uploader.save(lab.repository, lab.source())
        place = Target(path=target, keep_unchanged=True, delete_extra=deletes)
        target.mkdir()
        await lab.uploader.fill(lab.repository, made.snapshot, place)
        same = await lab.uploader.compare(lab.repository, made.snapshot, place)
        late = (target / "late").stat().st_mtime_ns
        (target / "late").write_bytes(b"efgh")
        os.utime(target / "late", ns=(late, late + 1_000_000_000))
        (target / "a.txt").write_bytes(b"longer than before")
        (target / "mode").chmod(0o777)
        (target / "other").unlink()
        (target / "other").symlink_to(outside)
        shutil.rmtree(target / "gone")
        shutil.rmtree(target / "was")
        (target / "was").write_bytes(b"a directory before")
        (target / "empty").unlink()
        (target / "empty" / "deep").mkdir(parents=True)
        (target / "empty" / "deep" / "in the way").write_bytes(b"")
        outside.mkdir()
        (outside / "kept").write_bytes(b"by nobody")
        (target / "extra" / "er").mkdir(parents=True)
        (target / "extra" / "er" / "file\nof two lines").write_bytes(b"extra")
        (target / "extra" / "out").symlink_to(outside)
        (target / "lost+found").mkdir()
        os.mkfifo(target / "pipe")
        before = _states(target)

        found = await lab.uploader.compare(lab.repository, made.snapshot, place)

        assert same.names == {}
        assert same.counts[FileFate.SAME] == 11
        assert same.rewrites_same is not self.keeps_unchanged
        assert _states(target) == before
        extra = ["extra", "extra/er", "extra/er/file\nof two lines", "extra/out"]
        removed = ["empty/deep", "empty/deep/in the way"]
        assert found.names == {
            FileFate.CREATED: ["gone", "gone/far", "was/a-file", "was/in"],
            FileFate.OVERWRITTEN: ["a.txt", "empty", "late", "mode", "other", "was"],
            FileFate.REMOVED: [*removed, *(extra if deletes else ())],
            FileFate.EXTRA: sorted(["pipe", *(() if deletes else extra)]),
        }
        assert {fate: number for fate, number in found.counts.items() if number} == {
            FileFate.SAME: 3,
            **{fate: len(names) for fate, names in found.names.items()},
        }

        await lab.uploader.fill(lab.repository, made.snapshot, place)

        after = await lab.uploader.compare(lab.repository, made.snapshot, place)
        assert after.names == {FileFate.EXTRA: found.names[FileFate.EXTRA]}
        assert after.counts[FileFate.SAME] == 11
        gone = before.keys() - _states(target).keys()
        assert sorted(gone) == found.names[FileFate.REMOVED]
        assert _content(outside) == {"kept": b"by nobody"}
        if self.keeps_unchanged:
            assert _states(target)["same"] == before["same"]
        assert lab.nothing_is_left()

    async def test_the_times_of_files_directories_and_links_come_back(
        self, lab: UploaderLab, tmp_path: Path
    ) -> None:
        """Those of the root do not: the agent writes into it afterwards."""
        lab.lab.fill(FILES)
        (lab.lab.volume / "none").mkdir()
        (lab.lab.volume / "deep/link").symlink_to("/nowhere")
        (lab.lab.volume / "to-directory").symlink_to("deep")
        odd = (0, 1, 1700000000_000000001, 4102444800_999999999, -86400 * 10**9 + 7, 946684800_500000000)
        times = dict(zip(_below(lab.lab.volume), itertools.cycle(odd), strict=False))
        for path, time in times.items():
            os.utime(lab.lab.volume / path, ns=(time, time), follow_symlinks=False)
        await lab.uploader.init(lab.repository)
        made = await lab.uploader.save(lab.repository, lab.source())
        target = tmp_path / "target"
        target.mkdir()

        await lab.uploader.fill(lab.repository, made.snapshot, Target(path=target))

        restored = {path: (target / path).lstat().st_mtime_ns for path in times}
        assert restored == times
        assert lab.nothing_is_left()

    @pytest.mark.spec("AFT-141")
    async def test_every_file_is_read_if_asked_for_also_those_that_look_unchanged(
        self, lab: UploaderLab, tmp_path: Path
    ) -> None:
        lab.lab.fill({"a.txt": b"before"})
        time_ns = 1700000000_000000001
        os.utime(lab.lab.volume / "a.txt", ns=(time_ns, time_ns))
        await lab.uploader.init(lab.repository)
        first = await lab.uploader.save(lab.repository, lab.source())
        with (lab.lab.volume / "a.txt").open("r+b") as file:
            file.write(b"behind")
        os.utime(lab.lab.volume / "a.txt", ns=(time_ns, time_ns))

        source = replace(lab.source("b2", parent=first.snapshot), reads_all=True)
        again = await lab.uploader.save(lab.repository, source)
        target = tmp_path / "target"
        target.mkdir()
        await lab.uploader.fill(lab.repository, again.snapshot, Target(path=target))

        assert _content(target) == {"a.txt": b"behind"}

    async def test_the_snapshots_with_all_tags_are_removed_and_no_others(self, lab: UploaderLab) -> None:
        lab.lab.fill(FILES)
        await lab.uploader.init(lab.repository)
        for backup in ("b1", "b1", "b2"):
            await lab.uploader.save(lab.repository, lab.source(backup))
        before = await lab.uploader.snapshot_ids(lab.repository)

        await lab.uploader.forget_tagged(lab.repository, {**TAGS, "backup-uid": "b1", "none": "has this"})
        for too_few in ({}, {"backup-uid": "b1"}, {**TAGS, "pod-uid": ""}, {**TAGS, "backup-uid": ""}):
            await lab.uploader.forget_tagged(lab.repository, too_few)
        assert await lab.uploader.snapshot_ids(lab.repository) == before
        await lab.uploader.forget_tagged(lab.repository, {**TAGS, "backup-uid": "b1"})

        assert len(before) == 3
        assert len(await lab.uploader.snapshot_ids(lab.repository)) == 1
        assert lab.nothing_is_left()

    async def test_a_save_that_is_cancelled_at_its_very_end_leaves_no_snapshot(
        self, lab: UploaderLab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The snapshot is stored, but no object will refer to it."""
        for client in (restic, kopia):  # a slow machine needs longer
            monkeypatch.setattr(client, "UNDO_SECONDS", 60.0)
        lab.lab.fill(FILES)
        await lab.uploader.init(lab.repository)
        told = asyncio.Event()

        async def on_progress(_progress: ByteCounts) -> None:
            told.set()
            await asyncio.get_running_loop().create_future()

        saving = asyncio.create_task(lab.uploader.save(lab.repository, lab.source(), on_progress=on_progress))
        await told.wait()
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving

        assert await lab.uploader.snapshot_ids(lab.repository) == frozenset()
        assert lab.nothing_is_left()

    async def test_a_second_snapshot_of_a_volume_and_the_first_are_both_restored(
        self, lab: UploaderLab, tmp_path: Path
    ) -> None:
        lab.lab.fill(FILES)
        await lab.uploader.init(lab.repository)
        first = await lab.uploader.save(lab.repository, lab.source())
        lab.lab.fill({"a.txt": b"two", "new": b"new"})

        second = await lab.uploader.save(lab.repository, lab.source("b2", parent=first.snapshot))

        expected = {first.snapshot: FILES, second.snapshot: {**FILES, "a.txt": b"two", "new": b"new"}}
        for snapshot, files in expected.items():
            target = tmp_path / snapshot
            target.mkdir()
            await lab.uploader.fill(lab.repository, snapshot, Target(path=target))
            assert _content(target) == files

    async def test_a_part_of_a_snapshot_is_restored_alone(self, lab: UploaderLab, tmp_path: Path) -> None:
        lab.lab.fill({"vol_data.json": b"old", "mount/deep/file": b"content"})
        await lab.uploader.init(lab.repository)
        made = await lab.uploader.save(lab.repository, lab.source())

        assert await lab.uploader.has_file(lab.repository, made.snapshot, "vol_data.json")
        assert not await lab.uploader.has_file(lab.repository, made.snapshot, "mount")

    async def test_a_missing_repository_is_distinguished_and_not_made(self, lab: UploaderLab) -> None:
        with pytest.raises(RepositoryMissing):
            await lab.uploader.connect(lab.repository)
        with pytest.raises(UploaderError):
            await lab.uploader.save(lab.repository, lab.source())

        with pytest.raises(RepositoryMissing):
            await lab.uploader.connect(lab.repository)
        assert lab.nothing_is_left()

    async def test_init_of_a_repository_that_is_there_opens_it(self, lab: UploaderLab) -> None:
        await lab.uploader.init(lab.repository)
        await lab.uploader.init(lab.repository)
        await lab.uploader.connect(lab.repository)

    async def test_a_wrong_password_is_distinguished_and_not_shown(self, lab: UploaderLab) -> None:
        await lab.uploader.init(lab.repository)
        lab.lab.set_password("not-the-password")

        for call in (lab.uploader.connect, lab.uploader.init):
            with pytest.raises(WrongPassword) as caught:
                await call(lab.repository)
            assert "not-the-password" not in str(caught.value)
            assert str(lab.lab.work) not in str(caught.value)
        assert lab.nothing_is_left()

    async def test_a_missing_password_is_an_access_error(self, lab: UploaderLab) -> None:
        lab.lab.cluster.vanish("secrets", "velero-restic-credentials")
        with pytest.raises(AccessError, match="not found in namespace"):
            await lab.uploader.connect(lab.repository)

    async def test_forgetting_twice_is_success_and_keeps_the_other_snapshot(
        self, lab: UploaderLab, tmp_path: Path
    ) -> None:
        lab.lab.fill(FILES)
        await lab.uploader.init(lab.repository)
        first = await lab.uploader.save(lab.repository, lab.source())
        second = await lab.uploader.save(lab.repository, lab.source("b2", parent=first.snapshot))

        await lab.uploader.forget(lab.repository, first.snapshot)
        await lab.uploader.forget(lab.repository, first.snapshot)
        await lab.uploader.unlock(lab.repository)
        await lab.uploader.maintain(lab.repository)

        target = tmp_path / "target"
        target.mkdir()
        with pytest.raises(UploaderError):
            await lab.uploader.fill(lab.repository, first.snapshot, Target(path=target))
        await lab.uploader.fill(lab.repository, second.snapshot, Target(path=target))
        assert _content(target) == FILES

    @pytest.mark.parametrize("hostile", ["--password-command=touch x", "latest", "", "../2fa3"])
    async def test_what_is_no_snapshot_id_never_reaches_the_program(
        self, lab: UploaderLab, hostile: str
    ) -> None:
        with pytest.raises(InvalidSnapshot):
            await lab.uploader.forget(lab.repository, hostile)
        with pytest.raises(InvalidSnapshot):
            await lab.uploader.fill(lab.repository, hostile, Target(path=lab.lab.volume))

    async def test_a_cancelled_save_leaves_nothing_and_the_next_one_succeeds(
        self, lab: UploaderLab, tmp_path: Path
    ) -> None:
        lab.lab.fill({f"{number}": bytes([number]) * 200_000 for number in range(50)})
        await lab.uploader.init(lab.repository)
        began = asyncio.Event()

        async def saving() -> None:
            began.set()
            await lab.uploader.save(lab.repository, lab.source())

        task = asyncio.create_task(saving())
        await began.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert lab.nothing_is_left()
        made = await lab.uploader.save(lab.repository, lab.source("b2"))
        target = tmp_path / "target"
        target.mkdir()
        await lab.uploader.fill(lab.repository, made.snapshot, Target(path=target))
        assert _content(target) == _content(lab.lab.volume)

    @pytest.mark.parametrize("share", ["10%", "1/2"])
    async def test_a_sound_repository_passes_its_check(self, lab: UploaderLab, share: str) -> None:
        lab.lab.fill(FILES)
        await lab.uploader.init(lab.repository)
        made = await lab.uploader.save(lab.repository, lab.source())

        await lab.uploader.check(lab.repository, [made.snapshot], ReadShare.parse(share))

        assert lab.nothing_is_left()

    async def test_changed_data_is_found_by_reading_it(self, lab: UploaderLab) -> None:
        lab.lab.fill({"big": random.Random(1).randbytes(300_000)})
        await lab.uploader.init(lab.repository)
        made = await lab.uploader.save(lab.repository, lab.source())
        stored = [path for path in (lab.lab.volume.parent / "bucket").rglob("*") if path.is_file()]
        largest = max(stored, key=lambda path: path.stat().st_size)
        largest.chmod(0o600)
        data = bytearray(largest.read_bytes())
        data[len(data) // 2] ^= 1
        largest.write_bytes(data)

        with pytest.raises(DataDamaged):
            await lab.uploader.check(lab.repository, [made.snapshot], ReadShare.parse("100%"))

        largest.unlink()
        with pytest.raises(DataDamaged):
            await lab.uploader.check(lab.repository, [made.snapshot], ReadShare.parse("1%"))
        assert lab.nothing_is_left()

    async def test_no_secret_is_in_an_error(self, lab: UploaderLab) -> None:
        with pytest.raises(UploaderError) as caught:
            await lab.uploader.connect(lab.repository)
        assert PASSWORD not in str(caught.value)


def _below(folder: Path) -> list[Path]:
    """The paths of everything in a folder, the deepest first."""
    found = [path.relative_to(folder) for path in folder.rglob("*")]
    return sorted(found, key=lambda path: (-len(path.parts), path))


def _states(root: Path) -> dict[str, tuple[int, ...]]:
    """Inode, type, size and times of all that is in a directory."""
    found = {str(path.relative_to(root)): path.lstat() for path in root.rglob("*")}
    return {
        name: (each.st_ino, each.st_mode, each.st_size, each.st_mtime_ns, each.st_ctime_ns)
        for name, each in found.items()
    }


def _content(folder: Path) -> Mapping[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _into(reports: list[ByteCounts]) -> OnProgress:
    async def report(progress: ByteCounts) -> None:
        reports.append(progress)

    return report
