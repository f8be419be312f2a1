"""Backups and restores in one location: the only code that knows the keys and the order of writing them.

A backup exists when its `velero-backup.json` does, so that file is written last and deleted first: whenever
a process dies, a backup either is complete or does not exist. Velero writes it earlier and takes it back on
failure; the result is the same where nothing dies. (docs/spec: STO 5, 6)
"""

from pinnace.storage.backup_writing import BackupWriting
from pinnace.storage.chain import BackupChain
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.restore_files import RestoreFiles
from pinnace.storage.sealed_files import key_owner
from pinnace.storage.signed_beside import keys_payload, with_signature
from pinnace.storage.whole_location import WholeLocation


class BackupStore(BackupWriting, BackupChain, RestoreFiles, WholeLocation):
    """The backups and restores of one location. An async context manager that closes its store.

    All methods raise StorageError kinds only. Names of backups and restores are checked before they become
    part of a key.
    """

    async def rekey(self, name: str, *, restore: bool = False) -> bool:
        """Wrap the key of a backup or restore for the recipients of the location, in a further key file.

        Nothing else is written, and the former key files stay. That of a backup is signed if there is a key.

        Returns:
            Whether it has a key; a plain one has none.

        Raises:
            ReadOnlyLocation: the location is read-only.
            StoreConfigError: the location has no recipients and no keys of services, or takes what is signed
                only and has no key.
            UnreadableObject: the key cannot be opened.
        """
        self._check_writable("write key files")
        if not self._sealed.encrypts:
            raise StoreConfigError(
                "the location names no recipients: set PINNACE_RECIPIENTS or PINNACE_KMS_KEYS"
            )
        self._check_signs("key files")
        layout = self._layout
        owner = key_owner(layout, layout.restore_metadata(name) if restore else layout.backup_metadata(name))
        assert owner is not None, "the metadata lies in the directory of its owner"
        made = await self._sealed.rewrapped(owner)
        if made is None:
            return False
        key, content = made
        if (signing := self._signatures.key) is not None and not restore:
            payload = keys_payload(content, name, await self.get_metadata(name))
            content = with_signature(content, await self._signed(payload, signing))
        await self._put(key, content)
        return True
