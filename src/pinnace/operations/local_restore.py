"""Restores without a server: a cluster and a location in, a finished Restore out.

The command line (`pinnace --location`) and the Python API call this. Nothing is printed here: what happens is
told to `LocalRun.observer`.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.aio.gc_thresholds import raised_gc_thresholds
from pinnace.api import labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.labels import RESUMED
from pinnace.api.phases import RestorePhase
from pinnace.api.resource_policies import PolicyError
from pinnace.api.resuming import resumed, with_one_source
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.api.values.shell_words import argument
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.catalogue.reading import read_pod_volumes
from pinnace.operations.local import InvalidRun, LocalRun, NameTaken, check_metadata
from pinnace.operations.modifiers import modifiers_of
from pinnace.operations.policies import filters_of_restore
from pinnace.operations.restore import RestoreOperation
from pinnace.operations.waiting import wait_for_restore
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.registry import ActionRegistry
from pinnace.restore.errors import BackupLookupError
from pinnace.restore.journal import begun_restore
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import ModifierError
from pinnace.restore.request import RestoreRequest, RestoreSettings
from pinnace.restore.selection.validation import validate_and_complete
from pinnace.storage.backup_files import encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import NameInUse, ObjectNotFound, StorageError, UnreadableObject
from pinnace.storage.location_url import location_title
from pinnace.storage.writer_claim import WriterClaim


async def make_restore(
    run: LocalRun,
    restore: Restore,
    *,
    modifiers: ResourceModifiers | None = None,
    other_names: Iterable[str] = (),
) -> tuple[Restore, bool]:
    """Restore from a backup; return the finished Restore, and whether it was recorded in the location.

    The name is claimed in the location first, so that of two restores of one name at once one is refused.

    Args:
        modifiers: instead of those that the Restore names.
        other_names: the names to try if the restore's own is taken, where nobody chose it.

    Raises:
        InvalidRun: it cannot be made as asked; NameTaken if there is one of that name. Nothing was done.
        KubeError, StorageError: the cluster or the location could not be used; nothing was done.
        ClaimLost: this process stood still, and another one took the name over; the restore was cancelled.
    """
    check_metadata(restore)
    names = [restore.metadata.name, *other_names]
    for name in names:
        renamed = msgspec.structs.replace(
            restore, metadata=msgspec.structs.replace(restore.metadata, name=name)
        )
        try:
            async with _claimed(run, name, is_chosen=len(names) == 1) as claim:
                await _begin_anew(run, name)
                work = _make_restore(run, renamed, modifiers, claim)
                return await (work if claim is None else claim.hold(work))
        except NameTaken:
            if name == names[-1]:
                raise
    raise AssertionError("the last name is used or refused")


async def _begin_anew(run: LocalRun, name: str) -> None:
    """Delete the journal of an interrupted restore of this name: a restore is made, and not resumed."""
    if await begun_restore(run.store, name) is not None:
        run.observer.warn(
            f"a restore named {name} was interrupted, and is begun from its start; `restore resume"
            f" {argument(name)}` would have continued it"
        )
        await run.store.delete_restore_journal(name, "")


async def resume_restore(run: LocalRun, name: str) -> tuple[Restore, bool]:
    """Continue a restore that was interrupted; returns what `make_restore` does.

    Raises:
        InvalidRun: there is no such restore, it has ended, it cannot be resumed, or another process is at
            it. Nothing was done.
        KubeError, StorageError, ClaimLost: as `make_restore`.
    """
    async with AsyncExitStack() as stack:
        try:
            claim = await stack.enter_async_context(run.store.claim_of_restore(name, takes_over=True))
        except NameInUse as error:
            raise InvalidRun(f"{error}; it cannot be resumed while it runs") from error
        interrupted = await _interrupted(run, name)
        return await claim.hold(_make_restore(run, interrupted, None, claim))
    raise AssertionError("the stack swallows no error")


async def _interrupted(run: LocalRun, name: str) -> Restore:
    """The Restore to continue, as its journal has it. Raises InvalidRun or StorageError."""
    try:
        ended = await run.store.read_restore(name)
    except ObjectNotFound:
        pass
    else:
        raise InvalidRun(
            f"the restore {name} has ended ({ended.status.phase}), so there is nothing to resume"
        )
    kept = await begun_restore(run.store, name)
    if kept is None:
        raise InvalidRun(await _why_not_resumable(run.store, name))
    try:
        restore = decode(Restore, kept)
    except DecodeError as error:
        raise InvalidRun(f"the journal of the restore {name} is damaged: {error}") from error
    if restore.metadata.name != name:
        raise InvalidRun(f"the journal of the restore {name} is that of another: {restore.metadata.name}")
    check_metadata(restore)
    return resumed(restore, restore, 0)


async def _why_not_resumable(store: BackupStore, name: str) -> str:
    if not await store.has_restore(name):
        near = did_you_mean(near_names(name, await store.list_restores()))
        return f"there is no restore named {name} in the location{near}"
    return (
        f"the location has no journal of the restore {name}: it ended, or a server made it, which resumes it"
        f" by `restore resume {argument(name)}` without --location"
    )


@asynccontextmanager
async def _claimed(run: LocalRun, name: str, *, is_chosen: bool) -> AsyncIterator[WriterClaim | None]:
    """Claim a name that is free; yields None where the location refuses the claim. Raises NameTaken."""
    if await run.store.has_restore(name):
        raise NameTaken(await _why_taken(run.store, name))
    async with AsyncExitStack() as stack:
        claim = None
        try:
            claim = await stack.enter_async_context(run.store.claim_of_restore(name, takes_over=is_chosen))
        except NameInUse as error:
            raise NameTaken(str(error)) from error
        except StorageError as error:
            title = location_title(run.location)
            run.observer.warn(
                f"the name of the restore could not be claimed in {title}: {error}; another restore of this"
                f" name, {name}, at the same time would not be noticed"
            )
        # Another process may have finished one between the first look and the claim.
        if claim is not None and await run.store.has_restore(name):
            raise NameTaken(await _why_taken(run.store, name))
        yield claim


async def _make_restore(
    run: LocalRun, restore: Restore, modifiers: ResourceModifiers | None, claim: WriterClaim | None
) -> tuple[Restore, bool]:
    with raised_gc_thresholds():
        asked = with_one_source(restore) if RESUMED in restore.metadata.annotations else restore
        completed = await validate_and_complete(asked, StoredBackups(run.store))
        backup = completed.backup
        if completed.errors or backup is None:
            raise InvalidRun("the restore is not valid:\n  " + "\n  ".join(completed.errors))
        await run.store.require_key(backup)
        try:
            if modifiers is None:
                modifiers = (await modifiers_of(run.client, run.namespace, completed.restore.spec)).modifiers
            policies = await filters_of_restore(run.client, run.namespace, completed.restore.spec)
        except (ModifierError, PolicyError) as error:
            raise InvalidRun(f"the restore is not valid:\n  {error}") from error
        discovery = await run.discover()
        begun = _begun(completed.restore)
        builtin = restore_actions(run.client, discovery, run.namespace)
        ids = ActionRegistry(builtin_restore_actions=builtin).ids
        run.observer.started(begun)
        async with run.open(discovery, builtin=ids) as context:
            operation = RestoreOperation(
                context=msgspec.structs.replace(context, caveats=completed.warnings),
                saved_pod_volumes=partial(read_pod_volumes, run.store, backup.metadata.name),
                options=RestoreSettings(features=run.features),
            )
            request = RestoreRequest(restore=begun, backup=backup, modifiers=modifiers, policies=policies)
            finished = await operation.run(request)
            finished = await wait_for_restore(context, finished)
        if claim is not None:
            await claim.check()
        is_recorded = await _record(run, finished)
        if is_recorded:
            await _forget_journal(run, finished.metadata.name)
        return finished, is_recorded


async def _forget_journal(run: LocalRun, name: str) -> None:
    """Delete the journal of a restore that has ended; what stays is deleted with the restore."""
    try:
        await run.store.delete_restore_journal(name, "")
    except StorageError as error:
        run.observer.warn(f"the journal of the restore stays in {location_title(run.location)}: {error}")


async def _why_taken(store: BackupStore, name: str) -> str:
    """Why a restore may not have a name that is in the location already. Raises StorageError."""
    try:
        await store.read_restore(name)
    except ObjectNotFound:
        return (
            f"the location has files of a restore named {name} without its record: it was killed, is still"
            f" running elsewhere, or a server made it; choose another name, or delete these files with"
            f" `restore delete {argument(name)}`"
        )
    except UnreadableObject as error:
        return f"a restore named {name} is in the location already, and its record is damaged: {error}"
    return f"a restore named {name} is in the location already; choose another name or delete it"


class StoredBackups:
    """Finds the backups of a restore in the location itself."""

    def __init__(self, store: BackupStore) -> None:
        self._store = store

    async def backups_of_schedule(self, schedule: str) -> Sequence[Backup]:
        """All readable backups labelled with the schedule's name. Raises BackupLookupError."""
        found = []
        for name in await self._names():
            try:
                backup = await self._store.read_backup(name)
            except (ObjectNotFound, UnreadableObject):
                continue  # what cannot be read cannot be restored from
            except StorageError as error:
                raise BackupLookupError(str(error)) from error
            if backup.metadata.labels.get(labels.SCHEDULE_NAME) == labels.label_value(schedule):
                backup.metadata.name = name
                found.append(backup)
        return found

    async def _names(self) -> Sequence[str]:
        """The names of all backups. Raises BackupLookupError."""
        try:
            return await self._store.list_backups()
        except StorageError as error:
            raise BackupLookupError(str(error)) from error

    async def backup(self, name: str) -> Backup:
        """The backup. Raises BackupLookupError."""
        try:
            backup = await self._store.read_backup(name)
        except ObjectNotFound as error:
            near = did_you_mean(near_names(name, await self._names()))
            raise BackupLookupError(f'backup.velero.io "{name}" not found{near}') from error
        except StorageError as error:
            raise BackupLookupError(str(error)) from error
        backup.metadata.name = name  # of the directory, whatever the file claims
        return backup


def _begun(restore: Restore) -> Restore:
    if RESUMED in restore.metadata.annotations:
        return restore
    now = SYSTEM_CLOCK.now()
    return msgspec.structs.replace(
        restore,
        metadata=msgspec.structs.replace(restore.metadata, creation_timestamp=now),
        status=msgspec.structs.replace(restore.status, phase=RestorePhase.IN_PROGRESS, start_timestamp=now),
    )


async def _record(run: LocalRun, restore: Restore) -> bool:
    """Keep the Restore object in the location; a failure to keep it does not undo the restore."""
    try:
        await run.store.put_restore_metadata(restore.metadata.name, encode_metadata(restore))
    except StorageError as error:
        title = location_title(run.location)
        run.observer.warn(f"the restore could not be recorded in {title}: {error}")
        return False
    return True
