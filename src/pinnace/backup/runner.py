"""One backup from its acceptance to its terminal phase: log, tarball, counts, upload.

The order of the steps is what makes a backup trustworthy: its counts and phase are settled before the upload,
so that the stored metadata has them; nothing that looks finished is ever left behind by a failure, a full
disk or a cancellation. (docs/spec: BKP 3, CTL 3.5)
"""

import copy
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TextIO

from pinnace.aio.blocking import finish
from pinnace.aio.temporary import problem_text, temporary_folder
from pinnace.api.backup import Backup, BackupPhase
from pinnace.api.snapshots import VolumeSnapshot, VolumeSnapshotPhase
from pinnace.api.values.error_texts import error_text
from pinnace.api.values.times import utcnow
from pinnace.archive.errors import ArchiveWriteError
from pinnace.archive.runlog import Hide, RunLog
from pinnace.archive.writer import ArchiveWriter
from pinnace.backup.cluster import ClusterReader
from pinnace.backup.collaborators import Collaborators, CSIObjects
from pinnace.backup.engine import BackupEngine, EngineResult
from pinnace.backup.errors import FatalBackupError
from pinnace.backup.progress import ProgressSink
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError
from pinnace.plugins.protocols import BackupItemAction
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError

_logger = logging.getLogger(__name__)

_SETTLING_SECONDS = 120.0
"""For removing the objects of CSI snapshots at the end, also of a run that is cancelled."""

