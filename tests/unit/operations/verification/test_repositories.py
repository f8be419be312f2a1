"""What is said of the snapshots that a backup has in repositories."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
    BackupStorageLocationSpec,
    ObjectStorageLocation,
)
from pinnace.catalogue.pod_volumes import saved_volume
from pinnace.operations.verification.repositories import Lookup, look_up_snapshots
from pinnace.storage.errors import StorageError
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.errors import (
    AccessError,
    CommandTimeout,
    DataDamaged,
    RepositoryMissing,
    UploaderError,
)
from pinnace.volumes.uploader.share import ReadShare
from pinnace.volumes.uploaders import Uploaders
from tests.support.cluster.scripted_cluster import ScriptedCluster

MADE, OTHER = "a" * 32, "b" * 32


def in_folder(folder: Path, **config: str) -> BackupStorageLocation:
    return BackupStorageLocation(
        metadata=ObjectMeta(name="default"),
        spec=BackupStorageLocationSpec(
            provider="pinnace.io/filesystem",
            config={"path": str(folder), **config},
            object_storage=ObjectStorageLocation(bucket="bucket"),
        ),
    )


class Repositories:
    """The repositories of a location, by program and namespace: the ids in each, or the error of opening it.

    Attributes:
        damage: the error of reading the data in a repository.
        calls: what was done with which repository, and under which locks.
    """

    def __init__(self, **known: frozenset[str] | Exception) -> None:
        self._known = known
        self.damage: dict[str, Exception] = {}
        self.calls: list[tuple[str, ...]] = []
        self.identifiers: list[str] = []
        self._held = ""

    @asynccontextmanager
    async def hold(self, place: Repository) -> AsyncIterator[None]:
        self._held = place.namespace
        yield
        self._held = ""

    async def snapshot_ids(self, place: Repository) -> frozenset[str]:
        assert self._held == place.namespace
        self.calls.append(("list", place.uploader, place.namespace))
        self.identifiers.append(place.identifier)
        found = self._known[place.namespace]
        if isinstance(found, Exception):
            raise found
        return found

    async def check(self, place: Repository, snapshots: Collection[str], share: ReadShare) -> None:
        assert self._held == place.namespace
        self.calls.append(("read", place.namespace, *snapshots))
        if error := self.damage.get(place.namespace):
            raise error


async def looked_up(
    repositories: Repositories, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *saved: tuple[str, str, str]
) -> Lookup:
    monkeypatch.setattr(Uploaders, "of", lambda _: repositories)

    async def access(workdir: Path) -> AccessProvider:
        return AccessProvider(ScriptedCluster().client, "velero", workdir)

    volumes = [saved_volume(*each) for each in saved]
    share = ReadShare.parse("100%")
    return await look_up_snapshots(in_folder(tmp_path), volumes, access, share, repositories.hold)


async def test_snapshots_are_there_missing_or_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repositories = Repositories(
        shop=frozenset({f"{MADE}", "0123abcd" + "e" * 56}),
        gone=RepositoryMissing("restic snapshots", exit_code=10, stderr="there is\n no repository"),
        slow=CommandTimeout("kopia snapshot list", 60),
        away=StorageError("the bucket cannot be\nreached"),
    )

    found = await looked_up(
        repositories,
        monkeypatch,
        tmp_path,
        ("kopia", MADE, "shop"),
        ("kopia", OTHER, "shop"),
        ("restic", "0123abcd", "shop"),
        ("restic", "4567abcd", "gone"),
        ("kopia", MADE, "slow"),
        ("kopia", MADE, "away"),
        ("restic", "89abcdef", "../other"),
    )

    assert found.missing == [
        f"kopia snapshot {OTHER} is not in its repository",
        "restic snapshot 4567abcd cannot be restored: error running command=restic snapshots, stdout=,"
        " stderr=there is no repository: exit status 10",
    ]
    assert found.unknown == [
        "restic snapshot 89abcdef: '../other' cannot be the namespace of a restic repository",
        "the kopia repository of slow: error running command=kopia snapshot list: did not finish within"
        " 60 seconds",
        "the kopia repository of away: the bucket cannot be reached",
    ]
    assert found.read == 2
    assert [call for call in repositories.calls if call[0] == "read"] == [
        ("read", "shop", MADE),
        ("read", "shop", "0123abcd"),
    ]
    assert repositories.identifiers == [
        "",
        f"{tmp_path}/bucket/restic/shop",
        f"{tmp_path}/bucket/restic/gone",
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("error", "missing", "unknown"),
    [
        (
            DataDamaged("kopia snapshot verify", exit_code=1, stderr="blob gone"),
            [
                "the kopia repository of shop is damaged: error running command=kopia snapshot verify,"
                " stdout=, stderr=blob gone: exit status 1"
            ],
            [],
        ),
        (
            CommandTimeout("kopia snapshot verify", 60),
            [],
            [
                "the kopia repository of shop could not be read: error running command=kopia snapshot verify:"
                " did not finish within 60 seconds"
            ],
        ),
    ],
    ids=["damaged", "not readable"],
)
async def test_the_data_of_snapshots_is_damaged_or_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: UploaderError,
    missing: list[str],
    unknown: list[str],
) -> None:
    repositories = Repositories(shop=frozenset({MADE}))
    repositories.damage["shop"] = error

    found = await looked_up(repositories, monkeypatch, tmp_path, ("kopia", MADE, "shop"))

    assert (found.missing, found.unknown, found.read) == (missing, unknown, 1)


async def test_without_snapshots_no_password_is_needed(tmp_path: Path) -> None:
    async def access(workdir: Path) -> AccessProvider:
        raise AccessError("there is no password")

    assert await look_up_snapshots(in_folder(tmp_path), [], access) == Lookup()
    with pytest.raises(AccessError):
        await look_up_snapshots(in_folder(tmp_path), [saved_volume("kopia", MADE, "shop")], access)


async def test_a_repository_that_was_copied_out_of_a_bucket_says_so(tmp_path: Path) -> None:
    copied = tmp_path / "bucket/kopia/shop"
    copied.mkdir(parents=True)
    (copied / "kopia.repository").touch()
    location = in_folder(tmp_path)

    async def access(workdir: Path) -> AccessProvider:
        cluster = ScriptedCluster()
        spec = {
            "provider": location.spec.provider,
            "config": dict(location.spec.config),
            "objectStorage": {"bucket": "bucket"},
        }
        cluster.add("backupstoragelocations", "default", spec=spec)
        return AccessProvider(cluster.client, "velero", workdir, password=b"password")

    found = await look_up_snapshots(location, [saved_volume("kopia", MADE, "shop")], access)

    (said,) = found.missing
    assert "stdout" not in said
    assert said.startswith(f"kopia snapshot {MADE} cannot be restored: error running command=kopia ")
    assert said.endswith(
        ": the repository was copied out of a bucket, and kopia cannot use such a copy in a"
        " folder: put it into an object store"
    )
