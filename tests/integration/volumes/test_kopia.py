"""Real kopia: repositories that Velero wrote are restored, and ours have Velero's form. (docs/spec: KOP)"""

import asyncio
import base64
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from hack.cluster import binaries
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.aio.blocking import in_thread
from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import labels
from pinnace.cli.main import run
from pinnace.storage.open import open_object_store
from pinnace.storage.s3.store import S3Store
from pinnace.volumes.kopia import client as kopia_client
from pinnace.volumes.kopia import commands
from pinnace.volumes.kopia.access import kopia_access
from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import (
    CommandFailed,
    FilesUnreadable,
    RepositoryMissing,
    RepositoryUnusable,
    Unsupported,
    UploaderError,
)
from pinnace.volumes.uploader.interface import Source, Target
from tests.support.clock import FakeClock
from tests.support.stores.golden import upload
from tests.support.volumes.uploader_conformance import CAPABILITY, FILES, NAME
from tests.support.volumes.volume_labs import PASSWORD, TAGS, Lab, cloud_lab
from tests.support.waiting import eventually

MIB = 1 << 20
SAVED_MIB = 80
SHOP = Repository(location="default", namespace="shop")


@pytest.fixture(scope="session")
def program() -> str:
    return str(binaries.locate(binaries.UPLOADER)["kopia"])


@pytest.fixture
def lab(folder_lab: Lab, tmp_path: Path) -> Lab:
    (tmp_path / "bucket").mkdir()
    return folder_lab


@pytest.fixture
def kopia(lab: Lab, program: str) -> Kopia:
    return Kopia(lab.accesses, program=program)


async def test_all_snapshots_are_listed_and_none_that_was_removed(kopia: Kopia, lab: Lab) -> None:
    await kopia.init(SHOP)
    (lab.volume / "a").write_text("a")
    # Equal content gives one tree, but two snapshots.
    first, second = [
        (await kopia.save(SHOP, Source(path=lab.volume, tags=TAGS, name=NAME))).snapshot for _ in range(2)
    ]
    assert await kopia.snapshot_ids(SHOP) == {first, second}

    await kopia.forget(SHOP, first)

    assert await kopia.snapshot_ids(SHOP) == {second}


