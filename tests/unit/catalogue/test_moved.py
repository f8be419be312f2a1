"""The moved data of backups that real Velero made: which can be restored, deleted, or neither."""

import gzip
import json
from functools import partial
from pathlib import Path

import pytest

from pinnace.archive.reader import ArchiveIndex
from pinnace.catalogue.moved import moved_volumes
from pinnace.catalogue.tarball import read_item
from pinnace.catalogue.volumes import Claim, Place, SavedVolume
from pinnace.csi.movement.objects import MovedVolume
from tests.support.stores import golden

TREE, RAW = ("drives", "tree"), ("drives", "raw")


async def moved_in(folder: Path, version: str, backup: str) -> dict[Claim, SavedVolume]:
    directory = golden.unpack(version, folder) / "backups" / backup
    operations = json.loads(gzip.decompress((directory / f"{backup}-itemoperations.json.gz").read_bytes()))
    with await ArchiveIndex.open(directory / f"{backup}.tar.gz", folder) as archive:
        return moved_volumes((), operations, partial(read_item, archive))


@pytest.mark.found("G3")
@pytest.mark.spec("AFT-131")
@pytest.mark.parametrize(
    ("version", "backup", "snapshots"),
    [
        ("main-csi", "moved", ("a9a2eb60f7e31f52cd131dad178f3fb1", "aec4dc23b476195d2dd2e8b09dfce848")),
        ("main-csi", "moved-whole", ("fa56ac0d59bfdf92a8c1da84cb4f6501", "483d3c6cc33c90b0378a42c9d5c30392")),
        (
            f"1.18.1{golden.WITHOUT_DATA}",
            "moved",
            ("0e3058b400afd2baf1b3ddb6204a094c", "42580e458ce4ac540bf540ce44b7a9d8"),
        ),
    ],
)
async def test_data_of_the_file_system_mover_is_restored_whatever_its_name(
    tmp_path: Path, version: str, backup: str, snapshots: tuple[str, str]
) -> None:
    found = await moved_in(tmp_path, version, backup)

    assert {claim: each.snapshot for claim, each in found.items()} == {TREE: snapshots[0], RAW: snapshots[1]}
    assert not any(each.lacks for each in found.values())
    # The DataDownload has the name by which agents of all versions know the mover.
    moved = [each.record for each in found.values() if isinstance(each.record, MovedVolume)]
    assert len(moved) == 2
    assert {each.mover for each in moved} <= {"", "velero"}


@pytest.mark.found("G3")
@pytest.mark.spec("AFT-133", "AFT-147")
async def test_images_of_the_block_mover_are_restored_as_such_with_the_size_of_their_device(
    tmp_path: Path,
) -> None:
    found = await moved_in(tmp_path, f"main-block{golden.WITHOUT_DATA}", "block-changed")

    assert {claim: each.record for claim, each in found.items()} == {
        ("blocks", "tree"): MovedVolume(
            snapshot="18e3beafeb4d2fc8009bd5b67a610166",
            source_namespace="blocks",
            mover="velero-block",
            node_os="linux",
            size_bytes=3145728,
            fs_type="ext4",
        ),
        ("blocks", "raw"): MovedVolume(
            snapshot="f326a1bb86dd336f9ee4794636dbf17d",
            source_namespace="blocks",
            mover="velero-block",
            node_os="linux",
            size_bytes=2621440,
        ),
    }
    assert {(each.place, each.uploader, each.lacks) for each in found.values()} == {
        (Place.REPOSITORY, "kopia", "")
    }
