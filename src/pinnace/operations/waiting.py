"""Waits for the operations that actions of a backup or restore have started, and finalizes it.

    WaitingForPluginOperations ──follow──> … ──all have ended──> Finalizing ──finalize──> Completed
              └── an operation or an item failed: the same phases, partially (`api.phases.ended`)

Each step starts from the object and the file of operations in the location, and leaves both as they are to
be stored, so that a server goes on where another one was killed. A controller takes one step at a time; a
command without a server waits here. (docs/spec: BEY 4.2, 4.3, 5.6; docs/adr/054)
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from pinnace.aio.blocking import finish
from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.temporary import problem_text, temporary_folder
from pinnace.api import phases
from pinnace.api.labels import ITEM_OPERATIONS
from pinnace.api.values.counts import counted
from pinnace.api.values.durations import Duration
from pinnace.api.values.error_texts import error_text
from pinnace.api.velero.backup import ITEM_OPERATION_TIMEOUT, Backup
from pinnace.api.velero.restore import Restore
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.archive.errors import ArchiveError
from pinnace.archive.rewriting import rewrite_archive
from pinnace.backup.actions import BackupActions
from pinnace.backup.errors import FatalBackupError
from pinnace.backup.finalizing import Finalizer, UpdatedItems
from pinnace.catalogue.reading import plain_list_of_parked
from pinnace.operations.finalizing_restores import POLL_SECONDS as FINALIZE_POLL_SECONDS
from pinnace.operations.finalizing_restores import finalize_restore, verified_operations
from pinnace.operations.moved_volumes import lacking, with_outcomes
from pinnace.operations.outcome_log import continued_log, log_outcomes
from pinnace.plugins.asynchronous import AnyBackupItemAction, BackupItemActionV2, RestoreItemActionV2
from pinnace.plugins.item_operations import ItemOperation, OperationCounts, Operators, encode_operations
from pinnace.plugins.logs import LogSink, ProcessLog
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.plugins.session import PluginSession
from pinnace.runs.context import RunContext
from pinnace.storage.backup_files import FinalFiles
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import BackupExists, ObjectNotFound, StorageError, UnreadableObject

_logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 10.0
"""Between two questions for progress: the default of Velero's `--item-operation-sync-frequency`."""

_NamedT = TypeVar("_NamedT", BackupItemActionV2, RestoreItemActionV2)
_AboutT = TypeVar("_AboutT", Backup, Restore)

_CANCEL_SECONDS: Final = 60.0
_INDEX: Final = "index.json.gz"


class Following(msgspec.Struct, frozen=True, kw_only=True):
    """Follows the operations of one backup or restore, one look at a time.

    Attributes:
        store: the location that holds the file of operations.
        plugins: opened for this look.
        builtin_backup_actions, builtin_restore_actions: actions of version 2 that are built in.
        timeout: the limit for operations of an object without a timeout of its own.
    """

    store: BackupStore
    plugins: PluginSession
    clock: Clock = SYSTEM_CLOCK
    builtin_backup_actions: Sequence[BackupItemActionV2] = ()
    builtin_restore_actions: Sequence[RestoreItemActionV2] = ()
    timeout: Duration = ITEM_OPERATION_TIMEOUT
    log: LogSink = msgspec.field(default_factory=ProcessLog)

    async def backup(self, backup: Backup, *, cancel: str = "") -> Backup:
        """The Backup after a look at its operations: counts, and Finalizing when all have ended.

        Args:
            cancel: why the operations that have not ended are to be cancelled; empty to wait for them.

        Raises:
            StorageError: the file of operations cannot be read or written; the look can be repeated.
            OperationsChanged: the file is not the one that was stored.
        """
        name = backup.metadata.name
        parked = self.store.parked()
        operations = await parked.read_item_operations(name)
        if not operations and await _is_of_older_version(self.store, backup):
            await self.store.park(name)
            operations = await parked.read_item_operations(name)
        before = verified_operations(backup, operations)
        operators = Operators(backup, _by_name(self._backup_actions()), self.log)
        limit = _limit(backup.spec.item_operation_timeout, self.timeout)
        after = await _advanced(operators, before, self.clock.now(), limit, cancel)
        if after != before:
            await parked.put_item_operations(name, encode_operations(backup, after))
        return _counted(backup, after, "backup_item_operations")

    async def restore(self, restore: Restore, *, cancel: str = "") -> Restore:
        """As `backup`, for a Restore. Raises StorageError, OperationsChanged."""
        name = restore.metadata.name
        before = verified_operations(restore, await self.store.read_restore_item_operations(name))
        operators = Operators(restore, _by_name(self._restore_actions()), self.log)
        limit = _limit(restore.spec.item_operation_timeout, self.timeout)
        after = await _advanced(operators, before, self.clock.now(), limit, cancel)
        if after != before:
            await self.store.put_restore_item_operations(name, encode_operations(restore, after))
        return _counted(restore, after, "restore_item_operations")

    def _backup_actions(self) -> Sequence[BackupItemActionV2]:
        given = self.plugins.backup_actions
        return [
            *self.builtin_backup_actions,
            *(action for action in given if isinstance(action, BackupItemActionV2)),
        ]

    def _restore_actions(self) -> Sequence[RestoreItemActionV2]:
        given: Sequence[RestoreItemAction] = self.plugins.restore_actions
        return [
            *self.builtin_restore_actions,
            *(action for action in given if isinstance(action, RestoreItemActionV2)),
        ]