def test_verify_finds_a_snapshot_of_velero_and_reports_a_missing_one(
    program: str,
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = "&".join(f"{key}={value}" for key, value in bucket.location_config.items())
    monkeypatch.setenv("PATH", f"{Path(program).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PINNACE_LOCATION", f"s3://{bucket.name}?{settings}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", bucket.server.credentials.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", bucket.server.credentials.secret_access_key)
    monkeypatch.setenv("RESTIC_PASSWORD", "static-passw0rd")
    config = {**bucket.location_config, "bucket": bucket.name}

    async def filled() -> None:
        store = open_object_store("aws", config, environ=os.environ)
        try:
            await upload("1.16.2", tmp_path / "golden", store)
        finally:
            await store.close()

    async def emptied() -> None:
        store = open_object_store("aws", config, environ=os.environ)
        try:
            for key in await store.list_keys("kopia/files/"):
                await store.delete(key)
        finally:
            await store.close()

    def line() -> str:
        (found,) = [each for each in capsys.readouterr().out.splitlines() if "kopia snapshots" in each]
        return found

    asyncio.run(filled())
    assert run(["backup", "verify", "files", "--read-data", "100%"]) == 0
    assert line().split()[3:] == ["ok", "1", "snapshot;", "100%", "of", "the", "data", "read"]

    asyncio.run(emptied())
    assert run(["backup", "verify", "files"]) == 1
    assert "BAD" in line()


@pytest.mark.spec("KOP-001")
async def test_a_repository_that_velero_wrote_is_restored(
    program: str, restic_program: str, bucket: Bucket, tmp_path: Path
) -> None:
    lab = cloud_lab(tmp_path, bucket)
    lab.cluster.stored("backupstoragelocations", "default")["spec"]["objectStorage"] = {"bucket": bucket.name}
    lab.set_password("static-passw0rd")
    credentials = str(bucket.server.credentials_file)
    config = {**bucket.location_config, "bucket": bucket.name, "credentialsFile": credentials}
    store = open_object_store("aws", config)
    try:
        await upload("1.16.2", tmp_path / "golden", store)
        before = await store.list_keys("kopia/")
        kopia = Kopia(lab.accesses, program=program)
        place = Repository(location="default", namespace="files")

        await kopia.fill(place, "b0a1e521b631435bcfa1c614dd259b9d", Target(path=lab.volume))

        big = (lab.volume / "big.bin").read_bytes()
        assert hashlib.sha256(big).hexdigest() in (lab.volume / "big.sum").read_text()
        assert (lab.volume / "dir/deep.txt").stat().st_mode & 0o777 == 0o640
        assert any(path.is_symlink() for path in lab.volume.rglob("*"))
        assert [key for key in await store.list_keys("kopia/") if "_log" not in key] == [
            key for key in before if "_log" not in key
        ]
    finally:
        await store.close()


@pytest.mark.parametrize("held", ["from the start", "later"])
async def test_what_kopia_stores_is_held_and_maintained(
    program: str, restic_program: str, tmp_path: Path, held: str
) -> None:
    with TemporaryDirectory(dir="/var/tmp") as folder, S3Server(Path(folder), locks=True) as server:
        bucket = server.create_bucket("held-volumes", locks=True)
        lab = cloud_lab(tmp_path, bucket)
        config = {**bucket.location_config, "bucket": bucket.name}
        store = open_object_store("aws", {**config, "credentialsFile": str(server.credentials_file)})
        assert isinstance(store, S3Store)
        kopia = Kopia(lab.accesses, program=program)
        lock = {"objectLock.mode": "governance", "objectLock.until": "96h"}
        settings = lab.cluster.stored("backupstoragelocations", "default")["spec"]["config"]
        try:
            if held == "from the start":
                settings.update(lock)
            await kopia.init(SHOP)
            if held == "later":
                settings.update(lock)
                await kopia.maintain(SHOP)
            lab.fill(FILES)
            before = {each.version for each in await store.versions("site/kopia/")}

            made = await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

            stored = [each for each in await store.versions("site/kopia/") if each.version not in before]
            packs = [each for each in stored if not each.is_marker and "/p" in each.key.removeprefix("site/")]
            ends = [await store.held_until(each) for each in packs]
            assert packs
            for end in ends:
                assert end is not None
                assert timedelta(hours=95) < end - SYSTEM_CLOCK.now() < timedelta(hours=97)
            async with kopia_access(lab.accesses, SHOP) as access:
                info = json.loads(await kopia._ask(access, commands.maintenance(), 60))
            assert info["extendObjectLocks"] is True
            shutil.rmtree(lab.volume)
            lab.volume.mkdir()
            await kopia.fill(SHOP, made.snapshot, Target(path=lab.volume))
            assert (lab.volume / next(iter(FILES))).exists()
            await kopia.forget(SHOP, made.snapshot)
            await kopia.maintain(SHOP)
            assert await kopia.snapshot_ids(SHOP) == frozenset()
            assert [await store.held_until(each) for each in packs] != [None] * len(packs)
        finally:
            await store.close()


@pytest.mark.spec("KOP-002")
async def test_a_second_backup_reads_only_what_changed(lab: Lab, kopia: Kopia) -> None:
    lab.fill(FILES)
    await kopia.init(SHOP)
    first = await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))
    lab.fill({"new": b"12345"})

    second = await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    size = sum(len(data) for data in FILES.values())
    assert first.total_bytes == size
    assert second.total_bytes == size + 5
    assert first.new_bytes > 100_000
    assert second.new_bytes < 1000


@pytest.mark.spec("KOP-003")
async def test_snapshots_have_the_pin_description_path_and_tags_of_velero(
    lab: Lab, kopia: Kopia, program: str, tmp_path: Path
) -> None:
    lab.fill(FILES)
    await kopia.init(SHOP)
    made = await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    (found,) = json.loads(_ask(program, tmp_path, "snapshot", "list", "--all", "--json"))

    assert found["id"] == made.snapshot
    assert found["source"] == {"host": "default", "userName": "default", "path": NAME}
    assert found["pins"] == ["velero-pin"]
    assert found["description"] == "Kopia Uploader"
    assert found["tags"] == {
        f"tag:{key}": value for key, value in {**TAGS, "snapshot-uploader": "kopia"}.items()
    }
    policy = json.loads(_ask(program, tmp_path, "policy", "get", "--global", "--json"))
    assert policy["retention"]["keepLatest"] == 2**31 - 1
    assert policy["scheduling"]["manual"] is True
    assert json.loads(_ask(program, tmp_path, "maintenance", "info", "--json"))["owner"] == "default@default"