ReopenStore = Callable[[], Awaitable[BackupStore]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How the backup's log is written. (docs/spec: BKP 3.5)

    Attributes:
        echo: gets every line too; a server's standard output.
        hide: changes what is stored, not what is echoed; for logs that tenants read.
    """

    level: str = "info"
    fmt: str = "text"
    echo: TextIO | None = None
    hide: Hide | None = None


async def execute_backup(
    backup: Backup,
    store: BackupStore,
    *,
    client: ClusterReader,
    discovery: Discovery,
    actions: Sequence[BackupItemAction],
    workdir: Path,
    collaborators: Collaborators | None = None,
    clock: Callable[[], datetime] = utcnow,
    log_options: LogOptions | None = None,
    caveats: Sequence[str] = (),
    progress: ProgressSink | None = None,
    reopen_store: ReopenStore | None = None,
    on_tarball: Callable[[int], None] | None = None,
    on_log: Callable[[RunLog], None] | None = None,
) -> Backup:
    """Run a prepared Backup and store it; never raises for what goes wrong inside.

    Cancelled, it leaves nothing that looks finished, and no temporary files.

    Args:
        backup: of phase InProgress, as `prepare_backup` made it; left as it is.
        store: where the backup goes; the caller closes it.
        client, discovery: the cluster, and what it serves now.
        actions: in the order in which they run.
        workdir: where a temporary directory is made for log and tarball.
        collaborators: who runs hooks and saves volumes.
        clock: for timestamps.
        log_options: of the server or command.
        caveats: warnings that the log begins with, such as fields of the spec that are not known.
        progress: told at most once a second how far the backup is.
        reopen_store: gives a store with fresh credentials for the upload, which is closed here; without it
            the first one is used.
        on_tarball: told the size of the tarball in bytes.
        on_log: given the backup's log when it begins; what plugins say belongs there. (docs/spec: PLG 11)

    Returns:
        The Backup with its terminal phase, counts and times; patch the difference.
    """
    run = _Run(
        backup=copy.deepcopy(backup),
        store=store,
        engine=BackupEngine(client, discovery, actions=actions, collaborators=collaborators, clock=clock),
        collaborators=collaborators or Collaborators(),
        clock=clock,
        log_options=log_options or LogOptions(),
        caveats=caveats,
        progress=progress,
        reopen_store=reopen_store,
        on_tarball=on_tarball,
        on_log=on_log,
    )
    try:
        with temporary_folder(workdir, "backup-") as directory:
            return await run.execute(directory)
    except OSError as error:
        return run.failed(f"error making temporary files: {problem_text(workdir, error)}")
    except Exception as error:  # noqa: BLE001 - a defect: nothing was stored, which must be said
        return run.failed(f"error running backup: {_one_line(error)}")


@dataclass(slots=True, kw_only=True)
class _Run:
    """One execution; the Backup in it is ours to change."""

    backup: Backup
    store: BackupStore
    engine: BackupEngine
    collaborators: Collaborators
    clock: Callable[[], datetime]
    log_options: LogOptions
    caveats: Sequence[str]
    progress: ProgressSink | None
    reopen_store: ReopenStore | None
    on_tarball: Callable[[int], None] | None
    on_log: Callable[[RunLog], None] | None
    is_stored: bool = False

    async def execute(self, directory: Path) -> Backup:
        metadata = self.backup.metadata
        options = self.log_options
        log = RunLog(
            directory / "log.gz",
            fields={"backup": f"{metadata.namespace}/{metadata.name}"},
            level=options.level,
            fmt=options.fmt,
            echo=options.echo,
            clock=self.clock,
        )
        if options.hide is not None:
            log.hide_in_file(options.hide)
        if self.on_log is not None:
            self.on_log(log)
        try:
            refusal = await self._refusal()
            if refusal is not None:
                log.error("backup failed", error=refusal)
                return self.failed(refusal, errors=log.errors)
            for caveat in self.caveats:
                log.warning(caveat)
            try:
                return await self._run(directory, log)
            finally:
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
            status.completion_timestamp = self.clock()
        return self.backup

    async def _refusal(self) -> str | None:
        """Why the backup cannot start: its name is taken, or nobody knows. (docs/spec: BKP 3.1)"""
        try:
            if await self.store.exists(self.backup.metadata.name):
                return "backup already exists in object storage"
        except StorageError as error:
            return f"error checking if backup already exists in object storage: {error}"
        return None

    async def _run(self, directory: Path, log: RunLog) -> Backup:
        contents: Path | None = directory / "contents.tar.gz"
        result: EngineResult | None = None
        fatal: Exception | None = None
        try:
            async with ArchiveWriter(directory / "contents.tar.gz", clock=self.clock) as writer:
                result, fatal = await self._make_tarball(writer, log)
        except ArchiveWriteError as error:
            contents, fatal = None, error
        if contents is not None and self.on_tarball is not None:
            self.on_tarball(writer.compressed_size_bytes)
        if fatal is not None:
            log.error("backup failed", error=fatal)
        csi_snapshots, csi_contents = await self._csi_objects(log)
        snapshots = self._settle(log, result, fatal)
        files = BackupFiles(
            name=self.backup.metadata.name,
            # A tarball that could not be written is no backup: only the log is kept.
            metadata=encode_metadata(self.backup) if contents is not None else None,
            contents=contents,
            log=log.path if _close(log) else None,
            pod_volume_backups=self._pod_volume_backups(),
            snapshots=snapshots,
            resource_list=result.resource_list if result is not None else {},
            csi_volume_snapshots=csi_snapshots,
            csi_volume_snapshot_contents=csi_contents,
            volume_infos=self.collaborators.csi.volume_infos if self.collaborators.csi is not None else (),
        )
        await self._upload(files, log)
        return self.backup

    async def _settle_csi_snapshots(self, log: RunLog) -> None:
        """CSI snapshots of a backup that is stored need no objects in the cluster; others are not wanted.

        Where it is not clear what is stored they are left as they are, for a deletion to find. (docs/adr/022)
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
            log.warning("Objects of CSI snapshots stay until the backup is deleted", error=problem)

    async def _remove_or_discard(self, csi: CSIObjects) -> list[str]:
        if self.is_stored:
            return await csi.remove_objects()
        return [] if await self.store.exists(self.backup.metadata.name) else await csi.discard()

    async def _make_tarball(
        self, writer: ArchiveWriter, log: RunLog
    ) -> tuple[EngineResult | None, Exception | None]:
        """Run the engine; what it had written when it failed is kept. (docs/spec: BKP 3.2)"""
        try:
            return await self.engine.run(self.backup, writer, log, progress=self.progress), None
        except ArchiveWriteError:
            raise
        except FatalBackupError as error:
            return None, error
        except Exception as error:  # noqa: BLE001 - a defect must end this backup, not leave it InProgress
            return None, error

    def _settle(
        self, log: RunLog, result: EngineResult | None, fatal: Exception | None
    ) -> Sequence[VolumeSnapshot]:
        """Fill in the terminal status, before anything is uploaded. (docs/spec: BKP 3.1, 3.3)"""
        status = self.backup.status
        snapshots: Sequence[VolumeSnapshot] = ()
        if self.collaborators.snapshots is not None:
            snapshots = self.collaborators.snapshots.snapshots
        status.completion_timestamp = self.clock()
        status.volume_snapshots_attempted = len(snapshots)
        status.volume_snapshots_completed = sum(
            snapshot.status.phase == VolumeSnapshotPhase.COMPLETED for snapshot in snapshots
        )
        if result is not None:
            status.progress = result.progress
        status.warnings, status.errors = log.warnings, log.errors
        if fatal is not None:
            self.failed(error_text(fatal))
        elif log.errors:
            status.phase = BackupPhase.PARTIALLY_FAILED
        else:
            status.phase = BackupPhase.COMPLETED
        return snapshots

    def _pod_volume_backups(self) -> Sequence[dict[str, object]]:
        if self.collaborators.pod_volumes is None:
            return ()
        return self.collaborators.pod_volumes.pod_volume_backups

    async def _csi_objects(
        self, log: RunLog
    ) -> tuple[Sequence[dict[str, object]], Sequence[dict[str, object]]]:
        """Before the counts are settled, for what cannot be listed counts. (docs/spec: CTL 3.5)"""
        if self.collaborators.csi is None:
            return (), ()
        return await self.collaborators.csi.collect(log)

    async def _upload(self, files: BackupFiles, log: RunLog) -> None:
        """Store the files: the last step that can fail, and the one that decides. (docs/spec: BKP 3.1)

        After it the Backup says what the location holds: its phase when the files are there, Failed when
        they are not. Nothing that goes wrong later changes that.
        """
        store = self.store
        try:
            if self.reopen_store is not None:
                store = await self.reopen_store()
            await store.put_backup(files)
        except Exception as error:  # noqa: BLE001 - nothing is stored, whatever it was, and that must be said
            log.error("error uploading backup", error=error)
            self.failed(f"error uploading backup: {_one_line(error)}")
        else:
            self.is_stored = files.metadata is not None
        finally:
            if store is not self.store:
                await _close_store(store)


def _one_line(error: Exception) -> str:
    if isinstance(error, StorageError | KubeError):
        return str(error)
    return " ".join(f"{type(error).__name__}: {error}".split())


async def _close_store(store: BackupStore) -> None:
    """Close a store whose work is done; that it does not close well changes nothing of what it holds."""
    try:
        await store.close()
    except Exception:  # whatever it was: the backup is decided
        _logger.warning("A backup storage location could not be closed after a backup", exc_info=True)


def _close(log: RunLog) -> bool:
    """Close the log; whether its file is whole. A log that is lost does not make the backup worse."""
    try:
        log.close()
    except OSError as error:
        log.error("error closing the backup's log", error=error)
        return False
    return True
