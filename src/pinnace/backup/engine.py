"""One backup from its plan to the last item in the archive. (docs/spec: BKP 3.2, 5, 12, 13)"""

from collections.abc import Sequence

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.gc_thresholds import raised_gc_thresholds
from pinnace.api.velero.backup import Backup, BackupProgress, HookStatus
from pinnace.archive.runlog import RunLog
from pinnace.backup.actions import BackupActions
from pinnace.backup.cluster import ClusterReader
from pinnace.backup.collaborators import BackupCollaborators
from pinnace.backup.collecting import Collection
from pinnace.backup.errors import FatalBackupError
from pinnace.backup.filters import NOTHING_SELECTED
from pinnace.backup.item.context import BackupRun, ItemWriter
from pinnace.backup.item.volume_records import VolumeRecords
from pinnace.backup.progress import PROGRESS_FAILURE
from pinnace.backup.request import is_of_tenant
from pinnace.backup.scoping import read_scope
from pinnace.hooks.backup_selection import HookChoice
from pinnace.kube.discovery import Discovery
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.asynchronous import AnyBackupItemAction
from pinnace.plugins.item_operations import ItemOperation
from pinnace.runs.activity import Activity
from pinnace.runs.progress import ProgressReporter, ProgressSink


class EngineResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run of the engine, besides the archive.

    Attributes:
        left_out: what filter policies leave out, a sentence for each policy.
    """

    resource_list: dict[str, list[str]]
    progress: BackupProgress
    volumes: VolumeRecords = msgspec.field(default_factory=VolumeRecords)
    hooks: HookStatus | None = None
    left_out: Sequence[str] = ()


class BackupEngine:
    """Collects a cluster's objects into an open archive.

    Errors of items and lists are logged and counted by the log, and the run continues; only errors that make
    the whole backup useless are raised.

    Args:
        client: the cluster.
        discovery: the resources that it serves; loaded shortly before.
        actions: in execution order.
        collaborators: run hooks and save volumes.
        clock: for the progress.
        activity: told what is being read.

    Attributes:
        operations: those that actions have started, also in a run that failed.
    """

    def __init__(
        self,
        client: ClusterReader,
        discovery: Discovery,
        *,
        actions: Sequence[AnyBackupItemAction] = (),
        collaborators: BackupCollaborators | None = None,
        clock: Clock = SYSTEM_CLOCK,
        activity: Activity | None = None,
    ) -> None:
        self._activity = activity or Activity()
        self._client = client
        self._discovery = discovery
        self._actions = actions
        self.operations: list[ItemOperation] = []
        self._collaborators = collaborators or BackupCollaborators()
        self._clock = clock

    async def run(
        self, backup: Backup, writer: ItemWriter, log: RunLog, *, progress: ProgressSink | None = None
    ) -> EngineResult:
        """Back up everything that a prepared Backup selects.

        Raises:
            FatalBackupError: an invalid selector, an action that cannot start, or no list that could be read.
            ArchiveWriteError: the archive cannot be written.
        """
        with raised_gc_thresholds():
            for warning in self._discovery.warnings:
                # Resources that cannot be discovered are not in the backup: its log must say so.
                log.warning(Notice(Code.LIST_INCOMPLETE, warning))
            scope = await read_scope(
                self._client, self._discovery, backup.spec, self._collaborators.policies, log
            )
            hooks = self._hooks(backup)
            actions = await BackupActions.load(
                self._actions, self._discovery.canonical, self._collaborators.blocks
            )
            for warning in actions.without_items(self._discovery):
                log.warning(Notice(Code.ACTION_SELECTS_NOTHING, warning))
            activity = self._activity
            async with ProgressReporter(
                progress,
                activity,
                log=log,
                failure=PROGRESS_FAILURE,
                clock=self._clock,
            ) as reporter:
                run = BackupRun(
                    backup=backup,
                    scope=scope,
                    client=self._client,
                    discovery=self._discovery,
                    writer=writer,
                    log=log,
                    progress=reporter,
                    actions=actions,
                    hooks=hooks,
                    collaborators=self._collaborators,
                    activity=self._activity,
                    operations=self.operations,
                    clock=self._clock,
                )
                collection = Collection(run)
                await collection.run()
                count = activity.collected = run.tracker.count
                await reporter.finish(count)
        collection.check_not_vain()
        run.excluded.warn(log, of_tenant=is_of_tenant(backup))
        left_out = run.left_out.lines()
        for line in left_out:
            log.info(line)
        if not count:
            log.warning(Notice(Code.NOTHING_SELECTED, NOTHING_SELECTED))
        return EngineResult(
            resource_list=run.tracker.resource_list(),
            progress=BackupProgress(total_items=count, items_backed_up=count),
            volumes=run.volumes,
            hooks=run.hook_counts.status(),
            left_out=left_out,
        )

    def _hooks(self, backup: Backup) -> HookChoice:
        try:
            return HookChoice.of(backup.spec.hooks, canonical=self._discovery.canonical)
        except ValueError as error:
            text = f"invalid label selector of a hook: {error}"
            raise FatalBackupError(Notice(Code.FILTER_INVALID, text)) from error