async def test_the_settings_of_a_repository_reach_kopia(
    lab: Lab, kopia: Kopia, program: str, tmp_path: Path
) -> None:
    await kopia.init(SHOP)
    marks = {
        labels.VOLUME_NAMESPACE: "shop",
        labels.STORAGE_LOCATION: "default",
        labels.REPOSITORY_TYPE: "kopia",
    }
    settings = {"cacheLimitMB": "500", "fullMaintenanceInterval": "fastGC"}
    lab.cluster.add("backuprepositories", "r", labels=marks, spec={"repositoryConfig": settings})

    await kopia.maintain(SHOP)

    info = json.loads(_ask(program, tmp_path, "maintenance", "info", "--json"))
    assert info["full"]["interval"] == 12 * 3600 * 10**9
    async with kopia_access(lab.accesses, SHOP) as access:
        config = await in_thread(Path(access.environment["KOPIA_CONFIG_PATH"]).read_text)
    caching = json.loads(config)["caching"]
    assert caching["maxCacheSize"] + caching["maxMetadataCacheSize"] == 500 << 20


@pytest.mark.spec("KOP-004")
async def test_a_new_repository_has_velero_s_blob_with_its_unique_id(
    lab: Lab, kopia: Kopia, program: str, tmp_path: Path
) -> None:
    await kopia.init(SHOP)

    blob = json.loads((_folder(tmp_path) / "udmrepo.Repository.f").read_bytes())
    status = json.loads(_ask(program, tmp_path, "repository", "status", "--json"))
    assert base64.b64decode(blob["uniqueID"]).hex() == status["uniqueIDHex"]


async def test_what_kopia_would_leave_out_is_saved(lab: Lab, kopia: Kopia, tmp_path: Path) -> None:
    cached = {"cache/CACHEDIR.TAG": b"Signature: 8a477f597d28d172789f06886806bc55", "cache/data": b"kept"}
    lab.fill({".kopiaignore": b"secret\n", "secret": b"kept too", **cached})
    await kopia.init(SHOP)
    made = await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    target = tmp_path / "target"
    target.mkdir()
    await kopia.fill(SHOP, made.snapshot, Target(path=target))

    assert (target / "secret").read_bytes() == b"kept too"
    assert (target / "cache/data").read_bytes() == b"kept"


@pytest.mark.spec("KOP-005")
async def test_other_data_under_the_prefix_is_one_error_and_left_alone(
    lab: Lab, kopia: Kopia, tmp_path: Path
) -> None:
    _folder(tmp_path).mkdir(parents=True)
    (_folder(tmp_path) / "notes.f").write_bytes(b"mine")

    with pytest.raises(RepositoryUnusable, match="is no repository; look at it, and move it away"):
        await kopia.init(SHOP)

    assert {path.name for path in _folder(tmp_path).iterdir()} - {".shards"} == {"notes.f"}


@pytest.mark.spec("KOP-005")
async def test_a_damaged_repository_is_one_error_and_not_replaced(
    lab: Lab, kopia: Kopia, tmp_path: Path
) -> None:
    await kopia.init(SHOP)
    (_folder(tmp_path) / "kopia.repository.f").write_bytes(b"damaged")

    for call in (kopia.connect, kopia.init):
        with pytest.raises(RepositoryUnusable, match="the repository is damaged"):
            await call(SHOP)
    assert (_folder(tmp_path) / "kopia.repository.f").read_bytes() == b"damaged"


@pytest.mark.spec("KOP-005")
async def test_a_missing_bucket_is_an_error(
    program: str, restic_program: str, bucket: Bucket, tmp_path: Path
) -> None:
    lab = cloud_lab(tmp_path, bucket)
    lab.cluster.stored("backupstoragelocations", "default")["spec"]["objectStorage"]["bucket"] = "no-such"
    kopia = Kopia(lab.accesses, program=program)

    with pytest.raises(UploaderError, match="no-such") as caught:
        await kopia.init(SHOP)

    assert not isinstance(caught.value, RepositoryMissing)


