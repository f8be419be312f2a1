"""Buckets that real Velero servers and earlier versions of this program wrote, as locations."""

import os
import re
import tarfile
from pathlib import Path

from pinnace.storage.interface import ObjectStore, stream_file

VERSIONS = ("1.6.3", "1.16.2", "1.18.0")
WITHOUT_DATA = "-without-data"
"""Behind the name of an archive that lacks the kopia repositories of the bucket."""
LATER = (
    "main",
    "main-csi",
    f"main-block{WITHOUT_DATA}",
    f"main-pod-volumes{WITHOUT_DATA}",
    f"1.18.1{WITHOUT_DATA}",
)
EARLIER = ("pinnace-without-index", "pinnace-index-1", "pinnace-index-2")
"""By this program, in each form that its backups have had."""
WHOLE_FOLDER = "PINNACE_GOLDEN"
"""Names a folder with whole archives. This repository has only what fits of them: see the README there."""
_EXPIRATION = re.compile(rb'("expiration":\s*")[^"]*')
_FOLDER = Path(__file__).parents[2] / "golden"


def archive(version: str) -> Path | None:
    """The archive of a bucket; None if neither this repository has it nor the folder of whole ones."""
    folders = [_FOLDER, *([Path(whole)] if (whole := os.environ.get(WHOLE_FOLDER)) else [])]
    name = version if version in EARLIER else f"velero-{version}"
    paths = [folder / f"{name}.tar.gz" for folder in folders]
    return next((path for path in paths if path.exists()), None)


def unpack(version: str, folder: Path) -> Path:
    """Unpack a bucket into `<folder>/bucket`, which is a location as it is. Returns that path.

    Only the expiration of the backups is changed, as servers delete expired ones: some expired two days after
    they were made.
    """
    path = archive(version)
    assert path is not None, f"there is no archive of {version}"
    with tarfile.open(path) as packed:
        packed.extractall(folder, filter="data")
    bucket = folder / "bucket"
    for leftover in bucket.glob(".*"):  # the S3 server's own, not the program's
        leftover.rmdir()
    for metadata in bucket.glob("backups/*/velero-backup.json"):
        metadata.write_bytes(_EXPIRATION.sub(rb"\g<1>2100-01-01T00:00:00Z", metadata.read_bytes()))
    return bucket


async def upload(version: str, folder: Path, store: ObjectStore) -> int:
    """Put a bucket into an object store, by way of a folder. Returns the number of objects."""
    bucket = unpack(version, folder)
    files = [path for path in sorted(bucket.rglob("*")) if path.is_file()]
    for path in files:
        await store.put(path.relative_to(bucket).as_posix(), stream_file(path))
    return len(files)


def files_of(bucket: Path) -> dict[str, int]:
    """Every file below a bucket with its size, to see that nothing was written."""
    return {
        path.relative_to(bucket).as_posix(): path.stat().st_size
        for path in bucket.rglob("*")
        if path.is_file()
    }
