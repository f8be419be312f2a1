"""Objects as files below a directory: the store that needs no server."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pinnace.storage.errors import StoreConfigError
from pinnace.storage.provider import Opening, Provider
from pinnace.storage.settings import check_keys

if TYPE_CHECKING:
    from pinnace.storage.interface import ObjectStore
    from pinnace.storage.uploader_store import UploaderStore

FILESYSTEM_PROVIDER: Final = "pinnace.io/filesystem"
"""Our own provider: `config.path` is an absolute directory, the bucket a directory in it."""

_KEYS: Final = ("path", "bucket", "prefix")


def _open(config: Mapping[str, str], opening: Opening) -> "ObjectStore":
    from pinnace.storage.filesystem.store import FilesystemStore

    return FilesystemStore(_directory(config), create=opening.create)


def _directory(config: Mapping[str, str]) -> Path:
    check_keys(config, _KEYS)
    path, bucket = Path(config.get("path", "")), config.get("bucket", "")
    if not path.is_absolute():
        raise StoreConfigError("path of a filesystem location must be an absolute path")
    if bucket in ("", ".", ".."):
        raise StoreConfigError(f"the bucket of a filesystem location cannot be {bucket!r}")
    return path / bucket


def _uploaders() -> "UploaderStore":
    from pinnace.storage.filesystem.uploaders import FilesystemUploaderStore

    return FilesystemUploaderStore()


PROVIDER: Final = Provider(name=FILESYSTEM_PROVIDER, open=_open, uploaders=_uploaders)