@pytest.mark.spec("KOP-006")
@pytest.mark.skipif(os.geteuid() != 0, reason="drops a capability of root")
async def test_an_unreadable_file_is_named_and_no_snapshot_stays(
    lab: Lab, program: str, tmp_path: Path
) -> None:
    lab.fill(FILES)
    (lab.volume / "a.txt").chmod(0)
    wrapper = tmp_path / "kopia"
    bounds = "--inh-caps=-all --bounding-set=-dac_override,-dac_read_search"
    wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/setpriv {bounds} {program} "$@"\n')
    wrapper.chmod(0o755)
    kopia = Kopia(lab.accesses, program=str(wrapper))
    await kopia.init(SHOP)

    with pytest.raises(FilesUnreadable, match=r"a\.txt.*permission denied"):
        await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    assert json.loads(_ask(program, tmp_path, "snapshot", "list", "--all", "--json")) == []


@pytest.mark.spec("KOP-007")
async def test_a_call_shows_no_secret_and_keeps_its_files_private(
    program: str, restic_program: str, bucket: Bucket, tmp_path: Path
) -> None:
    lab = cloud_lab(tmp_path, bucket)
    seen = tmp_path / "seen"
    spy = tmp_path / "spy"
    spy.write_text(
        f'#!/bin/sh\necho "$@" >>{seen}\nstat -c %a {lab.work}/uploader-* >>{seen}.modes\n'
        f'exec {program} "$@"\n'
    )
    spy.chmod(0o755)
    lab.fill(FILES)
    kopia = Kopia(lab.accesses, program=str(spy))

    await kopia.init(SHOP)
    await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    lines = seen.read_text()
    assert "repository create s3" in lines
    assert PASSWORD not in lines
    credentials = bucket.server.credentials
    assert credentials.secret_access_key not in lines
    assert credentials.access_key_id not in lines
    assert set((tmp_path / "seen.modes").read_text().split()) == {"700"}


def _folder(tmp_path: Path) -> Path:
    return tmp_path / "bucket/site/kopia/shop"


