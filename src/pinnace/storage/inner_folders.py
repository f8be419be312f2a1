"""Recognises a folder inside of a location that is given in place of the location.

A shell completes paths to their end, and consoles of buckets copy them so. `--location ./b/backups/nightly`
would be a location without backups, and a backup could be made inside of another one.
"""

from typing import Final

from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.location_url import location_title

_BACKUPS: Final = "backups"


async def inner_folder(store: BackupStore, location: BackupStorageLocation) -> str:
    """What a location is instead, and what to write: `the folder of backup a, inside of a location: ...`.

    Empty for a location, which costs no request unless a folder of its path is named `backups`.

    Raises StorageError.
    """
    title = location_title(location)
    around, slash, name = title.rpartition("/")
    if slash and name == _BACKUPS and await _has_backups(store):
        return _text("the folder of all backups", around)
    around, slash, folder = around.rpartition("/")
    if slash and folder == _BACKUPS and await store.is_inside_a_backup():
        return _text(f"the folder of backup {name}", around)
    return ""


async def _has_backups(store: BackupStore) -> bool:
    foreign = await store.foreign_directories()
    return bool(foreign) and await store.is_inside_a_backup(foreign[0])


def _text(what: str, around: str) -> str:
    same = ", with the same parameters" if "://" in around else ""
    return f"it is {what}, inside of a location: write --location {around or '/'}{same}"
