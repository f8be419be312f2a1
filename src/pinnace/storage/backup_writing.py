"""Writes the files of a backup, in the order that makes it exist as a whole or not at all."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from pinnace.aio.blocking import finish, in_thread
from pinnace.api.retention.locking import lock_end
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.storage.backup_deleting import BackupDeleting
from pinnace.storage.backup_files import (
    BackupFiles,
    FinalFiles,
    StoredFile,
    encode_metadata,
    mark_encrypted,
    stored_bytes,
)
from pinnace.storage.encoding import compress
from pinnace.storage.errors import (
    BackupExists,
    ClaimLost,
    StorageError,
    combined,
)
from pinnace.storage.hidden_details import without_details
from pinnace.storage.interface import save_stream
from pinnace.storage.location_files import StoredUnchecked
from pinnace.storage.manifest import manifest_payload, metadata_object
from pinnace.storage.newest import Link, after, encode_links, unique_links
from pinnace.storage.object_lock import Retention, VersionsStore
from pinnace.storage.patience import Patience, impatient
from pinnace.storage.sealed_files import KeyOwner, key_owner
from pinnace.storage.together import together
from pinnace.storage.writer_claim import ClaimSubject, WriterClaim, owner_of, writer_of

_logger = logging.getLogger(__name__)

KeepKey = Callable[[str], Awaitable[None]]
"""Keeps the key of an encrypted backup, as age writes it, where it is read while the backup waits."""

_UNDO_SECONDS = 120.0
_CLOCKS_DIFFER = timedelta(minutes=5)
"""By how much the clocks of a server and of a store may differ."""


class _Parked(msgspec.Struct, frozen=True):
    """A file as it was parked, encrypted by the key of its backup if that has one."""

    path: Path


class BackupWriting(BackupDeleting):
    """Stores and finishes backups, under claims on their names."""

    async def put_backup(
        self,
        files: BackupFiles,
        *,
        sent: Callable[[int], None] | None = None,
        patience: Patience | None = None,
        claim: WriterClaim | None = None,
        keep_key: KeepKey | None = None,
    ) -> None:
        """Store a backup: log, then tarball and side files, then the metadata that makes it exist.

        Everything is encoded before anything is stored, and each file's size is asked for before the metadata
        is stored. A failure or cancellation removes what was stored, except the log, which helps to find out
        why; a log that cannot be stored is only reported to the process's own log. Without metadata only the
        log is stored. Of several processes that write a backup of one name at once, one succeeds and the
        others change nothing.

        Args:
            sent: called with the size in bytes of each block of the large files that the store takes, and
                with the negative size of what it took of a file that is sent again.
            patience: with a store that is away; None for none. A file is not sent again before the claim was
                read and is still this process's.
            claim: on the name of this backup, if the caller has it and renews it; None takes it here.
            keep_key: called with the key of an encrypted backup before anything of it is stored.

        Raises:
            ReadOnlyLocation: the location is read-only.
            BackupExists: a finished backup of this name exists; it was not changed.
            BackupBeingWritten: another process writes a backup of this name.
            ClaimLost: another process took over, as this one did not renew its claim in time.
        """
        patience, sent = patience or impatient(), sent or (lambda _: None)
        if claim is not None:
            upload = self._upload(files.expiration, claim, patience, sent, keep_key)
            await self._put_unless_exists(files, upload)
            return
        async with self.claim_of_backup(files.name, owner=files.owner, patience=patience) as own:
            upload = self._upload(files.expiration, own, patience, sent, keep_key)
            await own.hold(self._put_unless_exists(files, upload))

    def claim_of_backup(
        self, backup: str, *, owner: str = "", patience: Patience | None = None
    ) -> AbstractAsyncContextManager[WriterClaim]:
        """A context that holds the claim on the name of a backup for this process; see WriterClaim.on().

        Raises:
            ReadOnlyLocation: the location is read-only.
            StoreConfigError: it takes signed backups only, and there is no key.
        """
        self._check_writable(f"write backup {backup}")
        self._check_signs(f"backup {backup}")
        key, subject = self._layout.writer_claim(backup), ClaimSubject("backup", backup, owner)
        return self._claim(key, subject, patience=patience)

    async def writer_of_backup(self, backup: str) -> str:
        """The process that has the claim on the name of a backup; empty for none. Raises StorageError."""
        return await writer_of(self._store, self._layout.writer_claim(backup))

    async def _put_unless_exists(self, files: BackupFiles, upload: "_Upload") -> None:
        """Store a backup under the claim on its name. Raises BackupExists."""
        if await upload.patience.insist(lambda: self.is_taken(files.name)):
            raise BackupExists(files.name)
        if upload.claim.was_abandoned:
            await self._abort_uploads(self._layout.backup_directory(files.name))
        await self._put_claimed(files, upload)

    def _upload(
        self,
        expiration: datetime | None,
        claim: WriterClaim,
        patience: Patience,
        sent: Callable[[int], None],
        keep_key: KeepKey | None = None,
    ) -> "_Upload":
        retention = None
        if self._lock is not None and not self._layout.parked:
            retention = self._lock.retention(expiration, self._clock.now())
        return _Upload(claim, patience, sent, retention, keep_key)

    async def abort_interrupted(self, backup: str, owner: str, began: datetime | None) -> None:
        """Abort the uploads of a run that died while it wrote a backup; its parts cost until somebody does.

        Nothing is touched unless the claim on the name is that run's: another process may write a backup of
        this name now, and would have taken the claim over.

        Args:
            owner: the uid of its Backup.
            began: when the run did; uploads that are older are left alone.

        Raises:
            StorageError: the claim cannot be read.
        """
        if self._read_only or not owner:
            return
        if await owner_of(self._store, self._layout.writer_claim(backup)) == owner:
            since = began - _CLOCKS_DIFFER if began is not None else None
            await self._abort_uploads(self._layout.backup_directory(backup), since=since)

    async def _put_claimed(self, files: BackupFiles, upload: "_Upload") -> None:
        """Store a backup as put_backup() says, with the claim on its name."""
        is_encrypted = await self._put_key(files.name, upload)
        try:
            side_files = await in_thread(files.encoded, self._layout)
        except StorageError:
            await self._put_log(files.name, files.log, upload)
            raise
        await self._put_log(files.name, files.log, upload)
        if files.metadata is None:
            return
        whole_files = {
            self._layout.target(kind, files.name): path
            for kind, path in (
                (DownloadTargetKind.BACKUP_CONTENTS, files.contents),
                (DownloadTargetKind.ITEM_INDEX, files.index),
            )
            if path is not None
        }
        metadata, details = files.metadata, dict[str, bytes]()
        if is_encrypted:
            metadata, details = self._split(files.name, metadata)
        await self._put_all(files.name, {**whole_files, **side_files, **details}, metadata, upload)

    def _split(self, backup: str, metadata: bytes) -> tuple[bytes, dict[str, bytes]]:
        """The metadata of an encrypted backup as it is stored, and the file of what is hidden in it."""
        marked = mark_encrypted(metadata)
        if not self._sealed.hides_details:
            return marked, {}
        return without_details(marked), {self._layout.backup_details(backup): compress(marked)}

    async def _put_key(self, backup: str, upload: "_Upload") -> bool:
        """Store the key file of a backup that begins, if it is to be encrypted, and return whether it is.

        It stays with the log of a backup that fails. Key files of a former one, whose log stayed, are
        removed, as the newest counts.
        """
        owner = self._backup_owner(backup)
        made = await self._sealed.new_key(owner)
        if made is None:
            return False
        identity, content = made
        if upload.keep_key is not None:
            await upload.keep_key(identity.secret_text())
        for key in await upload.patience.insist(partial(self._sealed.key_files, owner)):
            if key != owner.key_file():
                await self._store.delete(key)
        put = partial(self._put, owner.key_file(), content)
        await upload.insist(partial(put, retention=upload.retention))
        return True

    def _backup_owner(self, backup: str) -> KeyOwner:
        owner = key_owner(self._layout, self._layout.backup_metadata(backup))
        assert owner is not None, "a backup's metadata lies in its directory"
        return owner

    async def _put_all(
        self, backup: str, files: Mapping[str, Path | bytes | _Parked], metadata: bytes, upload: "_Upload"
    ) -> None:
        """Store the files by key, the metadata last, or remove them all."""

        def put(key: str, content: Path | bytes | _Parked) -> Awaitable[StoredFile]:
            if isinstance(content, _Parked):
                put = partial(self._put_file, key, content.path, upload.sent, as_it_is=True)
                return put(retention=upload.retention)
            if isinstance(content, Path):
                return self._put_file(key, content, upload.sent, retention=upload.retention)
            return self._put(key, content, retention=upload.retention)

        try:
            await together(*(upload.insist(partial(put, key, each)) for key, each in files.items()))
            await upload.patience.insist(upload.claim.check)
            signed = await self._put_manifest(backup, metadata, upload)
            await upload.insist(partial(self._put_metadata, backup, metadata, upload.retention))
        except BaseException as error:  # whatever it was: an unfinished backup must not stay; passed on
            await self._undo(backup, [*files, self._layout.backup_manifest(backup)], upload.claim, error)
            raise
        if signed is not None:
            await self._note_newest(*signed)

    async def _put_manifest(
        self, backup: str, metadata: bytes, upload: "_Upload"
    ) -> tuple[Link, Sequence[Link]] | None:
        """Sign what was stored and the metadata that follows.

        Returns:
            The backup and its predecessors; None without a key, and for a parked backup, which is no link of
            the chain. The list of its operations is not signed then, as it changes with their progress.
        """
        self._files.forget(backup)
        if (key := self._signatures.key) is None:
            return None
        is_parked = self._layout.parked
        predecessors: list[Link] = []
        if not is_parked:
            known = await upload.patience.insist(self._newest)
            predecessors = unique_links([*known, *self.newest_outside])
        files = [file for file in upload.stored if not self._layout.signs_for_itself(backup, file.key)]
        payload = manifest_payload(
            backup,
            self._location,
            metadata_object(metadata),
            [*files, stored_bytes(self._layout.backup_metadata(backup), metadata)],
            predecessors,
            self._layout.backup_directory(backup),
        )
        envelope = await self._signed(payload, key)
        put = partial(self._put, self._layout.backup_manifest(backup), envelope)
        await upload.insist(partial(put, retention=upload.retention))
        return None if is_parked else (Link(backup, sha256(envelope).hexdigest()), predecessors)

    async def _note_newest(self, added: Link, replaced: Sequence[Link]) -> None:
        """Note a signed backup, which is finished: what goes wrong is only reported."""
        assert self._signatures.key is not None, "it has signed"
        try:
            noted = after(await self._newest(), added, replaced)
            await self._store.put(
                self._layout.newest_signed(self._signatures.key.public.id), encode_links(noted)
            )
            if self._signatures.outside is not None:
                await self._signatures.outside.note(added, replaced)
        except StorageError as error:
            _logger.warning("Backup %s is not noted as the newest one: %s", added.backup, error)

    async def _put_log(self, backup: str, log: Path | bytes | _Parked | None, upload: "_Upload") -> None:
        if log is None or isinstance(log, bytes):
            return
        path, as_it_is = (log.path, True) if isinstance(log, _Parked) else (log, False)
        try:
            key = self._layout.target(DownloadTargetKind.BACKUP_LOG, backup)
            put = partial(self._put_file, key, path, upload.sent, as_it_is=as_it_is)
            await upload.insist(partial(put, retention=upload.retention))
        except StorageError as error:
            _logger.warning("The log of backup %s could not be stored: %s", backup, error)

    async def _put_metadata(self, backup: str, metadata: bytes, retention: Retention | None) -> StoredFile:
        key = self._layout.backup_metadata(backup)
        try:
            return await self._put(key, metadata, retention=retention)
        except StoredUnchecked as error:
            # The put itself succeeded. Deleting the file would hardly succeed where asking for its size did
            # not, and a finished backup would stay that is reported as Failed.
            _logger.warning("The metadata of backup %s was stored, but not checked: %s", backup, error)
            return stored_bytes(key, metadata)

    async def _undo(self, backup: str, keys: list[str], claim: WriterClaim, cause: BaseException) -> None:
        """Remove an unfinished backup, unless its files belong to another process, or may belong to one.

        Raises what went wrong together with a StorageError as the cause.
        """

        async def remove() -> list[StorageError]:
            try:
                await claim.check()
            except ClaimLost:
                return []
            except StorageError as error:
                return [error]
            return await self._delete_all(backup, keys)

        try:
            errors = await finish(remove(), limit_seconds=_UNDO_SECONDS)
        except TimeoutError:
            errors = [StorageError(f"removing unfinished backup {backup!r} took too long")]
        if errors and isinstance(cause, StorageError):
            raise combined([cause, *errors]) from cause

    async def put_index(self, backup: str, index: Path) -> None:
        """Store the index of a finished backup that has none, or a damaged one.

        Raises:
            StorageError: the backup is signed, and a new file in it would pass for a change by somebody else.
        """
        self._check_writable(f"write the index of backup {backup}")
        if await self._store.exists(self._layout.backup_manifest(backup)):
            raise StorageError(
                f"backup {backup!r} is signed, and its index is not written: it would not be what was signed."
                " Its tarball is read instead"
            )
        retention = None
        if self._lock is not None:
            expiration = lock_end(await self.read_backup(backup))
            retention = self._lock.retention(expiration, self._clock.now())
        key = self._layout.target(DownloadTargetKind.ITEM_INDEX, backup)
        await self._put_file(key, index, retention=retention)

    async def put_item_operations(self, backup: str, operations: Sequence[Mapping[str, Any]]) -> None:
        """Store the progress of the operations of a backup; it is parked, and finished only after them."""
        self._check_writable(f"write backup {backup}")
        await self._put_list("BackupItemOperations", backup, operations)

    async def finish_backup(
        self,
        files: FinalFiles,
        metadata: Backup,
        folder: Path,
        *,
        claim: WriterClaim | None = None,
    ) -> None:
        """Store a backup that waited for operations under its own keys, and remove its parked files.

        Each file is stored once, what is parked where `files` has nothing else, and the metadata last. A
        failure removes what was stored; the parked files stay, and the backup can be finished again.

        Args:
            metadata: the Backup with its terminal phase; fields of other versions are kept as parked.
            folder: an empty one for the parked files.
            claim: on the name of this backup, if the caller has it and renews it; None takes it here.

        Raises:
            ReadOnlyLocation: the location is read-only.
            BackupExists: a finished backup of this name exists; nothing was changed.
            ObjectNotFound: nothing is parked.
        """
        self._check_writable(f"write backup {metadata.metadata.name}")
        if claim is not None:
            await self._finish(files, metadata, folder, claim)
            return
        name, owner = metadata.metadata.name, metadata.metadata.uid
        async with self.claim_of_backup(name, owner=owner) as own:
            await own.hold(self._finish(files, metadata, folder, own))

    async def _finish(self, files: FinalFiles, metadata: Backup, folder: Path, claim: WriterClaim) -> None:
        backup, parked = metadata.metadata.name, self.parked()
        if await self.exists(backup):
            raise BackupExists(backup)
        encoded = encode_metadata(metadata, await parked.read_raw_backup(backup))
        final: dict[str, Path | bytes | _Parked] = {}
        directory, own = self._layout.backup_directory(backup), parked._layout.backup_directory(backup)
        changed = await in_thread(files.encoded, self._layout, backup)
        manifest = await parked.manifest(backup)
        signed = {own + name for name in manifest.files} if manifest is not None else set()
        layout = self._layout
        made = (layout.backup_metadata(backup), layout.backup_manifest(backup), layout.backup_details(backup))
        not_taken = {*changed, *made}
        for number, key in enumerate(sorted({*await self._store.list_keys(own), *signed})):
            target = directory + key.removeprefix(own)
            if target not in not_taken:
                final[target] = _Parked(folder / f"parked-{number}")
                async with parked._files.open(key, at_once=True) as stream:
                    await save_stream(stream, folder / f"parked-{number}")
        # Of a process that died here before.
        await self._abort_uploads(directory)
        upload = self._upload(lock_end(metadata), claim, impatient(), lambda _: None)
        opened = bool(changed) or self._sealed.hides_details
        if await self._put_parked_keys(backup, final, upload, opened=opened):
            encoded, details = self._split(backup, encoded)
            changed |= details
        final |= changed
        log = final.pop(self._layout.target(DownloadTargetKind.BACKUP_LOG, backup), None)
        await self._put_log(backup, log, upload)
        await self._put_all(backup, final, encoded, upload)
        try:
            await self.discard_parked(backup)
        except StorageError as error:
            _logger.warning("Parked files of backup %s stay until it is deleted: %s", backup, error)

    async def park(self, backup: str) -> None:
        """Park a backup that waits for operations and that an older version stored under its own keys.

        Its metadata is the last that is copied and the first that is removed: after a crash, call it again.

        Raises:
            ReadOnlyLocation: the location is read-only.
            StorageError: it may be in both places; both are the same.
        """
        self._check_writable(f"write backup {backup}")
        own, metadata = self._layout.backup_directory(backup), self._layout.backup_metadata(backup)
        parked = self.parked()._layout.backup_directory(backup)
        keys = [key for key in await self._store.list_keys(own) if not key.startswith(parked)]
        for key in sorted(keys, key=lambda key: key == metadata):
            async with self._store.get(key) as stream:
                await self._store.put(parked + key.removeprefix(own), stream)
        if errors := await self._delete_all(backup, keys):
            raise combined(errors)

    async def _put_parked_keys(
        self, backup: str, final: "dict[str, Path | bytes | _Parked]", upload: "_Upload", *, opened: bool
    ) -> bool:
        """Move the key files of a parked backup out of `final` and store them, before what they open.

        Returns whether there are any.

        Args:
            opened: whether further files are to be encrypted, so that the key has to be known.
        """
        owner = self._backup_owner(backup)
        own = {key: final.pop(key) for key in list(final) if owner.number(key)}
        if own and opened:
            await self._sealed.follow(owner, self.parked()._backup_owner(backup))
        if own:
            for key in await self._sealed.key_files(owner):
                if key not in own:
                    await self._store.delete(key)
        for key, content in own.items():
            assert isinstance(content, _Parked), "nothing else is in the list"
            put = partial(self._put_file, key, content.path, upload.sent, as_it_is=True)
            await upload.insist(partial(put, retention=upload.retention))
        return bool(own)

    async def discard_parked(self, backup: str) -> None:
        """Remove the parked files of a backup; nothing there is success. Raises StorageError."""
        parked = self.parked()
        directory = parked._layout.backup_directory(backup)
        keys = await self._store.list_keys(directory)
        if keys and (errors := await parked._delete_all(backup, keys)):
            raise combined(errors)
        if keys and isinstance(self._store, VersionsStore) and await self._is_locked():
            # Hidden by now; what the bucket's default holds goes with the backup.
            await self._delete_versions(await self._store.versions(directory), "", tolerant=True)


class _Upload(msgspec.Struct, frozen=True):
    """The upload of one backup: its claim, its patience, and who is told how much was sent.

    Attributes:
        retention: of each file.
        keep_key: see `put_backup`.
        stored: what has been stored of the backup, in the order of its ends.
    """

    claim: WriterClaim
    patience: Patience
    sent: Callable[[int], None]
    retention: Retention | None
    keep_key: KeepKey | None = None
    stored: list[StoredFile] = msgspec.field(default_factory=list)

    async def insist(self, put: Callable[[], Awaitable[StoredFile]]) -> None:
        """Store one file. While the store was away, another process may have taken the claim over."""
        self.stored.append(await self.patience.insist(put, before_again=self.claim.check))