def _ask(program: str, tmp_path: Path, *args: str) -> bytes:
    """The answer of the kopia program itself about the repository in the folder."""
    config: Mapping[str, Any] = {
        "storage": {"type": "filesystem", "config": {"path": str(_folder(tmp_path)), "dirShards": []}},
        "caching": {},
        "hostname": "default",
        "username": "default",
    }
    file = tmp_path / "asking.config"
    file.write_text(json.dumps(config))
    environment = {"HOME": str(tmp_path), "KOPIA_PASSWORD": PASSWORD, "KOPIA_CONFIG_PATH": str(file)}
    line = [program, "--disable-file-logging", "--no-auto-maintenance", *args]
    return subprocess.run(line, env=environment, capture_output=True, check=True).stdout


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Two block devices of 2 MiB."""
    made = []
    try:
        for name in ("first", "second"):
            image = tmp_path / f"{name}.img"
            image.write_bytes(bytes(2 << 20))
            done = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"no loop devices here: {done.stderr.decode().strip()}")
            made.append(Path(done.stdout.decode().strip()))
        yield made[0], made[1]
    finally:
        for path in made:
            subprocess.run(["losetup", "--detach", path], check=True)


async def test_a_device_is_saved_and_restored_bit_by_bit(
    lab: Lab, kopia: Kopia, devices: tuple[Path, Path]
) -> None:
    first, second = devices
    content = os.urandom(1 << 20) + bytes(1 << 20)
    first.write_bytes(content)
    await kopia.init(SHOP)

    made = await kopia.save(SHOP, Source(path=first, name=NAME, tags=TAGS))
    await kopia.fill(SHOP, made.snapshot, Target(path=second))

    assert made.total_bytes == len(content)
    with second.open("rb") as device:
        assert device.read() == content


@pytest.mark.spec("KOP-006")
@pytest.mark.skipif(os.geteuid() != 0, reason="makes a device")
async def test_sockets_pipes_and_devices_are_left_out_and_named(
    lab: Lab, kopia: Kopia, tmp_path: Path
) -> None:
    lab.fill(FILES)
    os.mkfifo(lab.volume / "pipe")
    os.mknod(lab.volume / "null", stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(lab.volume / "socket", stat.S_IFSOCK)
    (lab.volume / "link").symlink_to("nowhere")
    await kopia.init(SHOP)

    made = await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    assert made.lacks == (
        "sockets, pipes and devices of the volume were not saved, as kopia keeps none: null, pipe, socket"
    )
    target = tmp_path / "target"
    target.mkdir()
    await kopia.fill(SHOP, made.snapshot, Target(path=target))
    assert not {"pipe", "null", "socket"} & {path.name for path in target.iterdir()}


@pytest.mark.found("V07")
async def test_hard_links_and_attributes_that_do_not_come_back_are_told(
    lab: Lab, kopia: Kopia, tmp_path: Path
) -> None:
    lab.fill(FILES)
    (lab.volume / "mail").write_bytes(b"message")
    os.link(lab.volume / "mail", lab.volume / "same")
    (lab.volume / "able").write_bytes(b"program")
    os.setxattr(lab.volume / "able", "security.capability", CAPABILITY)
    os.setxattr(lab.volume, "user.a", b"1")
    await kopia.init(SHOP)

    made = await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    assert made.lacks == (
        "hard links come back as files of their own, as kopia keeps none: mail, same;"
        " extended attributes, which ACLs and capabilities are, do not come back, as kopia keeps none:"
        " . (user.a), able (security.capability)"
    )
    target = tmp_path / "target"
    target.mkdir()
    await kopia.fill(SHOP, made.snapshot, Target(path=target))
    assert (target / "mail").stat().st_nlink == 1
    assert os.listxattr(target / "able") == os.listxattr(target) == []


async def test_names_that_are_not_utf_8_come_back_under_other_names_and_are_told(
    lab: Lab, kopia: Kopia, tmp_path: Path
) -> None:
    lab.fill({os.fsdecode(b"odd\xff/inside"): b"one", "line\nbreak": b"two"})
    await kopia.init(SHOP)

    made = await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    assert made.lacks == (
        r"files whose names are not UTF-8 come back under other names, as kopia keeps UTF-8 only: odd\xff"
    )
    target = tmp_path / "target"
    target.mkdir()
    await kopia.fill(SHOP, made.snapshot, Target(path=target))
    assert (target / "odd\ufffd/inside").read_bytes() == b"one"
    assert (target / "line\nbreak").read_bytes() == b"two"


@pytest.mark.found("V34")
@pytest.mark.parametrize("kind", ["file", "directory", "link"])
async def test_what_kopia_takes_for_its_own_placeholders_fails_the_volume(
    lab: Lab, kopia: Kopia, kind: str
) -> None:
    """kopia would fail without a name, save what a placeholder names, or leave a link out without a word."""
    lab.fill(FILES)
    odd = lab.volume / "x.kopia-entry"
    if kind == "file":
        odd.write_bytes(b"{}")
    elif kind == "directory":
        odd.mkdir()
    else:
        odd.symlink_to("a.txt")
    await kopia.init(SHOP)

    with pytest.raises(Unsupported, match=r"names end in \.kopia-entry.*: x\.kopia-entry: rename them"):
        await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    assert await kopia.snapshot_ids(SHOP) == frozenset()


@pytest.mark.timeout(900)  # 25,000 files on a busy machine
@pytest.mark.found("V07")
async def test_times_come_back_in_any_number_of_directories_of_any_size(
    lab: Lab, kopia: Kopia, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many calls are needed for the former, and large ones are objects of another kind."""
    monkeypatch.setattr(kopia_client, "BATCH", 4)
    old = 946684800_000000001
    for number in range(11):
        (lab.volume / f"dir-{number}/below/{number}").mkdir(parents=True)
    (lab.volume / "large/inside").mkdir(parents=True)
    for number in range(25_000):
        (lab.volume / "large" / f"{'n' * 150}-{number}").touch()
    os.symlink(b"\xff", os.fsencode(lab.volume / "large/link"))
    times = {path: old + index for index, path in enumerate(sorted(_odd_ones(lab.volume)))}
    for path, time in times.items():
        os.utime(path, ns=(time, time), follow_symlinks=False)
    await kopia.init(SHOP)
    made = await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))
    target = tmp_path / "target"
    target.mkdir()

    await kopia.fill(SHOP, made.snapshot, Target(path=target))

    restored = {path: (target / path.relative_to(lab.volume)).lstat().st_mtime_ns for path in times}
    assert restored == times


