"""The controller that keeps BackupRepositories usable: removes stale locks, and maintains what is due.

Maintenance runs in the server, or, where a ConfigMap with settings is named, in a Job (`repository_jobs`).
(docs/spec: CTL 11, BEY 6.3)
"""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from pinnace.api import labels
from pinnace.api.codec import DecodeError
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import later
from pinnace.api.velero.backup_repository import (
    KOPIA_REPOSITORY,
    BackupRepository,
    BackupRepositoryPhase,
    MaintenanceResult,
    RepositoryMaintenance,
)
from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationAccessMode
from pinnace.controllers.backup_repository import (
    LONGEST_MESSAGE,
    UNUSABLE,
    RepositoryOperations,
    RepositoryStore,
    controller_of,
    is_ready,
    readable,
    unlock,
)
from pinnace.controllers.repository_jobs import Maintained, MaintenanceJobs
from pinnace.controllers.shared.clocks import clock_doubt
from pinnace.controllers.shared.parts import MAINTENANCE_AT_ONCE, Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import BACKUP_REPOSITORIES
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.durable import take_step
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.storage.errors import StorageError
from pinnace.volumes.repositories import effective_frequency, repository_place
from pinnace.volumes.restic.identifiers import needs_region, repository_identifier
from pinnace.volumes.uploader.errors import RepositoryMissing, UploaderError
from pinnace.volumes.uploader.locks import RepositoryLocks

log = get_logger(__name__)

NAME: Final = "restic-repo-maintenance"
RETRY: Final = timedelta(days=1)
"""When a failed prune is tried again, if that is earlier than the next one is due."""

_RECENT: Final = 25
"""Maintenances that the status keeps, as Velero after 1.18 does. (docs/spec: AFT 7.7)"""


class MaintenanceReconciler:
    """Removes stale locks from Ready repositories, and maintains those that are due.

    Args:
        jobs: runs maintenance in Jobs; None for the server itself.
    """

    def __init__(
        self,
        scope: Scope,
        operations: RepositoryOperations,
        locks: RepositoryLocks,
        *,
        jobs: MaintenanceJobs | None = None,
    ) -> None:
        self._scope = scope
        self._jobs = jobs
        self._store = RepositoryStore(scope)
        self._operations = operations
        self._locks = locks

    async def reconcile(self, key: Key) -> Result:
        """One pass over one repository; one that is not Ready is left alone."""
        with bound_fields(backupRepository=str(key)):
            return await take_step(self._scope.client, BACKUP_REPOSITORIES, key, self._step, gone=self._gone)

    def _gone(self, key: Key) -> None:
        self._scope.metrics.repository_gone(key.name)

    async def _step(self, obj: JSONObject) -> Result:
        repository = readable(obj)
        if repository is None:
            self._gone(Key.of(obj))
        elif repository.status.phase == BackupRepositoryPhase.READY:
            await self._maintain(repository, self._scope.clock.now())
        return DONE

    async def _maintain(self, repository: BackupRepository, now: datetime) -> None:
        name, place = repository.metadata.name, repository_place(repository)
        try:
            location = await self._store.location(repository)
        except NotFound:
            return  # the other controller deletes the object
        except DecodeError as error:
            log.warning("The location of a repository cannot be read", error=error)
            return
        if location.spec.access_mode == BackupStorageLocationAccessMode.READ_ONLY:
            return
        _warn_if_moved(repository, location)
        try:
            async with self._locks.shared(name):
                await unlock(self._operations, place)
        except UNUSABLE as error:
            await self._not_ready(repository, error)
            return
        if not is_due(repository, now):
            return
        if doubt := clock_doubt(self._scope.client):
            # It deletes what is old enough, such as what an upload that runs has stored so far.
            log.warning("The repository is not maintained for now", reason=doubt)
            return
        try:
            async with self._locks.exclusive(name):
                done = await self._maintained(repository)
        except UNUSABLE as error:
            await self._not_ready(repository, error)
            return
        message = done.problem[:LONGEST_MESSAGE]
        if message:
            log.warning("Error maintaining the repository", error=message)
        seconds = (done.ended - done.began).total_seconds()
        self._scope.metrics.repository_maintained(name, max(0.0, seconds), succeeded=not message)
        status = msgspec.structs.replace(
            repository.status,
            message=message,
            phase=BackupRepositoryPhase.NOT_READY if done.cannot_open else BackupRepositoryPhase.READY,
            last_maintenance_time=done.began,
            recent_maintenance=_recent(repository, done, message),
        )
        await self._store.write(repository, msgspec.structs.replace(repository, status=status))
        if self._jobs is not None:
            await self._jobs.remove_old(repository)

    async def _maintained(self, repository: BackupRepository) -> Maintained:
        """The result of a maintenance, in a Job or here.

        Raises:
            RepositoryMissing, RepositoryUnusable, WrongPassword: the repository cannot be opened.
        """
        if self._jobs is not None and (done := await self._jobs.run(repository)) is not None:
            return done
        log.info("Maintaining the repository")
        began, problem = self._scope.clock.now(), ""
        try:
            await self._operations.maintain(repository_place(repository))
        except UNUSABLE:
            raise
        except UploaderError as error:
            problem = str(error)
        return Maintained(began=began, ended=self._scope.clock.now(), problem=problem)

    async def _not_ready(self, repository: BackupRepository, error: UploaderError) -> None:
        """Say that a repository cannot be opened any more; the other controller tries it again."""
        log.warning("Repository is not ready any more", error=error)
        metadata, status = repository.metadata, repository.status
        annotations = dict(metadata.annotations)
        if isinstance(error, RepositoryMissing):
            annotations.pop(labels.INITIALIZE_REPOSITORY, None)
        message = str(error)[:LONGEST_MESSAGE]
        after = msgspec.structs.replace(
            repository,
            metadata=msgspec.structs.replace(metadata, annotations=annotations),
            status=msgspec.structs.replace(status, phase=BackupRepositoryPhase.NOT_READY, message=message),
        )
        await self._store.replace(repository, after)


