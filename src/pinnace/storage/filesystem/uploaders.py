"""Folders, as restic and kopia reach them. (docs/spec: STO 15, KOP 2)"""

from collections.abc import Mapping
from pathlib import PurePosixPath

from pinnace.api.velero.storage_location import BackupStorageLocationSpec
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.uploader_store import KopiaStorage, UploaderStore


class FilesystemUploaderStore(UploaderStore):
    """See UploaderStore."""

    def restic_address(self, config: Mapping[str, str], bucket: str, directory: str, region: str) -> str:
        """The folder."""
        return str(_folder(config) / bucket / directory)

    def kopia_storage(self, spec: BackupStorageLocationSpec, bucket: str, prefix: str) -> KopiaStorage:
        """The folder; flat, so that its files have the names of keys in a bucket, with `.f` at the end."""
        path = str(_folder(spec.config) / bucket / prefix)
        return KopiaStorage(
            kind="filesystem", options={"path": path, "dirShards": []}, flags=(f"--path={path}", "--flat")
        )


def _folder(config: Mapping[str, str]) -> PurePosixPath:
    folder = PurePosixPath(config.get("path", ""))
    if not folder.is_absolute():
        raise StoreConfigError("path of a filesystem location must be an absolute path")
    return folder