def _odd_ones(volume: Path) -> list[Path]:
    return [path for path in volume.rglob("*") if path.is_symlink() or path.is_dir()]


@pytest.mark.parametrize("other", [b"odd\xfe", "odd\ufffd".encode()], ids=["not UTF-8 either", "UTF-8"])
async def test_files_that_would_get_the_same_name_fail_the_volume(
    lab: Lab, kopia: Kopia, other: bytes
) -> None:
    """kopia keeps one of the two without a word."""
    lab.fill({os.fsdecode(b"deep/" + name): b"content" for name in (b"odd\xff", other)})
    await kopia.init(SHOP)

    with pytest.raises(Unsupported, match=r"would become the same name.*: deep/odd\\xf"):
        await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    assert await kopia.snapshot_ids(SHOP) == frozenset()


@pytest.mark.spec("KOP-005")
async def test_a_repository_of_a_newer_format_is_one_error_and_not_replaced(
    lab: Lab, kopia: Kopia, tmp_path: Path
) -> None:
    await kopia.init(SHOP)
    blob = _folder(tmp_path) / "kopia.repository.f"
    content = json.loads(blob.read_bytes())
    later = json.dumps({**content, "keyAlgo": "a-later-one"}).encode()
    blob.write_bytes(later)

    for call in (kopia.connect, kopia.init):
        with pytest.raises(RepositoryUnusable, match="of a format that this kopia does not know"):
            await call(SHOP)
    assert blob.read_bytes() == later


@pytest.mark.spec("KOP-007")
@pytest.mark.parametrize("moment", ["before", "while", "after"])
async def test_kopia_killed_while_saving_lists_no_half_snapshot_and_the_next_run_succeeds(
    lab: Lab, program: str, tmp_path: Path, moment: str
) -> None:
    lab.fill({**FILES, "large": os.urandom(20 << 20)})
    killing = tmp_path / "kopia"
    waiting = {
        "before": "",
        # The first pack of contents is there, the snapshot is not.
        "while": 'until ls "$FOLDER" | grep -q ^p; do kill -0 $child || break; done',
        "after": "wait $child",
    }[moment]
    killing.write_text(
        f"#!/bin/sh\nFOLDER={_folder(tmp_path)}\n"
        f'case "$*" in *"snapshot create"*) ;; *) exec {program} "$@";; esac\n'
        f'[ -e {tmp_path}/spared ] && exec {program} "$@"\n'
        f'{program} "$@" & child=$!\n{waiting}\nkill -9 $child 2>/dev/null\nwait $child\nexit 137\n'
    )
    killing.chmod(0o755)
    kopia = Kopia(lab.accesses, program=str(killing))
    await kopia.init(SHOP)
    source = Source(path=lab.volume, name=NAME, tags=TAGS)

    with pytest.raises(UploaderError):
        await kopia.save(SHOP, source)

    assert json.loads(_ask(program, tmp_path, "snapshot", "list", "--all", "--json", "--incomplete")) == []
    assert list(lab.work.glob("uploader-*")) == []
    (tmp_path / "spared").touch()
    made = await kopia.save(SHOP, source)
    (listed,) = json.loads(_ask(program, tmp_path, "snapshot", "list", "--all", "--json"))
    assert listed["id"] == made.snapshot


