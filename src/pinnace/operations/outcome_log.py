"""Adds to the stored log of a backup or restore what became of its item operations.

A log is stored when its run ends, and operations such as the moving of data end later. The log is compressed
again with the lines that are added: some readers of gzip files silently stop at the end of the first member.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pinnace.aio.blocking import in_thread
from pinnace.aio.temporary import temporary_folder
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.velero.restore import Restore
from pinnace.archive.deflate import inflate, new_compressor
from pinnace.archive.errors import ArchiveError
from pinnace.archive.runlog import RunLog
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.operations.finalizing_restores import OperationsChanged, verified_operations
from pinnace.plugins.item_operations import ItemOperation
from pinnace.runs.context import RunContext
from pinnace.storage.errors import ObjectNotFound, StorageError
from pinnace.storage.interface import save_stream

_MOST_BYTES: Final = 4 << 30
"""A log may be hostile input: ten times as large as one that names a million objects."""

_logger = logging.getLogger(__name__)


async def continued_log(
    context: RunContext,
    about: Backup | Restore,
    operations: Sequence[ItemOperation],
    folder: Path,
    *,
    warnings: Sequence[str] = (),
) -> Path | None:
    """The log with a line for each operation, as a file in the folder; None if there is nothing to add.

    A finalization that is repeated adds the lines again. A log that cannot be read, or is too large to be
    one, is left as it is.

    Args:
        warnings: what the operations found; a line each after theirs.

    Raises:
        OSError: the folder cannot be written.
    """
    if not operations:
        return None
    name, kind = about.metadata.name, _kind_of(about)
    path, added, joined = (folder / f"{each}.gz" for each in ("log", "outcomes", "joined"))
    try:
        async with context.store.read_bytes(kind, name) as stream:
            await save_stream(stream, path)
    except ObjectNotFound:
        await in_thread(_write, context, about, operations, warnings, added)
        return added
    except StorageError as error:
        _logger.warning("The log of %s does not get the outcomes of its operations: %s", name, error)
        return None
    await in_thread(_write, context, about, operations, warnings, added)
    try:
        await in_thread(_join, path, added, joined)
    except ArchiveError as error:
        _logger.warning("The log of %s does not get the outcomes of its operations: %s", name, error)
        return None
    return joined


async def log_outcomes(context: RunContext, restore: Restore) -> None:
    """Add the outcomes of a restore's operations to its log.

    A location that cannot be read or written any more does not keep a restore from ending.
    """
    name, store = restore.metadata.name, context.store
    try:
        operations = verified_operations(restore, await store.read_restore_item_operations(name))
        with temporary_folder(context.workdir, "finalize-") as directory:
            log = await continued_log(context, restore, operations, directory)
            if log is not None:
                await store.put_restore_log(name, log)
    except (OSError, StorageError, OperationsChanged) as error:
        _logger.warning("The log of restore %s does not get the outcomes of its operations: %s", name, error)


def _kind_of(about: Backup | Restore) -> str:
    return DownloadTargetKind.BACKUP_LOG if isinstance(about, Backup) else DownloadTargetKind.RESTORE_LOG


def _write(
    context: RunContext,
    about: Backup | Restore,
    operations: Sequence[ItemOperation],
    warnings: Sequence[str],
    path: Path,
) -> None:
    metadata, options = about.metadata, context.log
    noun = "backup" if isinstance(about, Backup) else "restore"
    fields = {noun: f"{metadata.namespace}/{metadata.name}"}
    with RunLog(
        path, fields=fields, level=options.level, fmt=options.fmt, echo=options.echo, clock=context.clock
    ) as log:
        if options.hide is not None:
            log.hide_in_file(options.hide)
        for operation in operations:
            _write_outcome(log, operation)
        for warning in warnings:
            log.warning(Notice(Code.OPERATION_FAILED, warning))


def _write_outcome(log: RunLog, operation: ItemOperation) -> None:
    item = operation.item
    log = log.child(
        operation=operation.operation_id,
        resource=item.group_resource,
        namespace=item.namespace,
        name=item.name,
    )
    if operation.post_items:
        made = (f"{each.group_resource} {each.namespace}/{each.name}" for each in operation.post_items)
        log = log.child(followedBy=", ".join(made))
    if operation.error:
        log.error(Notice(Code.OPERATION_FAILED, f"Item operation {operation.phase}"), error=operation.error)
    else:
        done, units = operation.progress.done, operation.progress.units
        log.info(f"Item operation {operation.phase}", progress=f"{done} {units}".strip())


def _join(path: Path, added: Path, joined: Path) -> None:
    """Write one log after the other. Raises OSError, and ArchiveError if a log is damaged or too large."""
    compressor, size_bytes = new_compressor(), 0
    with joined.open("xb") as target:
        for each in (path, added):
            with each.open("rb") as source:
                for chunk in inflate(source):
                    size_bytes += len(chunk)
                    if size_bytes > _MOST_BYTES:
                        raise ArchiveError(f"it has more than {_MOST_BYTES} bytes")
                    target.write(compressor.compress(chunk))
        target.write(compressor.flush())
