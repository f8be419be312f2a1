"""The plain list of an encrypted backup: what stands in it, when it changes, and forged ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from pinnace.age.recipients import parse_recipients
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.snapshots import VolumeSnapshot, VolumeSnapshotSpec, VolumeSnapshotStatus
from pinnace.catalogue.plain_volumes import PlainListError, decode_plain_list, encode_plain_list
from pinnace.catalogue.reading import (
    plain_list_of,
    plain_list_of_parked,
    read_deletable,
    read_deletable_in_repositories,
)
from pinnace.catalogue.volumes import Place, SavedVolume, Way
from pinnace.csi.deletion import StoredSnapshot
from pinnace.kms.errors import KMSRefused, KMSUnavailable
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_files import BackupFiles, FinalFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.checked_files import SignatureRefused
from pinnace.storage.encryption import Encryption
from pinnace.storage.errors import UnreadableObject
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.key_errors import AgePluginFailed, IdentityMissing, IdentityRefused
from pinnace.storage.layout import Layout
from pinnace.storage.own_settings import Signatures
from tests.unit.catalogue.ways import NAME, by_csi, by_pod, file_of, saved, upload, uploading
from tests.unit.restore.world import tarball_of

SOMEBODY = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
NATIVE = VolumeSnapshot(
    spec=VolumeSnapshotSpec(
        backup_name=NAME, location="aws", persistent_volume_name="pv-secret", provider_volume_id="vol-secret"
    ),
    status=VolumeSnapshotStatus(provider_snapshot_id="snap-1", phase="Completed"),
)


def files_of(contents: Path | None = None, **fields: Any) -> BackupFiles:
    metadata = encode_metadata(Backup(metadata=ObjectMeta(name=NAME)))
    return BackupFiles(name=NAME, metadata=metadata, contents=contents, **fields)


def titles(volumes: Sequence[SavedVolume]) -> list[str]:
    return [str(each) for each in volumes]


async def test_it_names_data_and_neither_claims_nor_pods(tmp_path: Path) -> None:
    files = files_of(
        snapshots=[NATIVE],
        pod_volume_backups=[saved("secret", "k1", "kopia"), saved("secret2", "k2", "kopia"), saved("empty")],
        volume_infos=[by_pod("secret", "k1", "kopia"), by_csi("secret3", "handle-1", "driver.example.com")],
        item_operations=[uploading("secret4")],
    )

    data = await plain_list_of(files, tmp_path)

    assert b"secret" not in data
    assert b"empty" not in data
    assert orjson.loads(data) == {
        "version": 1,
        "repositories": [{"uploader": "kopia", "namespace": "shop", "snapshots": ["k1", "k2"]}],
        "csiSnapshots": [{"driver": "driver.example.com", "handle": "handle-1"}],
        "nativeSnapshots": [{"id": "snap-1", "location": "aws"}],
        "elsewhere": ["moved"],
    }


def test_a_deletion_gets_back_all_that_it_needs() -> None:
    csi = StoredSnapshot(
        driver="d",
        handle="h",
        deletion_secret=("kube-system", "s"),
        manager_label={"snapshot.storage.kubernetes.io/managed-by": "n"},
    )
    volumes = [
        SavedVolume(way=Way.NATIVE_SNAPSHOT, place=Place.CLOUD, title="", snapshot="snap-1", record=NATIVE),
        SavedVolume(way=Way.CSI_SNAPSHOT, place=Place.STORAGE_SYSTEM, title="", snapshot="h", record=csi),
        SavedVolume(
            way=Way.MOVED, place=Place.REPOSITORY, title="", uploader="kopia", snapshot="k", namespace="a"
        ),
        SavedVolume(
            way=Way.POD_VOLUME,
            place=Place.REPOSITORY,
            title="",
            uploader="restic",
            snapshot="r",
            namespace="b",
        ),
        SavedVolume(way=Way.POD_VOLUME, place=Place.NOWHERE, title=""),
        SavedVolume(way=Way.POD_VOLUME, place=Place.ELSEWHERE, title="acme snapshot of pod shop/db"),
    ]

    native, snapshot, moved, of_pod, elsewhere = decode_plain_list(encode_plain_list(volumes))

    assert isinstance(native.record, VolumeSnapshot)
    assert (native.record.status.provider_snapshot_id, native.record.spec.location) == ("snap-1", "aws")
    assert snapshot.record == csi
    assert [(each.uploader, each.namespace, each.snapshot) for each in (moved, of_pod)] == [
        ("kopia", "a", "k"),
        ("restic", "b", "r"),
    ]
    assert {each.place for each in (moved, of_pod)} == {Place.REPOSITORY}
    assert (elsewhere.way, elsewhere.place) == (Way.POD_VOLUME, Place.ELSEWHERE)
    assert "shop" not in elsewhere.title


@pytest.mark.parametrize(
    "repository",
    [
        {"uploader": "restic", "namespace": "../other", "snapshots": ["a"]},
        {"uploader": "restic", "namespace": "", "snapshots": ["a"]},
        {"uploader": "restic", "namespace": "a\n", "snapshots": ["a"]},
        {"uploader": "restic", "namespace": "shop", "snapshots": ["a\n--all"]},
        {"uploader": "restic", "namespace": "shop", "snapshots": ["a" * 5000]},
        {"uploader": "restic", "namespace": "shop", "snapshots": [""]},
        {"uploader": "restic", "namespace": "shop", "snapshots": "a"},
        {"uploader": "restic", "namespace": "shop", "snapshots": ["a"], "identifier": "s3:other"},
    ],
    ids=["path", "empty", "line", "second line", "long", "no id", "no list", "another repository"],
)
def test_a_forged_list_is_refused_as_a_whole(repository: object) -> None:
    good = {"uploader": "kopia", "namespace": "shop", "snapshots": ["k1"]}
    with pytest.raises(PlainListError):
        decode_plain_list(orjson.dumps({"version": 1, "repositories": [good, repository]}))


@pytest.mark.parametrize(
    "more",
    [
        {"handle": ""},
        {"handle": "h\u202e"},
        {"deletionSecret": ["kube-system"]},
        {"labels": {"velero.io/backup-name": "another"}},
    ],
    ids=["no handle", "hidden characters", "half a Secret", "labels"],
)
def test_a_forged_csi_snapshot_is_refused(more: JSONObject) -> None:
    forged = {"driver": "d", "handle": "h", **more}
    with pytest.raises(PlainListError):
        decode_plain_list(orjson.dumps({"version": 1, "csiSnapshots": [forged]}))


def test_a_program_that_is_not_known_has_its_data_elsewhere() -> None:
    document = {"version": 1, "repositories": [{"uploader": "acme", "namespace": "shop", "snapshots": ["x"]}]}
    (volume,) = decode_plain_list(orjson.dumps(document))
    assert volume.place == Place.ELSEWHERE


class Encrypted:
    """A location whose backups are for somebody else."""

    def __init__(self, folder: Path) -> None:
        (folder / "bucket").mkdir()
        self.folder = folder
        self.writer = self.opened().encrypted(Encryption(recipients=parse_recipients(SOMEBODY)))

    def opened(self) -> BackupStore:
        return BackupStore(FilesystemStore(self.folder / "bucket"), Layout(""), location="default")

    async def put(self, store: BackupStore, **fields: Any) -> None:
        files = files_of(await tarball_of(self.folder, []), **fields)
        await store.put_backup(
            msgspec.structs.replace(files, plain_list=await plain_list_of(files, self.folder))
        )


@pytest.fixture
def encrypted(tmp_path: Path) -> Encrypted:
    return Encrypted(tmp_path)


async def test_the_list_of_a_backup_that_waited_has_the_data_that_was_moved_meanwhile(
    encrypted: Encrypted, tmp_path: Path
) -> None:
    parked = encrypted.writer.parked()
    await encrypted.put(parked, snapshots=[NATIVE], item_operations=[uploading("data")])
    waiting = await read_deletable(encrypted.opened().parked(), NAME, None)
    repositories = await read_deletable_in_repositories(encrypted.opened().parked(), NAME, None)
    (work := tmp_path / "work").mkdir()
    rewritten = await tarball_of(work, [], files=file_of(upload("data", "k9")))
    final = FinalFiles(contents=rewritten, volume_infos=[by_csi("late", "h", "d")])
    listed = await plain_list_of_parked(parked, NAME, final, work)
    (folder := tmp_path / "final").mkdir()

    await encrypted.writer.finish_backup(
        msgspec.structs.replace(final, plain_list=listed), Backup(metadata=ObjectMeta(name=NAME)), folder
    )

    assert titles(waiting) == [
        "volume snapshot snap-1",
        "moved 1 of those whose names are encrypted",
    ]
    assert titles(await read_deletable(encrypted.opened(), NAME, None)) == [
        "volume snapshot snap-1",
        "CSI snapshot h of d",
        "kopia snapshot k9",
    ]
    in_repositories = await read_deletable_in_repositories(encrypted.opened(), NAME, None)
    assert titles(in_repositories) == ["kopia snapshot k9"]
    assert titles(repositories) == ["moved 1 of those whose names are encrypted"]


async def test_a_backup_that_is_cut_short_keeps_the_list_that_it_was_parked_with(
    encrypted: Encrypted, tmp_path: Path
) -> None:
    """Whoever stores it then, such as another process after a crash, need not be able to read it."""
    await encrypted.put(encrypted.writer.parked(), snapshots=[NATIVE], item_operations=[uploading("data")])
    (folder := tmp_path / "final").mkdir()

    await encrypted.opened().finish_backup(FinalFiles(), Backup(metadata=ObjectMeta(name=NAME)), folder)

    assert titles(await read_deletable(encrypted.opened(), NAME, None)) == [
        "volume snapshot snap-1",
        "moved 1 of those whose names are encrypted",
    ]


@pytest.mark.parametrize(
    "error",
    [
        IdentityRefused("b1.tar.gz", "none opens it"),
        KMSRefused("AccessDenied"),
        KMSUnavailable("it is away"),
        AgePluginFailed("there is no token"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_key_that_does_not_open_it_is_no_obstacle(
    encrypted: Encrypted, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    await encrypted.put(encrypted.writer, snapshots=[NATIVE])
    store = encrypted.opened()

    async def refuse(_store: BackupStore, _backup: str) -> None:
        raise error

    monkeypatch.setattr(BackupStore, "read_snapshots", refuse)
    assert titles(await read_deletable(store, NAME, None)) == ["volume snapshot snap-1"]

    (encrypted.folder / f"bucket/backups/{NAME}/{NAME}-pinnace-volumes.json").unlink()
    # What passes is waited for, and what does not needs another key.
    passes = isinstance(error, KMSUnavailable | AgePluginFailed)
    with pytest.raises(type(error) if passes else IdentityMissing):
        await read_deletable(store, NAME, None)


async def test_a_list_that_is_too_large_is_not_read(encrypted: Encrypted) -> None:
    await encrypted.put(encrypted.writer, snapshots=[NATIVE])
    path = encrypted.folder / f"bucket/backups/{NAME}/{NAME}-pinnace-volumes.json"
    with path.open("ab") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(UnreadableObject, match="pinnace-volumes"):
        await read_deletable(encrypted.opened(), NAME, None)


@pytest.mark.parametrize("change", ["removed", "exchanged"])
async def test_a_signed_list_is_the_one_that_was_signed(encrypted: Encrypted, change: str) -> None:
    key = Ed25519Signer.generate()
    signatures = Signatures(key=key, trusted=(key.public,))
    await encrypted.put(encrypted.writer.signed(signatures), snapshots=[NATIVE])
    assert titles(await read_deletable(encrypted.opened().signed(signatures), NAME, None)) == [
        "volume snapshot snap-1"
    ]
    path = encrypted.folder / f"bucket/backups/{NAME}/{NAME}-pinnace-volumes.json"
    if change == "removed":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().replace(b"snap-1", b"snap-2"))

    with pytest.raises(SignatureRefused, match="pinnace-volumes"):
        await read_deletable(encrypted.opened().signed(signatures), NAME, None)
