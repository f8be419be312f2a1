"""Runs one backup from InProgress to its terminal phase: log, tarball, counts, upload.

The order of the steps makes a backup reliable: its counts and phase are final before the upload, so that the
stored metadata has them; a failure, a full disk or a cancellation never leaves files that look like a
finished backup. (docs/spec: BKP 3, CTL 3.5)
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from pinnace.aio.blocking import finish
from pinnace.aio.temporary import problem_text, temporary_folder
from pinnace.api import phases
from pinnace.api.labels import ENCRYPTED, ITEM_OPERATIONS, SIZE_BYTES
from pinnace.api.phases import BackupPhase
from pinnace.api.retention.locking import lock_end
from pinnace.api.values.error_texts import error_text
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.snapshots import VolumeSnapshot, VolumeSnapshotPhase
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.archive.errors import ArchiveWriteError
from pinnace.archive.runlog import RunLog
from pinnace.archive.writer import ArchiveWriter
from pinnace.backup.collaborators import BackupCollaborators, CSIObjects
from pinnace.backup.engine import BackupEngine, EngineResult
from pinnace.backup.errors import FatalBackupError
from pinnace.backup.item.volume_records import VolumeRecords
from pinnace.catalogue.reading import plain_list_of
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of
from pinnace.plugins.asynchronous import AnyBackupItemAction, BackupItemActionV2
from pinnace.plugins.item_operations import Operators, digest_of, encode_operations
from pinnace.runs.context import RunContext
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.errors import StorageError, StoreConfigError

_SETTLING_SECONDS = 120.0
"""The time for removing the objects of CSI snapshots at the end, also of a run that is cancelled."""


async def execute_backup(
    backup: Backup,
    context: RunContext,
    *,
    actions: Sequence[AnyBackupItemAction],
    collaborators: BackupCollaborators | None = None,
    on_tarball: Callable[[int], None] | None = None,
) -> Backup:
    """Run a prepared Backup, store it, and return it with its outcome; failures are not raised.

    Cancelled, it leaves nothing that looks finished, and no temporary files.

    Args:
        backup: of phase InProgress, as `prepare_backup` made it; left as it is.
        actions: in execution order.
        collaborators: run hooks and save volumes.
        on_tarball: called with the size of the tarball in bytes.

    Returns:
        The Backup with its counts, times and the phase of `phases.ended`; patch the difference. If actions
        have started operations, it waits for them, and is stored too. (docs/adr/054)
    """
    run = _Run(
        backup=copy.deepcopy(backup),
        context=context,
        engine=BackupEngine(
            context.client,
            context.discovery,
            actions=actions,
            collaborators=collaborators,
            clock=context.clock,
            activity=context.activity,
        ),
        operators={action.name: action for action in actions if isinstance(action, BackupItemActionV2)},
        collaborators=collaborators or BackupCollaborators(),
        on_tarball=on_tarball,
    )
    try:
        with temporary_folder(context.workdir, "backup-") as directory:
            return await run.execute(directory)
    except OSError as error:
        return run.failed(f"error making temporary files: {problem_text(context.workdir, error)}")
    except Exception as error:  # noqa: BLE001 - a defect: nothing was stored, which must be said
        return run.failed(f"error running backup: {_one_line(error)}")


class _Run(msgspec.Struct, kw_only=True):
    """One execution, with its own copy of the Backup, which it changes."""

    backup: Backup
    context: RunContext
    engine: BackupEngine
    operators: Mapping[str, BackupItemActionV2]
    collaborators: BackupCollaborators
    on_tarball: Callable[[int], None] | None
    is_stored: bool = False

    async def execute(self, directory: Path) -> Backup:
        metadata = self.backup.metadata
        log = self.context.open_log(directory / "log.gz", backup=f"{metadata.namespace}/{metadata.name}")
        try:
            with self.context.worker_slot.lent():
                refusal = await self._refusal()
            if refusal is not None:
                log.error(refusal.saying("backup failed"), error=str(refusal))
                return self.failed(refusal, errors=log.errors)
            for caveat in self.context.caveats:
                log.warning(Notice(Code.SETTING_IGNORED, caveat))
            await self.context.worker_slot.take()
            try:
                return await self._run(directory, log)
            finally:
                await self._give_up_operations(log)
                await self._settle_csi_snapshots(log)
        finally:
            _close(log)

    def failed(self, reason: str, *, errors: int | None = None) -> Backup:
        """The Backup in phase Failed, with a completion time however early it ends. (docs/spec: BKP 3.1)"""
        status = self.backup.status
        status.phase = BackupPhase.FAILED
        status.failure_reason = reason
        if errors is not None:
            status.errors = errors
        if status.completion_timestamp is None:
            status.completion_timestamp = self.context.clock.now()
        return self.backup

    def _note(self, annotation: str, value: str) -> None:
        metadata = self.backup.metadata
        metadata.annotations = {**metadata.annotations, annotation: value}

    async def _refusal(self) -> Notice | None:
        """Why the backup cannot start: its name is taken, or the store cannot be read. (BKP 3.1)"""
        try:
            if await self.context.store.is_taken(self.backup.metadata.name):
                return Notice(Code.NAME_TAKEN, "backup already exists in object storage")
            began, expires = self.backup.status.start_timestamp, self.backup.status.expiration
            if began and expires and (held := await self.context.store.too_short_a_life(expires - began)):
                return Notice(Code.HELD_LONGER, held)
        except StorageError as error:
            text = f"error checking if backup already exists in object storage: {error}"
            return Notice(Code.STORE_UNREADABLE, text)
        return None

    async def _run(self, directory: Path, log: RunLog) -> Backup:
        contents: Path | None = directory / "contents.tar.gz"
        result: EngineResult | None = None
        fatal: Exception | None = None
        try:
            async with ArchiveWriter(
                directory / "contents.tar.gz",
                clock=self.context.clock,
                index=directory / "index.json.gz",
            ) as writer:
                result, fatal = await self._make_tarball(writer, log)
        except ArchiveWriteError as error:
            contents, fatal = None, error
        self.context.worker_slot.give_back()
        if contents is not None:
            self._note(SIZE_BYTES, str(writer.compressed_size_bytes))
            if self.on_tarball is not None:
                self.on_tarball(writer.compressed_size_bytes)
        if fatal is not None:
            log.error(notice_of(fatal, Code.DEFECT, "backup failed"), error=fatal)
        csi_snapshots, csi_contents = await self._csi_objects(log)
        snapshots = self._settle(log, result, fatal)
        files = BackupFiles(
            name=self.backup.metadata.name,
            owner=self.backup.metadata.uid,
            expiration=lock_end(self.backup),
            # A tarball that could not be written is no backup: only the log is kept.
            metadata=encode_metadata(self.backup, self.context.read) if contents is not None else None,
            contents=contents,
            index=directory / "index.json.gz" if contents is not None else None,
            log=log.path if _close(log) else None,
            pod_volume_backups=self._pod_volume_backups(),
            snapshots=snapshots,
            resource_list=result.resource_list if result is not None else {},
            csi_volume_snapshots=csi_snapshots,
            csi_volume_snapshot_contents=csi_contents,
            item_operations=encode_operations(self.backup, self.engine.operations),
            volume_infos=self._volume_infos(result, snapshots),
            results=log.results(),
        )
        await self._upload(files, log)
        return self.backup

    async def _give_up_operations(self, log: RunLog) -> None:
        """Cancel the operations of a backup that is not stored: nothing would ever wait for them."""
        if self.is_stored or not self.engine.operations:
            return
        operators = Operators(self.backup, self.operators, log)
        stopping = operators.cancelled(self.engine.operations, "the backup failed")
        try:
            await finish(stopping, limit_seconds=_SETTLING_SECONDS)
        except TimeoutError as error:
            log.warning(
                Notice(Code.OPERATIONS_MAY_RUN, "Item operations of the failed backup may still be running"),
                error=error,
            )

    async def _settle_csi_snapshots(self, log: RunLog) -> None:
        """Remove the objects of the CSI snapshots of a stored backup; delete the snapshots of another one.

        If it is not known whether the backup is stored, both stay for a deletion to find. (docs/adr/022)
        """
        csi = self.collaborators.csi
        if csi is None:
            return
        try:
            problems = await finish(self._remove_or_discard(csi), limit_seconds=_SETTLING_SECONDS)
        except StorageError as error:
            problems = [str(error)]
        except TimeoutError:
            problems = [f"it took longer than {_SETTLING_SECONDS:g} seconds"]
        for problem in problems:
            log.warning(
                Notice(
                    Code.SNAPSHOT_OBJECTS_LEFT, "Objects of CSI snapshots stay until the backup is deleted"
                ),
                error=problem,
            )

    async def _remove_or_discard(self, csi: CSIObjects) -> list[str]:
        if self.is_stored:
            return await csi.remove_objects()
        return [] if await self.context.store.is_taken(self.backup.metadata.name) else await csi.discard()

    async def _make_tarball(
        self, writer: ArchiveWriter, log: RunLog
    ) -> tuple[EngineResult | None, Exception | None]:
        """Run the engine; if it fails, the part that was written is kept. (docs/spec: BKP 3.2)"""
        try:
            return await self.engine.run(self.backup, writer, log, progress=self.context.publish), None
        except ArchiveWriteError:
            raise
        except FatalBackupError as error:
            return None, error
        except Exception as error:  # noqa: BLE001 - a defect must end this backup, not leave it InProgress
            return None, error

    def _settle(
        self, log: RunLog, result: EngineResult | None, fatal: Exception | None
    ) -> Sequence[VolumeSnapshot]:
        """Fill in the status at the end of the run, before anything is uploaded. (docs/spec: BKP 3.1, 3.3)"""
        status = self.backup.status
        snapshots: Sequence[VolumeSnapshot] = ()
        if self.collaborators.snapshots is not None:
            snapshots = self.collaborators.snapshots.snapshots
        status.completion_timestamp = self.context.clock.now()
        status.volume_snapshots_attempted = len(snapshots)
        status.volume_snapshots_completed = sum(
            snapshot.status.phase == VolumeSnapshotPhase.COMPLETED for snapshot in snapshots
        )
        if result is not None:
            status.progress = result.progress
            status.hook_status = result.hooks
        if self.collaborators.csi is not None:
            attempted, completed = self.collaborators.csi.counts
            status.csi_volume_snapshots_attempted = attempted
            status.csi_volume_snapshots_completed = completed
        status.warnings, status.errors = log.warnings, log.errors
        if fatal is not None:
            self.failed(error_text(fatal))
            return snapshots
        status.phase = phases.ended(log.errors, operations=len(self.engine.operations))
        if self.engine.operations:
            status.backup_item_operations_attempted = len(self.engine.operations)
            status.completion_timestamp = None
            self._note(ITEM_OPERATIONS, digest_of(self.engine.operations))
        return snapshots

    def _pod_volume_backups(self) -> Sequence[dict[str, object]]:
        if self.collaborators.pod_volumes is None:
            return ()
        return self.collaborators.pod_volumes.pod_volume_backups

    def _volume_infos(
        self, result: EngineResult | None, snapshots: Sequence[VolumeSnapshot]
    ) -> Sequence[BackupVolumeInfo]:
        records = result.volumes if result is not None else VolumeRecords()
        return records.infos(
            snapshots=snapshots,
            csi=self.collaborators.csi.volume_infos if self.collaborators.csi is not None else (),
            pod_volume_backups=self._pod_volume_backups(),
        )

    async def _csi_objects(
        self, log: RunLog
    ) -> tuple[Sequence[dict[str, object]], Sequence[dict[str, object]]]:
        """Collect the CSI objects; call it before the counts are settled, as its errors count. (CTL 3.5)"""
        if self.collaborators.csi is None:
            return (), ()
        return await self.collaborators.csi.collect(log)

    async def _upload(self, files: BackupFiles, log: RunLog) -> None:
        """Store the files: the last step that can fail, and the one that decides. (docs/spec: BKP 3.1)

        After it the Backup says what the location holds: its phase when the files are there, Failed when
        they are not. Nothing that goes wrong later changes that.
        """
        store = self.context.store
        try:
            at_end = await self.context.store_at_end()
            store = at_end.store
            if at_end.moved:
                # Its volumes are where it began: in another place the backup could not be restored.
                raise StoreConfigError(f"{at_end.moved}. Back up again")
            if store.encrypts and files.metadata is not None:
                listed = await plain_list_of(files, self.context.workdir)
                files = msgspec.structs.replace(files, plain_list=listed)
            self.context.activity.upload_bytes = files.size_bytes
            context = self.context
            waits = self.backup.status.phase in phases.WAITING
            await (store.parked() if waits else store).put_backup(
                files,
                sent=context.activity.sent,
                patience=context.patience,
                claim=context.claim,
                keep_key=context.keep_key if waits else None,
            )
        except Exception as error:  # noqa: BLE001 - nothing is stored, whatever it was, and that must be said
            log.error(notice_of(error, Code.STORE_WRITE_FAILED, "error uploading backup"), error=error)
            self.failed(f"error uploading backup: {_one_line(error)}")
        else:
            self.is_stored = files.metadata is not None
            if self.is_stored and store.encrypts:
                self._note(ENCRYPTED, "true")  # as the stored metadata says
        finally:
            await self.context.close_reopened(store)


def _one_line(error: Exception) -> str:
    return " ".join(error_text(error).split())


def _close(log: RunLog) -> bool:
    """Close the log and return whether its file is complete; a lost log does not change the phase."""
    try:
        log.close()
    except OSError as error:
        log.error(notice_of(error, Code.DISK_FAULT, "error closing the backup's log"), error=error)
        return False
    return True
