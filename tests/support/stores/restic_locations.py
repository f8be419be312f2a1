"""Backup storage locations for restic's tests."""

from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
    BackupStorageLocationSpec,
    ObjectStorageLocation,
)


def location(
    provider: str, *, bucket: str = "bucket", prefix: str = "prefix", **config: str
) -> BackupStorageLocation:
    storage = ObjectStorageLocation(bucket=bucket, prefix=prefix)
    spec = BackupStorageLocationSpec(provider=provider, config=config, object_storage=storage)
    return BackupStorageLocation(spec=spec)