def _counted(about: _AboutT, operations: Sequence[ItemOperation], members: str) -> _AboutT:
    """The Backup or Restore with the numbers of its operations, whose fields begin with `members`."""
    counts, status = OperationCounts.of(operations), about.status
    errors = status.errors + counts.failed - getattr(status, f"{members}_failed")
    numbers = {
        f"{members}_attempted": counts.attempted,
        f"{members}_completed": counts.completed,
        f"{members}_failed": counts.failed,
    }
    phase = phases.ended(errors, operations=counts.pending, finalizing=True)
    status = msgspec.structs.replace(status, phase=phase, errors=errors, **numbers)
    return msgspec.structs.replace(about, status=status)


async def finalize_backup(
    context: RunContext, backup: Backup, *, actions: Sequence[AnyBackupItemAction]
) -> Backup:
    """Read again what operations asked for, store the backup, and return it with its terminal phase.

    Raises:
        StorageError: the location cannot be read or written; the backup stays parked, to be finalized again.
        BackupExists: another backup of the name was stored meanwhile.
        OperationsChanged: the file of operations is not the one that was stored.
    """
    name, store = backup.metadata.name, context.store
    if await _is_of_older_version(store, backup):
        await store.park(name)
    elif await store.exists(name):
        return await _finished_before(store, backup)
    context = msgspec.structs.replace(context, store=store.parked())
    operations = verified_operations(backup, await context.store.read_item_operations(name))
    errors = [
        f"operation {operation.operation_id} for {operation.item.group_resource} "
        f"{operation.item.namespace}/{operation.item.name}: {operation.error}"
        for operation in operations
        if operation.error
    ]
    updated = await _updated(context, backup, actions, operations)
    warnings = lacking(updated.objects)
    ended = _ended(backup, len(updated.errors), len(warnings), context.clock.now())
    for error in updated.errors:
        _logger.error("A backup could not be finalized as a whole: %s", error)
    infos = await _volume_infos(context.store, name, operations, updated)
    try:
        with temporary_folder(context.workdir, "finalize-") as directory:
            log = await continued_log(context, backup, operations, directory, warnings=warnings)
            contents = await _rewritten(context, name, updated, directory)
            files = FinalFiles(
                contents=contents,
                index=directory / _INDEX if contents is not None else None,
                log=log,
                resource_list=await _resource_list(context.store, name, updated),
                volume_infos=infos,
                results=await _results(context.store, name, [*errors, *updated.errors], warnings),
            )
            if await context.store.is_encrypted(name):
                listed = await plain_list_of_parked(context.store, name, files, directory)
                files = msgspec.structs.replace(files, plain_list=listed)
            await store.finish_backup(files, ended, directory, claim=context.claim)
    except (OSError, ArchiveError) as error:
        problem = problem_text(context.workdir, error) if isinstance(error, OSError) else error_text(error)
        raise StorageError(f"backup {name!r} could not be finalized: {problem}") from error
    return ended


