"""Runs one valid restore from download to results, for a controller or for a command without server.

Failures of items are in the results, and `phases.ended` decides by their count; the restore is Failed only
if it could not run, or its results could not be stored. (docs/spec: RST 4, CTL 8.3)
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec

from pinnace.aio.blocking import finish
from pinnace.aio.gc_thresholds import raised_gc_thresholds
from pinnace.aio.temporary import problem_text, temporary_folder
from pinnace.api import phases
from pinnace.api.codec import DecodeError
from pinnace.api.labels import ITEM_OPERATIONS, OUTCOMES, RESUMED, VOLUME_PATCHES
from pinnace.api.phases import RestorePhase
from pinnace.api.restore_outcomes import encode_counts
from pinnace.api.values.error_texts import error_text
from pinnace.api.velero.restore import Restore, RestoreProgress, RestoreStatus
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.archive.errors import ArchiveError
from pinnace.archive.reader import ArchiveIndex, ArchiveLimits
from pinnace.archive.runlog import RunLog
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.catalogue.reading import read_records
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of
from pinnace.plugins.asynchronous import RestoreItemActionV2
from pinnace.plugins.item_operations import (
    ItemOperation,
    Operators,
    digest_of,
    encode_operations,
)
from pinnace.plugins.logs import ProcessLog
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.restore.cluster import ClusterAccess
from pinnace.restore.collaborators import RestoreCollaborators
from pinnace.restore.engine import RestoreEngine
from pinnace.restore.errors import RestoreFailed
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.request import RestoreRequest, RestoreSettings
from pinnace.restore.results import Results
from pinnace.restore.selection.api_versions import FEATURE
from pinnace.restore.volumes.patches import WantedPatch, digest_of_patches, encode_patches, problem_of
from pinnace.runs.context import RunContext
from pinnace.runs.progress import ProgressSink
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError
from pinnace.storage.patience import Patience, impatient

ActionSource = Callable[[SavedPodVolumes], Awaitable[Sequence[RestoreItemAction]]]
PodVolumeSource = Callable[[Sequence[BackupVolumeInfo]], Awaitable[SavedPodVolumes]]


class RestoreInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a restore besides its run context.

    Attributes:
        actions: called once for the restore item actions; may raise RestoreFailed.
        pod_volumes: called once with the backup's records of volumes; may raise KubeError,
            StorageError or DecodeError.
    """

    actions: ActionSource
    pod_volumes: PodVolumeSource
    options: RestoreSettings = msgspec.field(default_factory=RestoreSettings)
    collaborators: RestoreCollaborators = msgspec.field(default_factory=RestoreCollaborators)
    archive_limits: ArchiveLimits | None = None


_CONTENTS = "the contents of the backup"
"""The name of the objects in the activity until the tarball is downloaded."""
_CANCEL_SECONDS = 60.0
"""The time for cancelling operations, also of a restore that is cancelled."""


async def execute_restore(request: RestoreRequest, context: RunContext, inputs: RestoreInputs) -> Restore:
    """Run a restore, store its log and results, and return the Restore with its outcome.

    Args:
        request: with a Restore that is valid and completed, and has its start timestamp.

    Returns:
        A copy of the restore with its counts, times, progress and the phase of `phases.ended`: it waits for
        operations that actions have started, and is Finalizing while only volumes are still to get settings.
        Cancellation is raised and leaves no file behind; created objects stay in the cluster, and the restore
        can be run again.
    """
    restore, recorder = request.restore, _ProgressRecorder(context)
    request.started.clock = context.clock
    try:
        with temporary_folder(context.workdir, "restore-") as directory:
            run = _Run(request, context, inputs, recorder.publish, directory)
            results = await run.run_cancelling()
    except RestoreFailed as error:
        return _finished(restore, RestorePhase.FAILED, context, recorder, reason=str(error))
    except OSError as error:
        reason = f"error making temporary files: {problem_text(context.workdir, error)}"
        return _finished(restore, RestorePhase.FAILED, context, recorder, reason=reason)
    except Exception as error:  # noqa: BLE001 - a defect: the restore must not look as if it still ran
        return _finished(restore, RestorePhase.FAILED, context, recorder, reason=_defect(error))
    operations, unpatched = request.started.operations, run.outcomes.unpatched
    phase = phases.ended(results.errors.count, operations=len(operations), finalizing=bool(unpatched))
    restored = _finished(restore, phase, context, recorder, results=results)
    if counts := run.outcomes.counts:
        restored = _noted(restored, {OUTCOMES: encode_counts(counts)})
    return _waiting(restored, operations, unpatched) if phase in phases.UNFINISHED else restored


