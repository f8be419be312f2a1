"""A tarball that cannot be read hides no volume data from a deletion."""

from pathlib import Path

import pytest

from pinnace.archive.errors import ArchiveError
from pinnace.catalogue.reading import read_deletable_in_repositories, read_pod_volumes, read_volumes
from pinnace.catalogue.volumes import Place
from pinnace.storage.backup_store import BackupStore
from tests.unit.catalogue.ways import LISTED, NAME, Way, saved, uploading


async def damaged(folder: Path, **files: object) -> BackupStore:
    """A backup with these files, of which the tarball is damaged."""
    store = await Way(title="", files=files).store(folder, folder)
    (folder / "bucket" / "backups" / NAME / f"{NAME}.tar.gz").write_bytes(b"no tarball")
    return store


async def test_moved_data_may_be_there_if_the_tarball_that_tells_is_damaged(tmp_path: Path) -> None:
    files = {"item_operations": [uploading("data")], "pod_volume_backups": [saved("logs", "k1", "kopia")]}
    store = await damaged(tmp_path, **files)

    for found in (
        await read_volumes(store, NAME, tmp_path),
        await read_deletable_in_repositories(store, NAME, tmp_path),
    ):
        assert [(str(volume), volume.place) for volume in found] == [
            ("kopia snapshot k1 of volume data of pod shop/logs", Place.REPOSITORY),
            ("moved data of claim shop/data", Place.ELSEWHERE),
        ]


async def test_a_damaged_tarball_that_alone_names_csi_snapshots_is_an_error(tmp_path: Path) -> None:
    store = await damaged(tmp_path, resource_list=LISTED)

    with pytest.raises(ArchiveError):
        await read_volumes(store, NAME, tmp_path)
    assert await read_deletable_in_repositories(store, NAME, tmp_path) == []


async def test_the_location_has_the_pod_volume_backups_that_the_cluster_lacks(tmp_path: Path) -> None:
    """The sync has not made them yet, or somebody deleted them."""
    store = await damaged(tmp_path, pod_volume_backups=[saved("data", "k1", "kopia")])

    for live, expected in (
        ([], ["k1"]),
        ([saved("late", "k2", "kopia")], ["k2", "k1"]),
        ([saved("data", "k3", "kopia")], ["k3"]),
    ):
        found = await read_pod_volumes(store, NAME, (), live)
        assert [volume.snapshot for volume in found.volumes] == expected
