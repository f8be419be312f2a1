"""Reads the files of a backup."""

from collections.abc import Sequence
from contextlib import aclosing
from copy import copy
from pathlib import Path
from typing import Self

import msgspec
import orjson

from pinnace.aio.blocking import in_thread
from pinnace.api.codec import DecodeError, decode
from pinnace.api.labels import ENCRYPTED
from pinnace.api.objects import JSONObject, names_by_kind
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.velero.snapshots import VolumeSnapshot, decode_snapshots
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.kms.errors import KMSError
from pinnace.signing.errors import SigningError
from pinnace.signing.keys import PublicKey
from pinnace.storage.documents import StoredObjects, TreeDocument, object_of
from pinnace.storage.encoding import decompress_stream
from pinnace.storage.encryption import MOST_KEY_FILE_BYTES
from pinnace.storage.errors import ObjectNotFound, UnreadableObject
from pinnace.storage.hidden_details import hides_details, is_plain_part
from pinnace.storage.holds import MOST_BYTES, UNREADABLE, UNTRUSTED, Hold, decode_hold
from pinnace.storage.interface import VersionedStore, read_all, save_stream, within
from pinnace.storage.key_errors import AgePluginFailed, EncryptionBroken, IdentityMissing, IdentityRefused
from pinnace.storage.location_files import LocationFiles
from pinnace.storage.manifest import Manifest
from pinnace.storage.newest import Link, links_of
from pinnace.storage.sealed_files import key_owner
from pinnace.storage.signed_beside import check_signed_keys, read_signed_hold, unchecked_hold

_NEWEST_BYTES = 1 << 16