@pytest.mark.parametrize("tags", [TAGS, {"backup": "b1"}], ids=["of one volume", "of others too"])
async def test_the_snapshot_of_a_killed_kopia_is_removed_if_its_tags_are_of_one_volume(
    lab: Lab, program: str, tmp_path: Path, tags: dict[str, str]
) -> None:
    """A backup refers to the other snapshot, which has all tags except those of one volume."""
    lab.fill(FILES)
    kopia = Kopia(lab.accesses, program=program)
    await kopia.init(SHOP)
    other = await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags={**TAGS, "backup-uid": "other"}))
    killed = tmp_path / "kopia"
    killed.write_text(
        f'#!/bin/sh\ncase "$*" in *"snapshot create"*) ;; *) exec {program} "$@";; esac\n'
        f'{program} "$@" > /dev/null\nkill -9 $$\n'
    )
    killed.chmod(0o755)

    with pytest.raises(UploaderError):
        await Kopia(lab.accesses, program=str(killed)).save(
            SHOP, Source(path=lab.volume, name=NAME, tags=tags)
        )

    left = await kopia.snapshot_ids(SHOP)
    assert other.snapshot in left
    assert len(left) == (1 if tags == TAGS else 2)


@pytest.mark.parametrize("signal", ["INT", "TERM"])
async def test_a_kopia_stopped_by_a_signal_saves_nothing_though_it_reports_success(
    lab: Lab, program: str, tmp_path: Path, signal: str
) -> None:
    lab.fill({f"large{number}": os.urandom(20 << 20) for number in range(8)})
    stopping = tmp_path / "kopia"
    # It is held when it has sent a part, so that the signal comes in the middle.
    stopping.write_text(
        f"#!/bin/sh\nFOLDER={_folder(tmp_path)}\n"
        f'case "$*" in *"snapshot create"*) ;; *) exec {program} "$@";; esac\n'
        f'{program} "$@" & child=$!\n'
        'until ls "$FOLDER" | grep -q ^p; do kill -0 $child || break; done\n'
        f"kill -STOP $child; kill -{signal} $child; kill -CONT $child\n"
        "wait $child\n"
    )
    stopping.chmod(0o755)
    kopia = Kopia(lab.accesses, program=str(stopping))
    await kopia.init(SHOP)

    with pytest.raises(CommandFailed, match=r"only a part of the volume \(canceled\)"):
        await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    assert json.loads(_ask(program, tmp_path, "snapshot", "list", "--all", "--json")) == []


async def test_an_incomplete_snapshot_is_not_listed(lab: Lab, kopia: Kopia, tmp_path: Path) -> None:
    listing = tmp_path / "listing"
    listing.write_text(
        '#!/bin/sh\ncat <<END\n[{"id":"a"},{"id":"b","incomplete":"canceled","pins":["velero-pin"]}]\nEND\n'
    )
    listing.chmod(0o755)
    await kopia.init(SHOP)

    assert await Kopia(lab.accesses, program=str(listing)).snapshot_ids(SHOP) == {"a"}


async def test_a_repository_that_is_made_again_gets_the_policy_too(
    lab: Lab, kopia: Kopia, program: str, tmp_path: Path
) -> None:
    """A server and an agent that know the former repository must not save with kopia's own defaults."""
    cached = {"cache/CACHEDIR.TAG": b"Signature: 8a477f597d28d172789f06886806bc55", "cache/data": b"kept"}
    lab.fill({".kopiaignore": b"secret\n", "secret": b"kept too", **cached})
    agent = Kopia(lab.accesses, program=program)
    source, target = Source(path=lab.volume, name=NAME, tags=TAGS), tmp_path / "target"
    target.mkdir()
    await kopia.init(SHOP)
    await agent.save(SHOP, source)
    shutil.rmtree(_folder(tmp_path))
    with pytest.raises(RepositoryMissing):
        await agent.save(SHOP, source)

    await kopia.init(SHOP)
    made = await agent.save(SHOP, source)

    await agent.fill(SHOP, made.snapshot, Target(path=target))
    assert sorted(path.name for path in target.rglob("*")) == sorted(
        path.name for path in lab.volume.rglob("*")
    )


