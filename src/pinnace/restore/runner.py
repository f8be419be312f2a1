"""Runs one valid restore from download to results, for a controller or for a command without server.

What goes wrong with items ends in the results and makes the restore PartiallyFailed; only what keeps a
restore from running, or its results from being kept, makes it Failed. (docs/spec: RST 4, CTL 8.3)
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import msgspec

from pinnace.aio.gc_thresholds import raised_gc_thresholds
from pinnace.aio.temporary import problem_text, temporary_folder
from pinnace.api.backup import Backup
from pinnace.api.pod_volume import PodVolumeBackup
from pinnace.api.restore import Restore, RestorePhase, RestoreProgress, RestoreStatus
from pinnace.api.values.error_texts import error_text
from pinnace.api.values.times import utcnow
from pinnace.archive.errors import ArchiveError
from pinnace.archive.reader import ArchiveIndex, ArchiveLimits
from pinnace.archive.runlog import Hide, RunLog
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.restore.engine import Helpers, RestoreEngine, RestoreOptions, RestoreRequest
from pinnace.restore.errors import RestoreFailed
from pinnace.restore.item.tenant_rights import TenantRights
from pinnace.restore.ports import ProgressSink
from pinnace.restore.results import Results
from pinnace.restore.selection.api_versions import FEATURE
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError

ActionSource = Callable[[RunLog], Awaitable[Sequence[RestoreItemAction]]]
PodVolumeBackupSource = Callable[[], Awaitable[Sequence[PodVolumeBackup]]]
StoreSource = Callable[[], Awaitable[BackupStore]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How the restore's own log is written.

    Attributes:
        level: the lowest level written.
        fmt: `text` or `json`.
        echo: gets every line too; a server's standard output.
        hide: changes what is stored, not what is echoed; for logs that tenants read.
        hide_results: the same for the results.
    """

    level: str = "info"
    fmt: str = "text"
    echo: TextIO | None = None
    hide: Hide | None = None
    hide_results: Callable[[dict[str, Any]], dict[str, Any]] | None = None


