"""Deletes backups, and keeps them from being deleted."""

from collections.abc import Sequence

from pinnace.api.retention.holds import refusal
from pinnace.api.retention.removal import RemovalReason
from pinnace.signing.envelope import sign
from pinnace.signing.errors import SigningError
from pinnace.signing.keys import SigningKey
from pinnace.storage.backup_reading import BackupReading
from pinnace.storage.checked_files import SignatureRefused
from pinnace.storage.errors import (
    BackupHeld,
    BackupLocked,
    ObjectNotFound,
    StorageError,
    UnreadableObject,
    combined,
)
from pinnace.storage.holds import Hold
from pinnace.storage.manifest import removal_payload
from pinnace.storage.newest import Link
from pinnace.storage.object_lock import ObjectVersion, VersionsStore, refuse_held
from pinnace.storage.signed_beside import hold_payload


class BackupDeleting(BackupReading):
    """Holds and deletes backups. A deletion is noted by a signature where backups are signed."""

    async def put_hold(self, backup: str, hold: Hold) -> None:
        """Store a hold on a backup, or its release, in place of the former one; signed if there is a key.

        Raises:
            ReadOnlyLocation: the location is read-only.
            StoreConfigError: it believes signed releases only, and there is no key. A hold without a
                signature holds.
        """
        self._check_writable(f"hold or release backup {backup}")
        if not hold.held:
            self._check_signs(f"the release of backup {backup}")
        data = hold.encoded()
        if (key := self._signatures.key) is not None:
            try:
                metadata = await self.get_metadata(backup)
            except UnreadableObject:
                if not hold.held:
                    raise
                # Damaged, and perhaps evidence: a hold that nobody has signed holds it as well.
            else:
                data = await self._signed(hold_payload(hold, backup, metadata), key)
        await self._put(self._layout.hold(backup), data)

    async def delete_hold(self, backup: str) -> None:
        """Delete the hold on a backup; none there is success."""
        self._check_writable(f"release backup {backup}")
        await self._store.delete(self._layout.hold(backup))

    async def delete_backup(self, backup: str, *, reason: RemovalReason = RemovalReason.REQUEST) -> None:
        """Delete all files of a backup, known or not; nothing there is success. (docs/spec: STO 6, BEY 11.1)

        Where files are held, their versions are deleted, as a deletion of a key only hides it.

        Args:
            reason: what the signed note of the removal says.

        Raises:
            ReadOnlyLocation: the location is read-only.
            BackupHeld: a file beside the backup holds it; nothing was deleted.
            BackupLocked: object lock holds files; nothing was deleted.
            StorageError: `[a, c]` if several deletions failed; can be tried again.
        """
        self._check_writable("delete backup")
        if (hold := await self.read_hold(backup)) is not None and hold.held:
            raise BackupHeld(refusal(backup, hold.reason))
        versions = await self._deletable_versions(backup)
        await self._note_removal(backup, reason)
        self._files.forget(backup)
        if versions:
            await self._delete_versions(versions, self._layout.backup_metadata(backup))
            await self._abort_abandoned(self._layout.backup_directory(backup))
            return
        keys = await self._store.list_keys(self._layout.backup_directory(backup))
        parked = self.parked()._layout.backup_metadata(backup)
        if errors := await self._delete_all(backup, sorted(keys, key=lambda key: key != parked)):
            raise combined(errors)
        await self._abort_abandoned(self._layout.backup_directory(backup))

    async def check_deletable(self, backup: str) -> None:
        """Check that no file of a backup is held any more. Raises BackupLocked, StorageError."""
        await self._deletable_versions(backup)

    async def _deletable_versions(self, backup: str) -> list[ObjectVersion]:
        """The versions of the files of a backup where files are held; none elsewhere. Raises BackupLocked."""
        if not isinstance(self._store, VersionsStore) or not await self._is_locked():
            return []
        found = await self._store.versions(self._layout.backup_directory(backup))
        ends = [await self._store.held_until(each) for each in found if not each.is_marker]
        refuse_held(max((end for end in ends if end is not None), default=None), self._clock.now())
        return found

    async def _delete_versions(
        self, versions: Sequence[ObjectVersion], first: str, *, tolerant: bool = False
    ) -> None:
        """Delete versions, those of the key `first` before all others. Raises StorageError.

        All are tried. A key of which a version stays keeps its marker, as it would appear again.

        Args:
            tolerant: versions that the store does not delete are no error.
        """
        assert isinstance(self._store, VersionsStore), "it has listed them"
        errors: dict[str, StorageError] = {}
        for each in sorted(versions, key=lambda each: (each.key != first, each.is_marker)):
            if each.key in errors:
                continue
            try:
                await self._store.delete_version(each)
            except StorageError as error:
                if isinstance(error, BackupLocked) and not tolerant:
                    raise
                errors[each.key] = error
                if each.key == first:
                    break  # what still has its metadata must stay complete
        if errors and not tolerant:
            raise combined(errors.values())

    async def _delete_all(self, backup: str, keys: list[str]) -> list[StorageError]:
        """Delete a backup's metadata and then `keys`; all are tried, unless the metadata has to stay.

        A backup that still has its metadata looks finished, and therefore must stay complete.
        """
        errors: list[StorageError] = []
        metadata_key = self._layout.backup_metadata(backup)
        for key in (metadata_key, *(key for key in keys if key != metadata_key)):
            try:
                await self._store.delete(key)
            except StorageError as error:
                errors.append(error)
                if key == metadata_key:
                    break
        return errors

    async def _note_removal(self, backup: str, reason: RemovalReason) -> None:
        """Store a signed note that a signed backup is removed; without a key it will count as vanished."""
        key = self._signatures.key
        if key is None:
            return
        try:
            manifest = await self._files.manifest(backup)
        except (SignatureRefused, ObjectNotFound):
            return  # not ours: a note would say that it was
        if manifest is not None:
            link = Link(backup, manifest.digest)
            envelope = await self._signed(removal_payload(link, reason, self._clock.now()), key)
            await self._put(self._layout.removal_note(link.sha256), envelope)

    async def _signed(self, payload: bytes, key: SigningKey) -> bytes:
        try:
            return await sign(payload, key)
        except SigningError as error:
            raise StorageError(f"the signing key of location {self._location}: {error}") from error