class _Run(msgspec.Struct, frozen=True):
    """One execution, in a private directory."""

    request: RestoreRequest
    context: RunContext
    inputs: RestoreInputs
    progress: ProgressSink
    directory: Path
    outcomes: ItemOutcomes = msgspec.field(default_factory=ItemOutcomes)

    @property
    def restore(self) -> Restore:
        """The Restore."""
        return self.request.restore

    async def run_cancelling(self) -> Results:
        """Call `run_logged`; a failure or cancellation cancels the operations that were started."""
        try:
            return await self.run_logged()
        except BaseException:  # cancellation too: nothing would wait for the operations; re-raised unchanged
            await finish(self._cancel_operations("the restore failed"), limit_seconds=_CANCEL_SECONDS)
            raise

    async def run_logged(self) -> Results:
        """Restore, and upload log and results.

        Raises:
            RestoreFailed: it did not run; its incomplete log is in the store if that was possible.
        """
        context, name, log_path = self.context, self.restore.metadata.name, self.directory / "log.gz"
        with _new_log(self.restore, log_path, context) as log:
            try:
                results = await self._run(log)
            except Exception as error:
                failure = self._failure(error)
                log.error(notice_of(error, Code.DEFECT, "error restoring"), error=str(failure))
                problem = await _upload_log(context.store, name, log, log_path)
                if problem is not None:
                    # The log file is closed by now; this reaches only the other outputs of the log.
                    log.warning(
                        Notice(Code.STORE_WRITE_FAILED, "the log of a failed restore was not kept"),
                        error=problem,
                    )
                raise failure from error
            try:
                at_end = await context.store_at_end()
            except (StorageError, KubeError) as error:
                raise RestoreFailed(
                    f"error setting up backup store to persist log and results files: {error}"
                ) from error
            store = at_end.store
            if at_end.moved:
                # Data that was restored is right: a snapshot that is not in the other place is an error.
                moved = f"{at_end.moved}. What is stored of the restore is there, its backup may not be"
                results.warnings.add_velero(Notice(Code.LOCATION_MOVED, moved))
                log.warning(Notice(Code.LOCATION_MOVED, moved))
            try:
                problem = await _upload_log(store, name, log, log_path, self._patience)
                if problem is not None:
                    results.errors.add_velero(problem)
                await self._upload_operations(store, results)
                await self._upload_volume_patches(store, results)
                await self._upload_results(store, results, log)
                await self._upload_outcomes(store, log)
            finally:
                await context.close_reopened(store)
        return results

    @property
    def _patience(self) -> Patience:
        """With a store that is away once the cluster has been changed: the results say how."""
        return self.context.patience or impatient()

    async def _upload_results(self, store: BackupStore, results: Results, log: RunLog) -> None:
        """Store the results; a failure does not change the outcome of the restore."""
        hide, kept = self.context.log.hide_results, results.to_dict()
        shown = kept if hide is None else hide(kept)
        try:
            await self._patience.insist(partial(store.put_restore_results, self.restore.metadata.name, shown))
        except StorageError as error:
            log.error(
                notice_of(
                    error, Code.STORE_WRITE_FAILED, "Error uploading restore results to backup storage"
                ),
                error=error,
            )

    async def _upload_outcomes(self, store: BackupStore, log: RunLog) -> None:
        """Store the outcomes of objects and volumes; a failure does not change the outcome of the restore."""
        # A reason can name objects of other namespaces, which a tenant must not see.
        details = self.outcomes.details(with_reasons=self.context.log.hide_results is None)
        try:
            name, resources = self.restore.metadata.name, self.outcomes.resource_list()
            await self._patience.insist(partial(store.put_restore_outcomes, name, resources, details))
            await self._patience.insist(partial(store.put_restore_volume_infos, name, self.outcomes.volumes))
        except StorageError as error:
            log.error(
                notice_of(
                    error,
                    Code.STORE_WRITE_FAILED,
                    "Error uploading restore resource list and volumes to backup storage",
                ),
                error=error,
            )

    def _failure(self, error: Exception) -> RestoreFailed:
        if isinstance(error, RestoreFailed):
            return error
        if isinstance(error, OSError):
            return RestoreFailed(f"error with temporary files: {problem_text(self.directory, error)}")
        return RestoreFailed(_defect(error))

    async def _upload_operations(self, store: BackupStore, results: Results) -> None:
        """Store the operations that actions have started; if that fails, cancel them."""
        operations = self.request.started.operations
        if not operations:
            return
        try:
            encoded = encode_operations(self.restore, operations)
            await self._patience.insist(
                partial(store.put_restore_item_operations, self.restore.metadata.name, encoded)
            )
        except StorageError as error:
            problem = f"error uploading item operations to backup storage, they are cancelled: {error}"
            results.errors.add_velero(Notice(Code.OPERATIONS_NOT_STORED, problem))
            await self._cancel_operations("their list could not be stored")
            operations.clear()

    async def _upload_volume_patches(self, store: BackupStore, results: Results) -> None:
        """Store the settings that volumes are still to get; if that fails, each is an error."""
        wanted = self.outcomes.unpatched
        if not wanted:
            return
        try:
            patches = encode_patches(wanted)
            await self._patience.insist(
                partial(store.put_restore_volume_patches, self.restore.metadata.name, patches)
            )
        except StorageError as error:
            for each in wanted:
                reason = f"the list of such volumes could not be uploaded to backup storage: {error}"
                results.errors.add(each.namespace, Notice(Code.VOLUME_NOT_PATCHED, problem_of(each, reason)))
            wanted.clear()

    async def _cancel_operations(self, reason: str) -> None:
        if not self.request.started.operations:
            return
        moved = self.inputs.collaborators.moved_data
        given = (*self.context.plugins.restore_actions, moved)
        actions = {action.name: action for action in given if isinstance(action, RestoreItemActionV2)}
        await Operators(self.restore, actions, ProcessLog()).cancelled(
            self.request.started.operations, reason
        )

    async def _begin_journal(self, log: RunLog) -> None:
        """Begin the journal, or read that of the interrupted run. Raises RestoreFailed."""
        context, journal = self.context, self.request.journal
        times = self.restore.metadata.annotations.get(RESUMED, "")
        ahead = context.client.clock_difference or timedelta()
        await journal.begin(
            context.store,
            self.restore,
            self.request.labels,
            now=context.clock.now() + ahead,
            patience=context.patience,
            is_resumed=bool(times),
        )
        if journal.is_resumed:
            log.info("Resuming a restore that was interrupted", times=times)
        elif journal.problem:
            text = "The location takes no journal: to a resumed restore, what this one makes is foreign"
            log.info(text, error=journal.problem)

    async def _run(self, log: RunLog) -> Results:
        backup_name = self.restore.spec.backup_name
        log.info("starting restore")
        # For a restore by a server, only this line in the location names its backup.
        log.info(f"Starting restore of backup {self.restore.metadata.namespace}/{backup_name}")
        if (modifiers := self.request.modifiers) is not None and modifiers.source:
            log.info(f"Applying the resource modifiers in ConfigMap {modifiers.source}")
        contents = self.directory / "contents.tar.gz"
        with self.context.worker_slot.lent():
            request = await self._read(contents)
            await self._begin_journal(log)
            is_kept = not self.request.journal.problem
            actions = await self.inputs.actions(request.records.pod_volumes)
        await self.context.worker_slot.take()
        try:
            results = await self._restore_archive(log, actions, contents, request)
        finally:
            self.context.worker_slot.give_back()
        if is_kept and (problem := self.request.journal.problem):
            lost = Notice(
                Code.JOURNAL_NOT_KEPT, f"the journal of the restore could not be kept to its end: {problem}"
            )
            results.warnings.add_velero(lost)
            log.warning(lost)
        objects = ", ".join(f"{number} {outcome}" for outcome, number in sorted(self.outcomes.counts.items()))
        log.info(
            "restore completed",
            warnings=results.warnings.count,
            errors=results.errors.count,
            objects=objects or "none",
        )
        return results

    async def _read(self, contents: Path) -> RestoreRequest:
        """Download the tarball and read the other files of the backup. Raises RestoreFailed."""
        backup_name = self.restore.spec.backup_name
        store, activity = self.context.store, self.context.activity
        activity.plan([_CONTENTS])
        activity.downloading = contents
        try:
            await store.share_key(self.restore.metadata.name, backup_name)
            await store.download_contents(backup_name, contents)
        except (StorageError, OSError) as error:
            reason = problem_text(self.directory, error) if isinstance(error, OSError) else error
            raise RestoreFailed(f"error downloading backup: {reason}") from error
        finally:
            activity.downloading = None
        try:
            records = await read_records(store, backup_name)
        except StorageError as error:
            raise RestoreFailed(f"error fetching volume snapshots metadata: {error}") from error
        try:
            pod_volumes = await self.inputs.pod_volumes(records.infos)
        except (StorageError, KubeError, DecodeError) as error:
            raise RestoreFailed(f"error listing pod volume backups: {error}") from error
        records = msgspec.structs.replace(records, pod_volumes=pod_volumes)
        return msgspec.structs.replace(
            self.request, records=records, caveats=self.context.caveats, activity=activity
        )

    async def _restore_archive(
        self,
        log: RunLog,
        actions: Sequence[RestoreItemAction],
        contents: Path,
        request: RestoreRequest,
    ) -> Results:
        all_versions = FEATURE in self.inputs.options.features
        try:
            archive = await ArchiveIndex.open(
                contents,
                self.directory,
                with_versions=all_versions,
                with_other_versions=True,
                limits=self.inputs.archive_limits,
            )
        except ArchiveError as error:
            log.error(Notice(Code.ARCHIVE_UNREADABLE, "error reading backup contents"), error=error)
            results = Results()
            results.errors.add_velero(
                Notice(Code.ARCHIVE_UNREADABLE, f"error reading backup contents: {error}")
            )
            return results
        engine = RestoreEngine(
            ClusterAccess(
                clock=self.context.clock,
                client=self.context.client,
                discovery=self.context.discovery,
                load_discovery=partial(Discovery.load, self.context.client, all_versions=all_versions),
            ),
            actions=actions,
            log=log,
            progress=self.progress,
            options=self.inputs.options,
            collaborators=self.inputs.collaborators,
        )
        with archive:
            # The contents are in the index's spool now; a large backup need not be on the disk twice.
            await asyncio.to_thread(contents.unlink)
            with raised_gc_thresholds():
                return await engine.run(request, archive, self.outcomes)