async def test_data_sent_by_a_killed_kopia_is_used_again_and_finally_removed(
    lab: Lab, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "CHECKPOINT", "1s")
    lab.fill({f"large{number}": os.urandom(20 << 20) for number in range(8)})
    killing = tmp_path / "kopia"
    # Held when it has sent a part, so that a checkpoint is due, and killed when that has made the part known.
    killing.write_text(
        f"#!/bin/sh\nFOLDER={_folder(tmp_path)}\n"
        f'case "$*" in *"snapshot create"*) ;; *) exec {program} "$@";; esac\n'
        f'[ -e {tmp_path}/spared ] && exec {program} "$@"\n'
        f'known=$(ls "$FOLDER" | grep -c ^x)\n'
        f'{program} "$@" & child=$!\n'
        'until ls "$FOLDER" | grep -q ^p; do kill -0 $child || break; done\n'
        "kill -STOP $child; sleep 1.5; kill -CONT $child\n"
        f'while [ $(ls "$FOLDER" | grep -c ^x) = $known ]; do kill -0 $child || break; done\n'
        f"kill -9 $child 2>/dev/null\nwait $child\nexit 137\n"
    )
    killing.chmod(0o755)
    clock = FakeClock(now=SYSTEM_CLOCK.now())
    kopia = Kopia(lab.accesses, program=str(killing), clock=clock)
    await kopia.init(SHOP)
    with pytest.raises(UploaderError):
        await kopia.save(SHOP, Source(path=lab.volume, name=f"{NAME}/of-another-pod", tags=TAGS))
    left = json.loads(_ask(program, tmp_path, "snapshot", "list", "--all", "--json", "--incomplete"))
    assert [each["incomplete"] for each in left] == ["checkpoint"] * len(left) != []
    sent = _size(tmp_path)

    (tmp_path / "spared").touch()
    made = await kopia.save(SHOP, Source(path=lab.volume, name=NAME, tags=TAGS))

    assert made.total_bytes == 160 << 20
    assert _size(tmp_path) < (170 << 20), f"{sent} bytes were there"
    await kopia.maintain(SHOP)
    assert len(json.loads(_ask(program, tmp_path, *LIST_ALL))) == len(left) + 1
    clock.turn(timedelta(days=8))
    await kopia.maintain(SHOP)
    assert [each["id"] for each in json.loads(_ask(program, tmp_path, *LIST_ALL))] == [made.snapshot]


LIST_ALL = ("snapshot", "list", "--all", "--json", "--incomplete")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in _folder(folder).rglob("*") if path.is_file())


async def test_what_a_killed_kopia_had_sent_before_its_last_checkpoint_is_not_sent_again(
    lab: Lab, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "CHECKPOINT", "1s")
    slow, process = tmp_path / "slow-kopia", tmp_path / "pid"
    limit = '"maxUploadSpeedBytesPerSecond": 3000000'
    slow.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *"snapshot create"*) echo $$ > {process};\n'
        f"""sed -i 's|"config": {{|&{limit}, |' "$KOPIA_CONFIG_PATH";; esac\n"""
        f'exec {program} "$@"\n'
    )
    slow.chmod(0o755)
    kopia = Kopia(lab.accesses, program=str(slow))
    await kopia.init(SHOP)
    lab.fill({f"file-{number}": os.urandom(MIB) for number in range(SAVED_MIB)})
    repository = tmp_path / "bucket/site/kopia/shop"
    size, indexes = _stored(repository), _indexes(repository)

    async def kill_when_much_is_indexed() -> None:
        async def much() -> bool:
            return len(_indexes(repository) - indexes) >= 3 and _stored(repository) - size > 30 * MIB

        await eventually(much)
        os.kill(int(process.read_text()), signal.SIGKILL)

    async with asyncio.TaskGroup() as group:
        group.create_task(kill_when_much_is_indexed())
        with pytest.raises(UploaderError):
            await kopia.save(SHOP, Source(path=lab.volume, tags=TAGS, name=NAME))
    assert await kopia.snapshot_ids(SHOP) == set()

    before = _stored(repository)
    saved = await Kopia(lab.accesses, program=program).save(
        SHOP, Source(path=lab.volume, tags=TAGS, name=NAME)
    )

    assert before - size > 30 * MIB
    assert _stored(repository) - before < (SAVED_MIB - 20) * MIB
    assert saved.total_bytes == SAVED_MIB * MIB
    assert saved.new_bytes is not None
    assert saved.new_bytes < (SAVED_MIB - 20) * MIB
    assert await kopia.snapshot_ids(SHOP) == {saved.snapshot}


def _stored(repository: Path) -> int:
    """The bytes in a repository, without files that are being written."""
    return sum(each.stat().st_size for each in repository.rglob("*.f"))


def _indexes(repository: Path) -> set[str]:
    return {each.name for each in repository.rglob("x*.f")}