async def _is_of_older_version(store: BackupStore, backup: Backup) -> bool:
    """Whether a waiting backup is stored under its own keys, as versions did that parked none. (ADR 054)"""
    try:
        stored = await store.read_backup(backup.metadata.name)
    except ObjectNotFound:
        return False
    return stored.metadata.uid == backup.metadata.uid and stored.status.phase in phases.UNFINISHED


async def _finished_before(store: BackupStore, backup: Backup) -> Backup:
    """The Backup with the end that an earlier finalization has stored: its answer was lost, or it was killed.

    Raises BackupExists if the stored backup is another one.
    """
    name, notes = backup.metadata.name, backup.metadata.annotations
    stored = await store.read_backup(name)
    status, digest = stored.status, stored.metadata.annotations.get(ITEM_OPERATIONS)
    is_own = stored.metadata.uid == backup.metadata.uid and digest == notes.get(ITEM_OPERATIONS)
    if not is_own or status.phase not in phases.FINISHED:
        raise BackupExists(name)
    await store.discard_parked(name)
    status = msgspec.structs.replace(
        backup.status,
        phase=status.phase,
        errors=status.errors,
        warnings=status.warnings,
        completion_timestamp=status.completion_timestamp,
    )
    return msgspec.structs.replace(backup, status=status)


async def cut_backup_short(context: RunContext, backup: Backup) -> None:
    """Store a backup whose operations cannot be followed, as it was when it began to wait for them.

    Args:
        backup: with its terminal phase and the reason.

    Raises:
        StorageError: as `finalize_backup`; ObjectNotFound if nothing of it is parked.
    """
    try:
        with temporary_folder(context.workdir, "finalize-") as directory:
            await context.store.finish_backup(FinalFiles(), backup, directory)
    except OSError as error:
        problem = problem_text(context.workdir, error)
        raise StorageError(f"backup {backup.metadata.name!r} could not be stored: {problem}") from error


async def wait_for_backup(
    context: RunContext, backup: Backup, *, actions: Sequence[AnyBackupItemAction]
) -> Backup:
    """Wait until the operations of a backup have ended, and finalize it; others are returned as they are.

    Cancelled, it cancels the operations and finalizes the backup as it is.

    Raises:
        StorageError, OperationsChanged: the location cannot be used, or was changed meanwhile.
    """
    builtin = [action for action in actions if isinstance(action, BackupItemActionV2)]
    following = Following(
        store=context.store, plugins=context.plugins, clock=context.clock, builtin_backup_actions=builtin
    )

    async def give_up() -> None:
        cancelled = await following.backup(backup, cancel="the command was interrupted")
        await finalize_backup(context, cancelled, actions=actions)

    try:
        while backup.status.phase in phases.WAITING:
            backup = await following.backup(backup)
            if backup.status.phase in phases.WAITING:
                status = backup.status
                ended = status.backup_item_operations_completed + status.backup_item_operations_failed
                with _shown(context, _operations(ended, status.backup_item_operations_attempted)):
                    await context.clock.sleep(POLL_SECONDS)
        if backup.status.phase in phases.FINALIZING:
            backup = await finalize_backup(context, backup, actions=actions)
    except BaseException:  # cancellation: what plugins have started must not be left behind; passed on
        if backup.status.phase in phases.UNFINISHED:
            await finish(give_up(), limit_seconds=_CANCEL_SECONDS)
        raise
    return backup


async def wait_for_restore(context: RunContext, restore: Restore) -> Restore:
    """As `wait_for_backup`, for a restore."""
    following = Following(store=context.store, plugins=context.plugins, clock=context.clock)
    try:
        while restore.status.phase in phases.WAITING:
            restore = await following.restore(restore)
            if restore.status.phase in phases.WAITING:
                status = restore.status
                ended = status.restore_item_operations_completed + status.restore_item_operations_failed
                with _shown(context, _operations(ended, status.restore_item_operations_attempted)):
                    await context.clock.sleep(POLL_SECONDS)
    except BaseException:  # as above
        stopping = following.restore(restore, cancel="the command was interrupted")
        await finish(stopping, limit_seconds=_CANCEL_SECONDS)
        raise
    while restore.status.phase in phases.FINALIZING:
        finalized = await finalize_restore(context.client, context.store, restore, context.clock.now())
        if finalized.status.phase in phases.FINALIZING:
            with _shown(context, "restored volumes to be bound"):
                await context.clock.sleep(FINALIZE_POLL_SECONDS)
        else:
            await log_outcomes(context, restore)
        restore = finalized
    return restore