class BackupReading(LocationFiles):
    """The files of a backup, read within limits; a file that old backups lack counts as empty."""

    async def exists(self, backup: str) -> bool:
        """Whether the backup is finished: its metadata is there. (docs/spec: STO 6)"""
        return await self._store.exists(self._layout.backup_metadata(backup))

    def parked(self) -> Self:
        """This location with the files of backups that wait for operations. It has the same store."""
        return self._with(parked=True)

    async def is_taken(self, backup: str) -> bool:
        """Whether there is a backup of this name, finished or waiting for operations."""
        return await self._with(parked=False).exists(backup) or await self.parked().exists(backup)

    async def located(self, backup: str) -> Self:
        """This location; with its parked files if they are all that there is of the backup."""
        if await self.exists(backup):
            return self
        parked = self.parked()
        return parked if await parked.exists(backup) else self

    def _with(self, *, parked: bool) -> Self:
        view = copy(self)
        view._layout = msgspec.structs.replace(self._layout, parked=parked)
        return view.signed(self._signatures)

    async def manifest(self, backup: str) -> Manifest | None:
        """The signed manifest of a backup; None if it has none, or no key is trusted here.

        Raises:
            SignatureRefused: no trusted key has signed it, or there is none though one is required.
        """
        return await self._files.manifest(backup)

    @property
    def newest_outside(self) -> Sequence[Link]:
        """The newest signed backups as a server has noted them outside of the location."""
        outside = self._signatures.outside
        return outside.links if outside is not None else ()

    async def _newest(self) -> list[Link]:
        """The newest signed backups of our own key as the location has them; whoever writes there may lie."""
        key = self._signatures.key
        return await self._newest_of(key.public) if key is not None else []

    async def _newest_of(self, key: PublicKey) -> list[Link]:
        try:
            noted = await read_all(self._store, self._layout.newest_signed(key.id), limit_bytes=_NEWEST_BYTES)
            return links_of(orjson.loads(noted))
        except (ObjectNotFound, UnreadableObject, ValueError):
            return []

    async def get_metadata(self, backup: str) -> bytes:
        """`velero-backup.json` as it is stored. Raises ObjectNotFound if there is no such backup."""
        return await self._read_metadata(self._layout.backup_metadata(backup))

    async def full_metadata(self, backup: str) -> bytes:
        """`velero-backup.json` with its hidden details, if these can be opened.

        Raises:
            ObjectNotFound: there is no such backup.
            EncryptionBroken: the details are gone, damaged, or of another backup.
        """
        public = await self.get_metadata(backup)
        key = self._layout.backup_details(backup)
        if not hides_details(public) or not self._sealed.may_open(key):
            return public
        limit_bytes = self._limits.metadata_bytes
        try:
            async with (
                self._sealed.open(self._files, key) as stream,
                aclosing(decompress_stream(stream, key=key)) as content,
            ):
                details = await within(content, key, limit_bytes=limit_bytes)
        except (IdentityMissing, IdentityRefused, AgePluginFailed, KMSError):
            return public
        except ObjectNotFound:
            raise EncryptionBroken(
                key, "the details of the backup are gone: get the file back from a copy of the bucket"
            ) from None
        self._check_memory(key, details)
        if not is_plain_part(public, details):
            raise EncryptionBroken(
                key, "it is not of the backup that velero-backup.json describes: somebody has changed that"
            )
        return details

    async def metadata_version(self, backup: str) -> str:
        """The version of the metadata file; empty if the store has no versions. Raises ObjectNotFound."""
        if not isinstance(self._store, VersionedStore):
            return ""
        return await self._store.version(self._layout.backup_metadata(backup))

    async def read_backup(self, backup: str) -> Backup:
        """The Backup object, as `full_metadata`. Raises UnreadableObject: of another kind, or damaged."""
        try:
            return decode(Backup, await self.full_metadata(backup), require_kind=True)
        except DecodeError as error:
            raise UnreadableObject(self._layout.backup_metadata(backup), str(error)) from error

    async def read_raw_backup(self, backup: str) -> JSONObject:
        """The Backup, as `full_metadata`, with fields of other versions. Raises UnreadableObject."""
        key = self._layout.backup_metadata(backup)
        data = await self.full_metadata(backup)
        try:
            return object_of(orjson.loads(data))
        except ValueError as error:
            raise UnreadableObject(key, f"not valid JSON: {error}") from None

    async def read_hold(self, backup: str) -> Hold | None:
        """The hold on the backup, or its release, that a file beside it says; None without one."""
        try:
            data = await read_all(self._store, self._layout.hold(backup), limit_bytes=MOST_BYTES)
        except ObjectNotFound:
            return None
        except UnreadableObject:
            return Hold(held=True, reason=UNREADABLE)
        hold, problem = await self._checked_hold(backup, data)
        # A hold that nobody has signed holds, and a release that nobody has signed releases nothing.
        return hold if hold.held or not problem else Hold(held=True, reason=UNTRUSTED)

    async def beside_problem(self, backup: str, name: str) -> str:
        """What is wrong with the signature of a hold or an added key file, and what to do; empty if nothing.

        Args:
            name: of the file, in the directory of the backup.
        """
        key = self._layout.backup_directory(backup) + name
        if not (problem := await self._problem_beside(backup, key)):
            return ""
        if key == self._layout.hold(backup):
            return f"{problem}; find out who has written it, or write it again with the key"
        # A further rekey writes another file and leaves this one.
        return (
            f"{problem}; find out who has written it, and delete it. Where its recipients are yours, write"
            " another one before, by `backup-location rekey` with the signing key"
        )

    async def _problem_beside(self, backup: str, key: str) -> str:
        try:
            if key == self._layout.hold(backup):
                data = await read_all(self._store, key, limit_bytes=MOST_BYTES)
                return (await self._checked_hold(backup, data))[1]
            if not self._layout.is_added_key_file(backup, key):
                return ""
            data = await read_all(self._store, key, limit_bytes=MOST_KEY_FILE_BYTES)
            if not self._signatures.required and b'"signature"' not in data:
                return ""
            check_signed_keys(data, self._signatures.trusted, backup, await self.get_metadata(backup))
        except ObjectNotFound:
            return ""
        except UnreadableObject as error:
            return error.reason
        except SigningError as error:
            return str(error)
        return ""

    async def _checked_hold(self, backup: str, data: bytes) -> tuple[Hold, str]:
        """The hold of a file, and why it does not verify; empty if it does, or need not."""
        if b'"payloadType"' not in data:
            return decode_hold(data), "nobody has signed it" if self._signatures.required else ""
        if not self._signatures.trusted:
            return unchecked_hold(data), ""
        try:
            metadata = await self.get_metadata(backup)
            return read_signed_hold(data, self._signatures.trusted, backup, metadata).printable(), ""
        except (SigningError, ObjectNotFound, UnreadableObject) as error:
            return unchecked_hold(data), str(error)

    def knowing_key(self, backup: str, key: str) -> Self:
        """This location, where its own key opens the parked files of a backup. Raises InvalidIdentity.

        Args:
            key: `AGE-SECRET-KEY-1…`, as `put_backup` gives it to `keep_key`.
        """
        from pinnace.age.x25519 import X25519Identity

        owner = key_owner(self._layout, self.parked()._layout.backup_metadata(backup))
        assert owner is not None, "a backup's metadata lies in its directory"
        self._sealed.know(owner, X25519Identity.parse(key))
        return self

    async def require_key(self, backup: Backup, *, looks: bool = False) -> None:
        """Check that the key of the backup can be opened, if it is encrypted.

        Args:
            looks: look for its key files where nothing else says that it is encrypted; one request.

        Raises:
            StorageError: it cannot be opened.
        """
        key = self._layout.target(DownloadTargetKind.BACKUP_CONTENTS, backup.metadata.name)
        is_marked = looks or ENCRYPTED in backup.metadata.annotations
        await self._sealed.require_key(key, is_marked=is_marked)

    async def is_encrypted(self, backup: str) -> bool:
        """Whether the backup has a key file. Raises StorageError."""
        return await self._sealed.is_encrypted(
            self._layout.target(DownloadTargetKind.BACKUP_CONTENTS, backup)
        )

    async def read_plain_list(self, backup: str, *, limit_bytes: int) -> bytes:
        """The list of an encrypted backup's data outside of its files. Raises ObjectNotFound without one."""
        return await self._files.read(self._layout.plain_list(backup), limit_bytes=limit_bytes)

    def plain_list_key(self, backup: str) -> str:
        """The key of that list, for messages."""
        return self._layout.plain_list(backup)

    async def download_contents(self, backup: str, path: Path) -> int:
        """Save the tarball to a private file and return its size; a failure leaves no file."""
        async with self.read_bytes(DownloadTargetKind.BACKUP_CONTENTS, backup) as stream:
            return await save_stream(stream, path)

    async def contents_size(self, backup: str) -> int:
        """The size of the tarball in bytes, before its encryption. Raises ObjectNotFound."""
        key = self._layout.target(DownloadTargetKind.BACKUP_CONTENTS, backup)
        return await self._sealed.content_bytes(key)

    async def read_snapshots(self, backup: str) -> list[VolumeSnapshot]:
        """The records of native snapshots; none if the file is missing, as in old backups."""
        key = self._layout.target(DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS, backup)
        found = await self._read_list(key)
        try:
            return await in_thread(decode_snapshots, found)
        except DecodeError as error:
            raise UnreadableObject(key, str(error)) from error

    async def read_pod_volume_backups(self, backup: str) -> StoredObjects:
        """The PodVolumeBackups; none if the file is missing. `kind` may be missing in each."""
        return await self._read_list(self._layout.pod_volume_backups(backup))

    async def read_csi_volume_snapshot_contents(self, backup: str) -> StoredObjects:
        """The CSI VolumeSnapshotContents; none if the file is missing."""
        return await self._read_list(self._layout.target("CSIBackupVolumeSnapshotContents", backup))

    async def read_volume_infos(self, backup: str) -> list[BackupVolumeInfo]:
        """The records of volumes by Velero 1.13 and later; none if the file is missing. (BEY 3.6)"""
        key = self._layout.target("BackupVolumeInfos", backup)
        found = await self._read_list(key)
        try:
            return await in_thread(_volume_infos, found)
        except DecodeError as error:
            raise UnreadableObject(key, str(error)) from error

    async def read_item_operations(self, backup: str) -> StoredObjects:
        """The operations of Velero 1.11 and later, not checked; none if the file is missing. (BEY 3.8)"""
        return await self._read_list(self._layout.target("BackupItemOperations", backup))

    async def read_resource_list(self, backup: str) -> dict[str, list[str]]:
        """`<apiVersion>/<kind>` to names of what was backed up; empty if the file is missing."""
        key = self._layout.target(DownloadTargetKind.BACKUP_RESOURCE_LIST, backup)
        found = await self._read(key, TreeDocument())
        try:
            return names_by_kind(found)
        except ValueError as error:
            raise UnreadableObject(key, str(error)) from None

    async def read_backup_results(self, backup: str) -> JSONObject | None:
        """`{"warnings": …, "errors": …}` as later Velero stores it; None if the file is missing."""
        return await self._read_results(self._layout.target("BackupResults", backup))


def _volume_infos(found: StoredObjects) -> list[BackupVolumeInfo]:
    return [decode(BackupVolumeInfo, each) for each in found]