def is_due(repository: BackupRepository, now: datetime) -> bool:
    """Whether a repository is due for pruning: after its period, after a failure a day later at most.

    A last time in the future is nobody's: it must not end all maintenance.
    """
    last = repository.status.last_maintenance_time
    if last is None:
        return True
    spec = repository.spec
    period = effective_frequency(spec.maintenance_frequency, spec.repository_type).to_timedelta()
    if repository.status.message:
        period = min(period, RETRY)
    return later(last, period) < now or last > later(now, period)


def _recent(repository: BackupRepository, done: Maintained, message: str) -> list[RepositoryMaintenance]:
    """The last maintenances with this one. (docs/spec: BEY 6.3)"""
    result = MaintenanceResult.FAILED if message else MaintenanceResult.SUCCEEDED
    made = RepositoryMaintenance(
        result=result, start_timestamp=done.began, complete_timestamp=done.ended, message=message
    )
    return [*repository.status.recent_maintenance, made][-_RECENT:]


def _warn_if_moved(repository: BackupRepository, location: BackupStorageLocation) -> None:
    """Warn if the location has changed: the identifier is kept, so that volumes go to the former place."""
    if repository.spec.repository_type == KOPIA_REPOSITORY:
        return  # it always is where the location is
    if needs_region(location):
        return  # whether its host has changed takes a question to AWS
    try:
        identifier = repository_identifier(location, repository.spec.volume_namespace)
    except (UploaderError, StorageError):
        return
    if identifier != repository.spec.restic_identifier:
        log.warning(
            "The location has changed since the repository was made, which stays where it is",
            identifier=repository.spec.restic_identifier,
            now=identifier,
        )


def controller(parts: Parts) -> Controller:
    """The controller of a server that unlocks and maintains repositories."""
    name = parts.options.maintenance_config_map
    jobs = MaintenanceJobs(parts.scope, name) if name else None
    reconciler = MaintenanceReconciler(parts.scope, parts.uploaders, parts.locks, jobs=jobs)
    return controller_of(parts, NAME, reconciler.reconcile, MAINTENANCE_AT_ONCE, is_ready)
