"""Buckets that real Velero servers wrote (tests/golden), as locations in folders or in an S3 server."""

import re
import tarfile
from pathlib import Path

from pinnace.storage.interface import ObjectStore, stream_file

VERSIONS = ("1.6.3", "1.16.2", "1.18.0")
_EXPIRATION = re.compile(rb'("expiration":\s*")[^"]*')
_FOLDER = Path(__file__).parents[2] / "golden"


def unpack(version: str, folder: Path) -> Path:
    """Unpack a bucket into `<folder>/bucket`, which is a location as it is. Returns that path.

    Only the expiration of the backups is changed, as servers delete expired ones: some expired two days after
    they were made.
    """
    with tarfile.open(_FOLDER / f"velero-{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
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
