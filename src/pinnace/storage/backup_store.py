"""Backups and restores in one location: the only code that knows the keys and the order of writing them.

A backup exists when its `velero-backup.json` does, so that file is written last and deleted first: whenever
a process dies, a backup either is complete or does not exist. Velero writes it earlier and takes it back on
failure; the result is the same where nothing dies. (docs/spec: STO 5, 6)
"""

from pinnace.storage.backup_writing import BackupWriting
from pinnace.storage.chain import BackupChain
from pinnace.storage.restore_files import RestoreFiles
from pinnace.storage.whole_location import WholeLocation


class BackupStore(BackupWriting, BackupChain, RestoreFiles, WholeLocation):
    """The backups and restores of one location. An async context manager that closes its store.

    All methods raise StorageError kinds only. Names of backups and restores are checked before they become
    part of a key.
    """
