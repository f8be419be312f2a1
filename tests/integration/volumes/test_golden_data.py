"""The volume data in buckets of real Velero: verified, brought back file by file, deleted with its backup."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import pytest

from hack.cluster import binaries
from hack.cluster.stores.s3 import Bucket
from pinnace.api.values.counts import counted
from pinnace.cli.main import run
from pinnace.storage.open import open_object_store
from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import Unsupported
from pinnace.volumes.uploader.interface import Target
from tests.support.clock import FakeClock
from tests.support.stores import golden
from tests.support.volumes.volume_labs import Lab, cloud_lab

PASSWORD: Final = "static-passw0rd"
EMPTY: Final = hashlib.sha256(b"").hexdigest()
COMMON: Final = {
    "folder/deep/empty": EMPTY,
    "folder/navn med mellemrom æøå.txt": "e5eb510ba6215852257bd6ea13ede398a6d19ce0967e2a70a7f4dab7b28e9a79",
    "zeros.bin": "886715e4051e827f4fe215df3053af3f85ad0d352db2c829c7487af6d78efe30",
}
OF_DRIVES: Final = {
    **COMMON,
    "big.bin": "abda8c3f8983a730ba5fa91f719c89cc5b106c2fb4b804cee0fc2e23cf4a261b",
    "big.sum": "7e46ed38a0991c5ee6ad3b3b555acacae46c84c64a54c1710a0af0197af0266a",
}
OF_FILES: Final = {
    **COMMON,
    "big.bin": "566b71b4f5bf63fa0b2ca854a0976eee3d25ad06f4df14903918786551102041",
    "big.sum": "e55d7c4436025d94573be8c2e1cc06cc6f6c3517dc1e9d4473ce137a72ccce97",
}
RUN: Final = {"run.sh": "299001868fb8c02fd431c336c6d058f5558c5dff5b5af5e6fe04b870a6a9cbba"}
FIRST: Final = {
    **OF_DRIVES,
    **RUN,
    "notes.txt": "d0053fc6fbbb8560ecb06b6de7e22c938a30174bc94a1ad22024c9c23ccc053e",
}
AGAIN: Final = {
    **OF_DRIVES,
    "new.bin": "c58f2a632d0b722d2548b4636e309e8bc4899ccdac29e50c0be9e5e0248b322e",
    "notes.txt": "638667092f01b7e749248ff2a467944e4a799c192582ef8223e468efedd4eba5",
}
OF_1_18: Final = {
    **OF_DRIVES,
    "notes.txt": "7b5a510821523567da4960a04e2826c0b75f8d2b1412138d2a3fd9b4972323ef",
}
POD_FIRST: Final = {
    **OF_FILES,
    **RUN,
    "notes.txt": "b76b2384b38b784713f2db9a281f844e30ce520a0000603e237e564e2b58b50a",
}
POD_SECOND: Final = {
    **OF_FILES,
    "new.bin": "70371a10d2a909cfa396d9c5c4464cf3f88f63a75963e8820e1232b9480bf151",
    "notes.txt": "48e423249012cc01510607ccd3c7abfebf4e4eb08ada2a5aee5f33cffd5ca911",
}
POD_1_18: Final = {
    **OF_FILES,
    "new2.bin": "d00dc08f082128199ba5ca5baac363d04b953b32b2e5a00b68170cbe48fd3a65",
    "notes.txt": "c58c1319259b23b464a13caa6c3bf1a76fd66fdbd8fecd27ed512b7757d9b2cb",
}


class Written(msgspec.Struct, frozen=True):
    """A repository, and what the program that wrote it says of some of its snapshots.

    Attributes:
        backup: one that is verified, and deleted with its snapshots.
        of_backup: the snapshots of it.
        count: the number of all snapshots.
        trees: the SHA-256 of each file, by snapshot.
        device: a snapshot of a volume in Block mode, and the SHA-256 of its content.
    """

    version: str
    namespace: str
    backup: str
    of_backup: frozenset[str]
    count: int
    trees: Mapping[str, Mapping[str, str]] = {}
    device: tuple[str, str] | None = None


ARCHIVES: Final = (
    Written(
        "main-csi",
        "drives",
        "moved",
        frozenset({"a9a2eb60f7e31f52cd131dad178f3fb1", "aec4dc23b476195d2dd2e8b09dfce848"}),
        6,
        {"a9a2eb60f7e31f52cd131dad178f3fb1": FIRST, "fa56ac0d59bfdf92a8c1da84cb4f6501": AGAIN},
        (
            "3f887f8b390822232953b4a5eb9bc47d",
            "3fea0272872c9d3dfafaf4a0d83e2d6872e5501cdb4676c7fbf43a6cb78fce38",
        ),
    ),
    Written(
        "1.18.1",
        "drives",
        "moved",
        frozenset({"0e3058b400afd2baf1b3ddb6204a094c", "42580e458ce4ac540bf540ce44b7a9d8"}),
        4,
        {"0e3058b400afd2baf1b3ddb6204a094c": OF_1_18},
        (
            "42580e458ce4ac540bf540ce44b7a9d8",
            "f99f1d6188650e33b4dc2c21862dc8237c2da0aa756accd1e0e5b468404adda2",
        ),
    ),
    Written(
        "1.18.1",
        "files",
        "pods-first",
        frozenset({"74c11364fd30f4491bfd907621bae8fb"}),
        2,
        {"74c11364fd30f4491bfd907621bae8fb": POD_SECOND, "3e5a62d3ef5820a7926f9e5a776aa4c9": POD_1_18},
    ),
    Written(
        "main-pod-volumes",
        "files",
        "first",
        frozenset({"f5c87ae7ee8d225422dd5f592bbb5172"}),
        4,
        {
            "f5c87ae7ee8d225422dd5f592bbb5172": POD_FIRST,
            "9feb405bc9a67a1f02eb21d8b2ccf1df": POD_SECOND,
            "c11b9078dd86e5ea9635baa4a03b562b": POD_SECOND,
        },
    ),
)
BLOCK_FIRST: Final = (
    "7f518903e5efd99f8bbbdb0a47384ba89732eedffcfb2679dbc88d01026574f4",
    "07d13e9275a5fe32521868c6cb2726df68f214d8577a6189ac61b49f9fd68ee1",
)
BLOCK_CHANGED: Final = (
    "294e77bd0df846f2a0e2c2f4f9c88a3bc845075a8607f0657a8893c240606a14",
    "ea5fdd93adef3cb94c0bcfda8a3145f8786165638cbdc0f14d6e79e5a6bb9c65",
)
TREE_BYTES, RAW_BYTES, REST_BYTES = 3145728, 2621440, 1 << 20
BY_THE_BLOCK_MOVER: Final = {
    "block-first": ("ad645a5e81eb03337446409c09dca862", "8d0865371649f8e78386e1d24e8f9378", BLOCK_FIRST),
    "block-marked": ("3d17c9ace1e84e69ed5684feb4a07dd9", "1cc22733c041712bf444a34ef13ac3ae", BLOCK_FIRST),
    "block-changed": ("18e3beafeb4d2fc8009bd5b67a610166", "f326a1bb86dd336f9ee4794636dbf17d", BLOCK_CHANGED),
    "block-same": ("b419eed68955b5e54e622b4a92213ad2", "664d650fa38b30c5f4c81e1bbf08bd63", BLOCK_CHANGED),
    "block-full": ("d7bfd75dc4fc996a9da0ba1ef1e325c6", "2e50dd89f1d4391559c688cf52b6fee9", BLOCK_CHANGED),
    "block-no-service": (
        "24de92d60cec70a52b57dd985784ecf1",
        "77460afb84a7a5339fb73448b3b49a0e",
        BLOCK_CHANGED,
    ),
}
"""The snapshots of the volumes `tree` and `raw` by backup, the oldest first, and the SHA-256 of both devices.
"""


DEVICE_BYTES = 2_621_440
"""The size of the volumes in Block mode in the buckets; a smaller device is refused."""


@pytest.fixture(scope="session")
def program() -> str:
    """Found before a test has a home of its own."""
    return str(binaries.locate(binaries.UPLOADER)["kopia"])


@pytest.fixture
def location(program: str, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket that all commands of the test use."""
    settings = "&".join(f"{key}={value}" for key, value in bucket.location_config.items())
    monkeypatch.setenv("PATH", f"{Path(program).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PINNACE_LOCATION", f"s3://{bucket.name}?{settings}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", bucket.server.credentials.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", bucket.server.credentials.secret_access_key)
    monkeypatch.setenv("RESTIC_PASSWORD", PASSWORD)
    return bucket


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets files with the name `device` stand for devices, which only root can make."""
    monkeypatch.setattr(Path, "is_block_device", lambda path: path.name == "device")


def lab_of(folder: Path, bucket: Bucket) -> Lab:
    """What opens the repositories as a server does."""
    lab = cloud_lab(folder, bucket)
    lab.cluster.stored("backupstoragelocations", "default")["spec"]["objectStorage"] = {"bucket": bucket.name}
    lab.set_password(PASSWORD)
    return lab


async def _upload(version: str, folder: Path, bucket: Bucket) -> None:
    store = open_object_store("aws", {**bucket.location_config, "bucket": bucket.name}, environ=os.environ)
    try:
        await golden.upload(version, folder, store)
    finally:
        await store.close()


async def _compare(lab: Lab, kopia: Kopia, written: Written) -> None:
    """Bring the data of every snapshot back, and compare it."""
    place = Repository(location="default", namespace=written.namespace)
    for snapshot, sums in written.trees.items():
        shutil.rmtree(lab.volume)
        lab.volume.mkdir()
        await kopia.fill(place, snapshot, Target(path=lab.volume))
        found = {
            path.relative_to(lab.volume).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in lab.volume.rglob("*")
            if path.is_file() and not path.is_symlink()
        }
        assert found == sums, snapshot
        assert (lab.volume / "big.bin").stat().st_mode & 0o777 == 0o640
        assert (lab.volume / "folder/link").is_symlink()
    if written.device is not None:
        snapshot, checksum = written.device
        device = lab.work.parent / "device"
        device.write_bytes(bytes(DEVICE_BYTES))
        await kopia.fill(place, snapshot, Target(path=device))
        assert hashlib.sha256(device.read_bytes()).hexdigest() == checksum


@pytest.mark.found("G3")
@pytest.mark.found("G7")
@pytest.mark.spec("AFT-132")
@pytest.mark.parametrize("written", ARCHIVES, ids=lambda each: f"{each.version}, {each.namespace}")
def test_the_data_of_a_backup_is_verified_brought_back_and_deleted(
    written: Written, program: str, location: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if golden.archive(written.version) is None:
        pytest.skip(f"velero-{written.version}.tar.gz is not in tests/golden, nor in ${golden.WHOLE_FOLDER}")
    asyncio.run(_upload(written.version, tmp_path / "golden", location))

    assert run(["backup", "verify", written.backup, "--read-data", "100%"]) == 0, capsys.readouterr()

    (line,) = [line for line in capsys.readouterr().out.splitlines() if "kopia snapshots" in line]
    assert " ok " in line
    assert f" {counted(len(written.of_backup), 'snapshot')}; 100% of the data read" in line

    lab = lab_of(tmp_path, location)
    place = Repository(location="default", namespace=written.namespace)
    kopia = Kopia(lab.accesses, program=program)
    before = asyncio.run(kopia.snapshot_ids(place))
    assert len(before) == written.count
    asyncio.run(_compare(lab, kopia, written))

    password = tmp_path / "password"
    password.write_text(PASSWORD)
    words = ["backup", "delete", written.backup, "--confirm", "--restic-password-file", str(password)]
    assert run(words) == 0, capsys.readouterr()

    assert asyncio.run(kopia.snapshot_ids(place)) == before - written.of_backup


@pytest.mark.spec("AFT-132", "AFT-133", "AFT-137", "AFT-138", "AFT-139", "AFT-140")
def test_images_of_the_block_mover_are_verified_brought_back_bit_by_bit_and_deleted(
    program: str, location: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each backup once those before it, the parents of its snapshots, are deleted and their data is freed."""
    if golden.archive("main-block") is None:
        pytest.skip(f"velero-main-block.tar.gz is not in tests/golden, nor in ${golden.WHOLE_FOLDER}")
    asyncio.run(_upload("main-block", tmp_path / "golden", location))
    lab, place = lab_of(tmp_path, location), Repository(location="default", namespace="blocks")
    kopia = Kopia(lab.accesses, program=program, clock=FakeClock(now=datetime(2100, 1, 1, tzinfo=UTC)))
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    device = tmp_path / "device"
    left = {snapshot for *snapshots, _ in BY_THE_BLOCK_MOVER.values() for snapshot in snapshots}
    assert asyncio.run(kopia.snapshot_ids(place)) == left

    for backup, (tree, raw, sums) in BY_THE_BLOCK_MOVER.items():
        assert run(["backup", "verify", backup, "--read-data", "100%"]) == 0, capsys.readouterr()
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "kopia snapshots" in line]
        assert " ok " in line
        assert " 2 snapshots; 100% of the data read" in line

        for snapshot, size, checksum in ((tree, TREE_BYTES, sums[0]), (raw, RAW_BYTES, sums[1])):
            device.write_bytes(b"\xff" * (size + REST_BYTES))
            asyncio.run(kopia.fill(place, snapshot, Target(path=device)))
            content = device.read_bytes()
            assert hashlib.sha256(content[:size]).hexdigest() == checksum
            assert content[size:] == b"\xff" * REST_BYTES
            with pytest.raises(Unsupported, match="image of a device"):
                asyncio.run(kopia.fill(place, snapshot, Target(path=lab.volume)))
            assert list(lab.volume.iterdir()) == []

        words = ["backup", "delete", backup, "--confirm", "--restic-password-file", str(password)]
        assert run(words) == 0, capsys.readouterr()
        left -= {tree, raw}
        assert asyncio.run(kopia.snapshot_ids(place)) == left
        asyncio.run(kopia.maintain(place))