async def execute_restore(
    restore: Restore,
    backup: Backup,
    store: BackupStore,
    *,
    client: KubeClient,
    discovery: Discovery,
    actions: ActionSource,
    pod_volume_backups: PodVolumeBackupSource,
    reopen_store: StoreSource,
    workdir: Path,
    progress: ProgressSink,
    options: RestoreOptions | None = None,
    helpers: Helpers | None = None,
    trusted: bool = True,
    rights: TenantRights | None = None,
    caveats: Sequence[str] = (),
    archive_limits: ArchiveLimits | None = None,
    log_options: LogOptions | None = None,
    clock: Callable[[], datetime] = utcnow,
) -> Restore:
    """Restore, keep the log and the results in the store, and say how it went.

    Args:
        restore: valid and completed; `status` says InProgress since when.
        backup: what it restores from.
        store: the backup's store, opened. The caller closes it.
        discovery: what the cluster serves; read anew after definitions were restored.
        actions: asked once for the restore item actions; may raise RestoreFailed.
        pod_volume_backups: asked once for those of the backup; may raise KubeError or StorageError.
        reopen_store: opens the store again for the uploads, as credentials can have changed during a long
            restore; the caller closes that one too. May raise StorageError or KubeError.
        trusted, rights, caveats: as in `RestoreRequest`.
        workdir: an existing directory with room for the backup, compressed and not.
        progress: gets the numbers for `status.progress`.

    Returns:
        A copy of the restore with its terminal phase, counts, times and progress. Cancellation is raised and
        leaves no file behind; what was created in the cluster stays, and the restore can be run again.
    """
    recorder = _ProgressRecorder(progress)
    try:
        with temporary_folder(workdir, "restore-") as directory:
            results = await _run_logged(
                _Job(
                    restore=restore,
                    backup=backup,
                    client=client,
                    discovery=discovery,
                    actions=actions,
                    pod_volume_backups=pod_volume_backups,
                    progress=recorder,
                    options=options or RestoreOptions(),
                    helpers=helpers or Helpers(),
                    trusted=trusted,
                    rights=rights,
                    caveats=caveats,
                    archive_limits=archive_limits,
                    directory=directory,
                ),
                store,
                reopen_store,
                log_options or LogOptions(),
                clock,
            )
    except RestoreFailed as error:
        return _finished(restore, RestorePhase.FAILED, clock, recorder, reason=str(error))
    except OSError as error:
        reason = f"error making temporary files: {problem_text(workdir, error)}"
        return _finished(restore, RestorePhase.FAILED, clock, recorder, reason=reason)
    phase = RestorePhase.PARTIALLY_FAILED if results.errors.count else RestorePhase.COMPLETED
    return _finished(restore, phase, clock, recorder, results=results)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One restore with all it needs but its store and its log."""

    restore: Restore
    backup: Backup
    client: KubeClient
    discovery: Discovery
    actions: ActionSource
    pod_volume_backups: PodVolumeBackupSource
    progress: ProgressSink
    options: RestoreOptions
    helpers: Helpers
    trusted: bool
    rights: TenantRights | None
    caveats: Sequence[str]
    archive_limits: ArchiveLimits | None
    directory: Path


async def _run_logged(
    job: _Job,
    store: BackupStore,
    reopen_store: StoreSource,
    log_options: LogOptions,
    clock: Callable[[], datetime],
) -> Results:
    """Run the job and upload what it leaves.

    Raises:
        RestoreFailed: it did not run; its log, as far as it got, is in the store if that was possible.
    """
    name = job.restore.metadata.name
    log_path = job.directory / "log.gz"
    with _new_log(job.restore, log_path, log_options, clock) as log:
        try:
            results = await _run(job, store, log)
        except RestoreFailed as error:
            log.error("error restoring", error=str(error))
            problem = await _upload_log(store, name, log, log_path)
            if problem is not None:
                # The log file is closed by now; the echo still hears of it.
                log.warning("the log of a failed restore was not kept", error=problem)
            raise
        try:
            store = await reopen_store()
        except (StorageError, KubeError) as error:
            raise RestoreFailed(
                f"error setting up backup store to persist log and results files: {error}"
            ) from error
        problem = await _upload_log(store, name, log, log_path)
        if problem is not None:
            results.errors.add_velero(problem)
        await _upload_results(store, name, results, log, log_options.hide_results)
    return results


def _new_log(restore: Restore, path: Path, options: LogOptions, clock: Callable[[], datetime]) -> RunLog:
    try:
        log = RunLog(
            path,
            fields={"restore": f"{restore.metadata.namespace}/{restore.metadata.name}"},
            level=options.level,
            fmt=options.fmt,
            echo=options.echo,
            clock=clock,
        )
    except OSError as error:
        raise RestoreFailed(f"error creating restore log: {problem_text(path.parent, error)}") from error
    if options.hide is not None:
        log.hide_in_file(options.hide)
    return log


async def _run(job: _Job, store: BackupStore, log: RunLog) -> Results:
    log.info("starting restore")
    # Of a restore by a server only this says in the location which backup it was made from.
    log.info(f"Starting restore of backup {job.restore.metadata.namespace}/{job.restore.spec.backup_name}")
    actions = await job.actions(log)
    contents = job.directory / "contents.tar.gz"
    backup_name = job.restore.spec.backup_name
    try:
        await store.download_contents(backup_name, contents)
    except (StorageError, OSError) as error:
        reason = problem_text(job.directory, error) if isinstance(error, OSError) else error
        raise RestoreFailed(f"error downloading backup: {reason}") from error
    try:
        pod_volume_backups = await job.pod_volume_backups()
    except (StorageError, KubeError) as error:
        raise RestoreFailed(f"error listing pod volume backups: {error}") from error
    try:
        request = RestoreRequest(
            restore=job.restore,
            backup=job.backup,
            snapshots=await store.read_snapshots(backup_name),
            pod_volume_backups=pod_volume_backups,
            volume_infos=await store.read_volume_infos(backup_name),
            item_operations=await store.read_item_operations(backup_name),
            trusted=job.trusted,
            rights=job.rights,
            caveats=job.caveats,
        )
    except StorageError as error:
        raise RestoreFailed(f"error fetching volume snapshots metadata: {error}") from error
    results = await _restore_archive(job, log, actions, contents, request)
    log.info("restore completed", warnings=results.warnings.count, errors=results.errors.count)
    return results


async def _restore_archive(
    job: _Job,
    log: RunLog,
    actions: Sequence[RestoreItemAction],
    contents: Path,
    request: RestoreRequest,
) -> Results:
    all_versions = FEATURE in job.options.features
    try:
        archive = await ArchiveIndex.open(
            contents, job.directory, with_versions=all_versions, limits=job.archive_limits
        )
    except ArchiveError as error:
        log.error("error reading backup contents", error=error)
        results = Results()
        results.errors.add_velero(f"error reading backup contents: {error}")
        return results
    engine = RestoreEngine(
        client=job.client,
        discovery=job.discovery,
        load_discovery=partial(Discovery.load, job.client, all_versions=all_versions),
        actions=actions,
        log=log,
        progress=job.progress,
        options=job.options,
        helpers=job.helpers,
    )
    with archive:
        # Its contents are in the index's spool now; a large backup need not be on the disk twice.
        await asyncio.to_thread(contents.unlink)
        with raised_gc_thresholds():
            return await engine.run(request, archive)


async def _upload_log(store: BackupStore, name: str, log: RunLog, path: Path) -> str | None:
    """Close the log and keep it; returns the Velero-level error if that fails."""
    try:
        log.close()
    except OSError as error:
        return f"error getting restore log reader: {error_text(error)}"
    try:
        await store.put_restore_log(name, path)
    except StorageError as error:
        return f"error uploading log file to backup storage: {error}"
    return None


async def _upload_results(
    store: BackupStore,
    name: str,
    results: Results,
    log: RunLog,
    hide: Callable[[dict[str, Any]], dict[str, Any]] | None,
) -> None:
    """Keep the results; that they could not be kept changes nothing of how the restore went."""
    kept = results.to_dict()
    try:
        await store.put_restore_results(name, kept if hide is None else hide(kept))
    except StorageError as error:
        log.error("Error uploading restore results to backup storage", error=error)


class _ProgressRecorder:
    """Passes progress on and remembers the last that was stored."""

    def __init__(self, sink: ProgressSink) -> None:
        self._sink = sink
        self.last: RestoreProgress | None = None

    async def publish(self, total_items: int, items_restored: int) -> None:
        await self._sink.publish(total_items, items_restored)
        self.last = RestoreProgress(total_items=total_items, items_restored=items_restored)


def _finished(
    restore: Restore,
    phase: RestorePhase,
    clock: Callable[[], datetime],
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
        completion_timestamp=clock(),
        progress=recorder.last or restore.status.progress,
    )
    return msgspec.structs.replace(restore, status=status)