@contextmanager
def _shown(context: RunContext, what: str) -> Iterator[None]:
    """Say in the activity of the run what it waits for."""
    context.activity.waiting.append(what)
    try:
        yield
    finally:
        context.activity.waiting.remove(what)


def _operations(ended: int, begun: int) -> str:
    return f"{begun - ended} of {counted(begun, 'operation')} of plugins"


def _by_name(actions: Sequence[_NamedT]) -> dict[str, _NamedT]:
    return {action.name: action for action in actions}


def _limit(asked: Duration | None, default: Duration) -> timedelta:
    return (asked or default).to_timedelta()


def _ended(backup: Backup, more_errors: int, more_warnings: int, now: datetime) -> Backup:
    errors = backup.status.errors + more_errors
    status = msgspec.structs.replace(
        backup.status,
        phase=phases.ended(errors),
        errors=errors,
        warnings=backup.status.warnings + more_warnings,
        completion_timestamp=now,
    )
    return msgspec.structs.replace(backup, status=status)


async def _updated(
    context: RunContext,
    backup: Backup,
    actions: Sequence[AnyBackupItemAction],
    operations: Sequence[ItemOperation],
) -> UpdatedItems:
    wanted = [item for operation in operations for item in operation.post_items]
    if not wanted:
        return UpdatedItems()
    log = ProcessLog()
    context.plugins.log_to(log)
    try:
        table = await BackupActions.load(actions, context.discovery.canonical)
    except FatalBackupError as error:
        return UpdatedItems(errors=[str(error)])
    finalizer = Finalizer(
        client=context.client, discovery=context.discovery, actions=table, backup=backup, log=log
    )
    return await finalizer.update(wanted)


async def _rewritten(context: RunContext, name: str, updated: UpdatedItems, directory: Path) -> Path | None:
    if not updated.files:
        return None
    source, target = directory / "stored.tar.gz", directory / "contents.tar.gz"
    await context.store.download_contents(name, source)
    index = directory / _INDEX
    await rewrite_archive(source, target, updated.files, clock=context.clock, index=index)
    return target


async def _resource_list(store: BackupStore, name: str, updated: UpdatedItems) -> dict[str, list[str]] | None:
    if not updated.listed:
        return None
    listed = await store.read_resource_list(name)
    for kind, keys in updated.listed.items():
        listed[kind] = sorted({*listed.get(kind, ()), *keys})
    return listed


async def _volume_infos(
    store: BackupStore, name: str, operations: Sequence[ItemOperation], updated: UpdatedItems
) -> Sequence[BackupVolumeInfo] | None:
    """The records of volumes with what became of moved data; None if they stay as they are."""
    try:
        before = await store.read_volume_infos(name)
    except UnreadableObject as error:
        _logger.warning("The records of the volumes of a backup stay as they are: %s", error)
        return None
    after = with_outcomes(before, operations, updated.objects)
    return after if after != before else None


async def _results(
    store: BackupStore, name: str, errors: Sequence[str], warnings: Sequence[str]
) -> dict[str, object] | None:
    """The results file with these besides; None if nothing is to be added, or if the backup has none."""
    results = await store.read_backup_results(name) if errors or warnings else None
    if results is None:
        return None
    return {
        **results,
        "errors": _with_texts(results.get("errors"), errors),
        "warnings": _with_texts(results.get("warnings"), warnings),
    }


def _with_texts(result: object, texts: Sequence[str]) -> dict[str, object]:
    """The messages of one severity with these of the run as a whole, each once."""
    former = result if isinstance(result, dict) else {}
    if not texts:
        return former
    before = former.get("velero")
    return {**former, "velero": list(dict.fromkeys([*(before if isinstance(before, list) else ()), *texts]))}


async def _advanced(
    operators: Operators[_AboutT],
    operations: Sequence[ItemOperation],
    now: datetime,
    limit: timedelta,
    cancel: str,
) -> list[ItemOperation]:
    if cancel:
        return await operators.cancelled(operations, cancel)
    return await operators.advanced(operations, now, limit)
