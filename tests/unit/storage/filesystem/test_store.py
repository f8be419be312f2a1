"""The directory as a store: conformance, and what only files have (modes, links, leftovers, full disks)."""

import asyncio
import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from pinnace.storage.backup_files import CountedFile, StoredFile, stored_bytes
from pinnace.storage.errors import ObjectNotFound, StorageError, StoreConfigError, StoreUnavailable
from pinnace.storage.filesystem import store as filesystem
from pinnace.storage.filesystem.spool import SPOOL_DIRECTORY
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.interface import ObjectStore, stream_file
from tests.support.stores.conformance import (
    BrokenBodyError,
    Hanging,
    RangeConformance,
    StoreConformance,
    blocks,
    broken,
    content,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> FilesystemStore:
    return FilesystemStore(root)


def everything(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


class TestConformance(RangeConformance, StoreConformance):
    more_than_a_page = 103  # a folder has no pages

    @pytest.fixture
    def store(self, root: Path) -> ObjectStore:
        return FilesystemStore(root)

    @pytest.fixture
    def missing(self, root: Path) -> ObjectStore:
        root.mkdir()
        store = FilesystemStore(root, create=False)
        root.rmdir()
        return store


def unmount(root: Path) -> None:
    """What is left of a mounted directory is elsewhere."""
    root.rename(root.with_name("elsewhere"))


class TestUnmounted:
    """What a server sees of a directory whose file system went away."""

    @pytest.fixture
    def store(self, root: Path) -> FilesystemStore:
        """Of a directory that is there, as a server opens it."""
        root.mkdir()
        return FilesystemStore(root, create=False)

    def test_it_cannot_be_opened_and_says_what_to_do(self, root: Path) -> None:
        with pytest.raises(StoreUnavailable, match=f"{root} does not exist: mount it, or create it"):
            FilesystemStore(root, create=False)
        assert not root.exists()

    async def test_nothing_is_written_below_the_mount_point(self, store: FilesystemStore, root: Path) -> None:
        await store.put("backups/b1/a", b"x")
        unmount(root)

        with pytest.raises(StoreUnavailable):
            await store.put("backups/b2/a", b"x")
        assert names(root.parent) == ["elsewhere"]

    async def test_a_directory_that_went_away_and_came_back_empty_is_another(
        self, store: FilesystemStore, root: Path
    ) -> None:
        unmount(root)
        os.mkdir(root)

        with pytest.raises(StoreUnavailable, match="replaced by another"):
            await store.list_prefixes("backups/")

    async def test_one_that_goes_away_while_it_is_listed_is_not_listed_in_part(
        self, store: FilesystemStore, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(3):
            await store.put(f"backups/b{number}/a", b"x")
        entries = filesystem._entries

        def interrupted(of: Path, directory: Path) -> list[os.DirEntry[str]]:
            if directory.name == "b1":
                unmount(root)
            return entries(of, directory)

        monkeypatch.setattr(filesystem, "_entries", interrupted)
        with pytest.raises(StoreUnavailable, match="does not exist"):
            await store.list_prefixes("backups/")

    async def test_an_empty_directory_is_an_empty_store(self, store: FilesystemStore) -> None:
        assert await store.list_prefixes("") == []

    async def test_a_command_makes_what_does_not_exist(self, root: Path) -> None:
        store = FilesystemStore(root / "deep/er", create=True)
        assert await store.list_prefixes("") == []
        assert names(root.parent) == []

        await store.put("a/b", b"x")
        assert await store.list_keys("") == ["a/b"]


async def test_what_is_created_is_private(store: FilesystemStore, root: Path) -> None:
    old = os.umask(0)
    try:
        await store.put("backups/b1/file", b"x")
    finally:
        os.umask(old)

    paths = [root, *(root / name for name in everything(root))]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()} == {0o600}


async def test_nothing_but_the_object_stays(store: FilesystemStore, root: Path) -> None:
    await store.put("backups/b1/file", blocks(3))

    assert everything(root) == ["backups", "backups/b1", "backups/b1/file"]


@pytest.mark.parametrize("count", [0, 3])
async def test_a_failed_put_leaves_no_file_at_all(store: FilesystemStore, root: Path, count: int) -> None:
    with pytest.raises(BrokenBodyError):
        await store.put("backups/b1/file", broken(count))

    assert everything(root) == []


async def test_a_cancelled_put_leaves_no_file_at_all(store: FilesystemStore, root: Path) -> None:
    body = Hanging(2)
    putting = asyncio.create_task(store.put("backups/b1/file", body))
    await body.reached.wait()
    assert everything(root)[0] == SPOOL_DIRECTORY
    putting.cancel()
    await asyncio.wait({putting})

    assert everything(root) == []


async def test_an_object_in_the_making_is_not_listed(store: FilesystemStore) -> None:
    body = Hanging(2)
    putting = asyncio.create_task(store.put("backups/b1/file", body))
    await body.reached.wait()

    assert await store.list_keys("") == []
    assert await store.list_prefixes("") == []
    putting.cancel()
    await asyncio.wait({putting})


async def test_the_next_writer_removes_what_a_dead_one_left(store: FilesystemStore, root: Path) -> None:
    killed = (
        "import os, signal, sys; from pathlib import Path\n"
        "from pinnace.storage.filesystem.spool import SpooledFile\n"
        "spooled = SpooledFile(Path(sys.argv[1])); spooled.open(); spooled.write(b'half')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", killed, str(root)], check=False, timeout=60
    )
    assert done.returncode < 0
    assert len(everything(root)) == 2

    await store.put("a", b"x")

    assert everything(root) == ["a"]


async def test_a_living_writer_keeps_its_file(store: FilesystemStore, root: Path) -> None:
    body = Hanging(1)
    putting = asyncio.create_task(FilesystemStore(root).put("a", body))
    await body.reached.wait()
    await store.put("b", b"x")

    left = [path for path in everything(root) if path.startswith(f"{SPOOL_DIRECTORY}/")]
    assert len(left) == 1
    putting.cancel()
    await asyncio.wait({putting})
    assert everything(root) == ["b"]


async def test_a_file_held_by_another_process_is_no_leftover(store: FilesystemStore, root: Path) -> None:
    spool = root / SPOOL_DIRECTORY
    spool.mkdir(parents=True)
    held = spool / "held"
    with held.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        await store.put("a", b"x")
        assert held.exists()
    await FilesystemStore(root).put("b", b"x")
    assert not held.exists()


async def test_directories_that_come_and_go_under_each_other(store: FilesystemStore) -> None:
    async def work(number: int) -> None:
        for _ in range(5):
            await store.put(f"dir/sub/{number}", b"x")
            await store.delete(f"dir/sub/{number}")
        await store.put(f"dir/sub/{number}", b"last")

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(work(number))

    assert await store.list_keys("dir/") == [f"dir/sub/{number}" for number in (3, 2, 1, 0)]


async def test_the_spool_cannot_be_addressed(store: FilesystemStore) -> None:
    with pytest.raises(StorageError, match="the store's own"):
        await store.put(f"{SPOOL_DIRECTORY}/x", b"")


class TestLinks:
    @pytest.fixture
    def outside(self, root: Path, tmp_path: Path) -> Path:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret").write_bytes(b"secret")
        root.mkdir()
        (root / "link").symlink_to(outside, target_is_directory=True)
        (root / "file").symlink_to(outside / "secret")
        return outside

    async def test_are_not_read(self, store: FilesystemStore, outside: Path) -> None:
        for key in ("link/secret", "file"):
            with pytest.raises(StorageError, match="symbolic links are not followed"):
                await content(store, key)

    async def test_are_not_written_through(self, store: FilesystemStore, outside: Path) -> None:
        with pytest.raises(StorageError, match="symbolic links are not followed"):
            await store.put("link/new", b"x")

        assert everything(outside) == ["secret"]

    async def test_are_replaced_not_followed_by_a_put(self, store: FilesystemStore, outside: Path) -> None:
        await store.put("file", b"mine")

        assert (outside / "secret").read_bytes() == b"secret"
        assert await content(store, "file") == b"mine"

    async def test_are_not_listed(self, store: FilesystemStore, outside: Path) -> None:
        assert await store.list_keys("") == []
        assert await store.list_prefixes("") == []
        with pytest.raises(StorageError, match="symbolic links are not followed"):
            await store.list_keys("link/")

    async def test_nothing_is_deleted_behind_them(self, store: FilesystemStore, outside: Path) -> None:
        with pytest.raises(StorageError, match="symbolic links are not followed"):
            await store.delete("link/secret")

        assert (outside / "secret").exists()

    async def test_the_root_may_be_one(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "alias").symlink_to(tmp_path / "real", target_is_directory=True)
        await FilesystemStore(tmp_path / "alias").put("a/b", b"x")

        assert (tmp_path / "real" / "a" / "b").read_bytes() == b"x"


async def test_a_pipe_is_not_an_object(store: FilesystemStore, root: Path) -> None:
    await store.put("a", b"x")
    os.mkfifo(root / "pipe")

    assert not await store.exists("pipe")
    assert await store.list_keys("") == ["a"]
    with pytest.raises(ObjectNotFound):
        await content(store, "pipe")


async def test_a_directory_is_not_an_object(store: FilesystemStore) -> None:
    await store.put("a/b", b"x")

    assert not await store.exists("a")
    with pytest.raises(ObjectNotFound):
        await content(store, "a")
    await store.delete("a")
    assert await store.exists("a/b")


async def test_an_object_below_an_object_is_refused_clearly(store: FilesystemStore) -> None:
    await store.put("a", b"x")
    with pytest.raises(StorageError, match=r"cannot write 'a/b': Not a directory"):
        await store.put("a/b", b"x")


async def test_a_root_that_cannot_be_made_is_refused_with_the_reason() -> None:
    store = FilesystemStore(Path("/proc/backups"))  # where not even root can make a directory
    with pytest.raises(StorageError, match=r"^cannot write 'a': No such file or directory$"):
        await store.put("a", b"x")


async def test_the_signed_url_is_the_file(store: FilesystemStore, root: Path) -> None:
    url = urlsplit(await store.signed_url("a b/ü", timedelta(minutes=10)))

    assert (url.scheme, url.netloc) == ("file", "")
    assert unquote(url.path) == str(root / "a b" / "ü")


def test_the_root_must_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreConfigError, match="is not a directory"):
        FilesystemStore(tmp_path / "file")
    with pytest.raises(StoreConfigError, match="cannot use"):
        FilesystemStore(tmp_path / "file" / "below")


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB."""
    mount_point = tmp_path / "tiny"
    mount_point.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount_point)],
        check=False,
        capture_output=True,
        timeout=60,
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a tiny file system needs root")
    yield mount_point
    subprocess.run(["umount", str(mount_point)], check=True, timeout=60)


async def test_a_full_disk_is_said_and_leaves_nothing(tiny_disk: Path) -> None:
    store = FilesystemStore(tiny_disk)
    with pytest.raises(StorageError, match="cannot write 'a/b': no space left on the device"):
        await store.put("a/b", blocks(3))

    assert everything(tiny_disk) == []
    await store.put("a/b", b"fits")
    assert await content(store, "a/b") == b"fits"


async def test_a_write_that_fails_is_translated(
    store: FilesystemStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, block: bytes) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match="no space left on the device"):
        await store.put("a/b", b"x")
    monkeypatch.undo()
    assert everything(root) == []


async def test_a_counted_file_is_recorded_as_the_store_has_it(tmp_path: Path) -> None:
    path, store = tmp_path / "file", FilesystemStore(tmp_path / "store")
    path.write_bytes(os.urandom(2_500_000))
    sent = CountedFile(path)

    await store.put("a/b", sent)

    body = (tmp_path / "store/a/b").read_bytes()
    assert sent.stored("a/b") == StoredFile("a/b", sha256(body).hexdigest(), len(body))
    assert sent.stored("a/b") == stored_bytes("a/b", body)


async def test_stream_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2_500_000)

    assert sum([len(block) async for block in stream_file(path)]) == 2_500_000
    with pytest.raises(StorageError, match="cannot read nothing: No such file"):
        [block async for block in stream_file(tmp_path / "nothing")]