def _defect(error: Exception) -> str:
    return f"error running restore: {' '.join(error_text(error).split())}"


def _new_log(restore: Restore, path: Path, context: RunContext) -> RunLog:
    try:
        return context.open_log(path, restore=f"{restore.metadata.namespace}/{restore.metadata.name}")
    except OSError as error:
        raise RestoreFailed(f"error creating restore log: {problem_text(path.parent, error)}") from error


async def _upload_log(
    store: BackupStore, name: str, log: RunLog, path: Path, patience: Patience | None = None
) -> Notice | None:
    """Close the log and store it; return the Velero-level error if that fails."""
    try:
        log.close()
    except OSError as error:
        text = f"error getting restore log reader: {error_text(error)}"
        return notice_of(error, Code.DISK_FAULT, text)
    try:
        await (patience or impatient()).insist(partial(store.put_restore_log, name, path))
    except StorageError as error:
        return Notice(Code.STORE_WRITE_FAILED, f"error uploading log file to backup storage: {error}")
    return None


class _ProgressRecorder:
    """Passes progress on and remembers the last stored numbers."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.last: RestoreProgress | None = None

    async def publish(self, total_items: int, items_restored: int) -> None:
        await self._context.publish(total_items, items_restored)
        self.last = RestoreProgress(total_items=total_items, items_restored=items_restored)


def _finished(
    restore: Restore,
    phase: str,
    context: RunContext,
    recorder: _ProgressRecorder,
    *,
    results: Results | None = None,
    reason: str = "",
) -> Restore:
    status: RestoreStatus = msgspec.structs.replace(
        restore.status,
        phase=phase,
        failure_reason=reason,
        warnings=results.warnings.count if results else 0,
        errors=results.errors.count if results else 0,
        completion_timestamp=context.clock.now(),
        progress=recorder.last or restore.status.progress,
    )
    return msgspec.structs.replace(restore, status=status)


def _waiting(
    restore: Restore, operations: Sequence[ItemOperation], unpatched: Sequence[WantedPatch]
) -> Restore:
    """The Restore while something is left to do: without a completion timestamp. (BEY 5.6, 5.7)"""
    status = msgspec.structs.replace(
        restore.status,
        completion_timestamp=None,
        restore_item_operations_attempted=len(operations),
    )
    notes = {ITEM_OPERATIONS: digest_of(operations)}
    if unpatched:
        notes[VOLUME_PATCHES] = digest_of_patches(unpatched)
    return _noted(msgspec.structs.replace(restore, status=status), notes)


def _noted(restore: Restore, notes: Mapping[str, str]) -> Restore:
    annotations = {**restore.metadata.annotations, **notes}
    metadata = msgspec.structs.replace(restore.metadata, annotations=annotations)
    return msgspec.structs.replace(restore, metadata=metadata)
