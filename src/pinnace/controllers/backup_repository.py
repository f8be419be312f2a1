"""The controller of BackupRepositories: makes them, and forgets them with their location. (docs/spec: CTL 11)

    New ──connect, or init──> Ready <──> unlock, maintain when due ──cannot be opened any more──> NotReady
             └──> NotReady ──each pass: unlock, connect or init──> Ready

A repository that is not in its location is made there only if a backup has asked for it by the annotation
`pinnace.io/initialize`; a restore or deletion makes nothing in a bucket (ADR 020), and nothing is made over
other data (KOP-005). One that was Ready and is gone loses the annotation, so that only a new backup makes it
again. The object of a repository whose location is deleted is deleted at once; one whose location was created
again or moved begins again (`repository_places`). The data stays.

What is Ready is maintained by `repository_maintenance`, in a queue of its own, so that a new repository does
not wait for a prune.
"""

from typing import Final, Protocol

import msgspec

from pinnace.api import labels
from pinnace.api.codec import DecodeError, decode, encode, merge_patch
from pinnace.api.objects import JSONObject, text
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup_repository import KOPIA_REPOSITORY, BackupRepository, BackupRepositoryPhase
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.repository_presence import RepositoryPresence
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import delete_if_there
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    BACKUP_REPOSITORIES,
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    DATA_UPLOADS,
    POD_VOLUME_BACKUPS,
)
from pinnace.operations.deletion import summary
from pinnace.runtime.cache import Cache
from pinnace.runtime.controller import DONE, Controller, Predicate, Reconcile, Result, Resync
from pinnace.runtime.durable import take_step
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.storage.errors import StorageError
from pinnace.volumes.kopia.places import storage_of
from pinnace.volumes.repositories import (
    DEFAULT_FREQUENCY,
    effective_frequency,
    lost_data_text,
    repository_place,
    repository_type,
)
from pinnace.volumes.repository_places import backups_in, is_new, noted_place, place_of, placed
from pinnace.volumes.restic.identifiers import find_region, needs_region, repository_identifier
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import (
    RepositoryMissing,
    RepositoryUnusable,
    UploaderError,
    WrongPassword,
)
from pinnace.volumes.uploader.locks import RepositoryLocks
from pinnace.volumes.uploaders import UPLOADERS

log = get_logger(__name__)

NAME: Final = "restic-repo"
PERIOD_SECONDS: Final = 300.0
WORKERS: Final = 4
"""More than one, so that a store that does not answer delays no other."""

DAMAGED: Final = (
    "there is no repository, but there is data in its place: it is damaged, and nothing is made over it;"
    " bring back its config and keys, or move the data away"
)

UNUSABLE: Final = (RepositoryMissing, RepositoryUnusable, WrongPassword)
LONGEST_MESSAGE: Final = 4000


class RepositoryOperations(Protocol):
    """The operations of the controller on a repository. They raise UploaderError."""

    async def connect(self, repository: Repository) -> None: ...

    async def init(self, repository: Repository) -> None: ...

    async def unlock(self, repository: Repository) -> None: ...

    async def maintain(self, repository: Repository) -> None: ...


class FindRegion(Protocol):
    """Finds the region of a location's bucket; empty if it cannot be told."""

    async def __call__(self, location: BackupStorageLocation, /) -> str: ...


def is_ready(obj: JSONObject) -> bool:
    """Whether a repository is Ready, so that the maintenance controller processes it."""
    return (obj.get("status") or {}).get("phase") == BackupRepositoryPhase.READY


def is_requested(obj: JSONObject) -> bool:
    """Whether a backup waits for a repository that is to be tried again."""
    phase = (obj.get("status") or {}).get("phase") or BackupRepositoryPhase.NEW
    noted = obj["metadata"].get("annotations") or {}
    is_known = repository_type(obj) in UPLOADERS
    return is_known and phase == BackupRepositoryPhase.NEW and labels.INITIALIZE_REPOSITORY in noted


def readable(obj: JSONObject) -> BackupRepository | None:
    """The repository; None if it cannot be read."""
    try:
        return decode(BackupRepository, obj)
    except DecodeError as error:
        log.warning("BackupRepository cannot be read", error=error)
        return None


class RepositoryStore:
    """Reads repositories and their locations, and writes what changed."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def place(self, repository: BackupRepository) -> str:
        """The place that its location stands for now. Raises KubeError."""
        name = repository.spec.backup_storage_location
        return place_of(await self._scope.client.get(BACKUP_STORAGE_LOCATIONS, name, self._scope.namespace))

    async def lost_backups(self, repository: BackupRepository) -> str:
        """The backups whose volumes were in a repository that is not there; empty if none is known."""
        client, namespace = self._scope.client, self._scope.namespace
        pod_volume_backups = await client.list_all(POD_VOLUME_BACKUPS, namespace)
        data_uploads = await client.list_all(DATA_UPLOADS, namespace)
        # The objects of a deleted backup go a little later than the backup.
        there = {backup["metadata"]["name"] for backup in await client.list_all(BACKUPS, namespace)}
        found = backups_in(repository, pod_volume_backups, data_uploads)
        return summary([name for name in found if name in there])

    async def forget_orphan(self, repository: BackupRepository) -> bool:
        """Delete the object of a repository if its location is gone; return whether it is. (BEY 6.3)"""
        try:
            await self._scope.client.get(
                BACKUP_STORAGE_LOCATIONS, repository.spec.backup_storage_location, self._scope.namespace
            )
        except NotFound:
            metadata = repository.metadata
            key = Key(metadata.namespace, metadata.name)
            log.info(
                "The location of a repository is deleted: so is the object of the repository, not its data",
                location=repository.spec.backup_storage_location,
            )
            await delete_if_there(self._scope.client, BACKUP_REPOSITORIES, key, uid=metadata.uid)
            return True
        return False

    async def location(self, repository: BackupRepository) -> BackupStorageLocation:
        """Its location. Raises KubeError, DecodeError."""
        name, resource = repository.spec.backup_storage_location, BACKUP_STORAGE_LOCATIONS
        return decode(
            BackupStorageLocation, await self._scope.client.get(resource, name, self._scope.namespace)
        )

    async def write(self, before: BackupRepository, after: BackupRepository) -> BackupRepository:
        """Patch the difference, if there is one; return the object as stored."""
        return await self._patch(before, merge_patch(encode(before), encode(after)))

    async def replace(self, before: BackupRepository, after: BackupRepository) -> BackupRepository:
        """As `write`, unless the object has changed since it was read.

        A request of a backup for it must not be overwritten by what was found out before the request.

        Raises:
            Conflict: it has changed.
        """
        patch = merge_patch(encode(before), encode(after))
        if patch:
            patch.setdefault("metadata", {})["resourceVersion"] = before.metadata.resource_version
        return await self._patch(before, patch)

    async def _patch(self, before: BackupRepository, patch: JSONObject) -> BackupRepository:
        if not patch:
            return before
        name, namespace = before.metadata.name, before.metadata.namespace
        return decode(
            BackupRepository, await self._scope.client.patch(BACKUP_REPOSITORIES, name, patch, namespace)
        )


class RepositoryReconciler:
    """Makes repositories that are new, and tries those that are not ready."""

    def __init__(
        self,
        scope: Scope,
        presence: RepositoryPresence,
        operations: RepositoryOperations,
        locks: RepositoryLocks,
        *,
        frequency: Duration,
        find_region: FindRegion = find_region,
    ) -> None:
        self._scope = scope
        self._presence = presence
        self._store = RepositoryStore(scope)
        self._operations = operations
        self._locks = locks
        self._frequency = Duration() if frequency == DEFAULT_FREQUENCY else frequency
        self._find_region = find_region

    async def reconcile(self, key: Key) -> Result:
        """One pass over one repository; a Ready one in its place is left alone."""
        with bound_fields(backupRepository=str(key)):
            return await take_step(self._scope.client, BACKUP_REPOSITORIES, key, self._step)

    async def _step(self, obj: JSONObject) -> Result:
        repository = readable(obj)
        if repository is None:
            return DONE
        if repository.spec.repository_type not in ("", *UPLOADERS):
            known = " or ".join(sorted(UPLOADERS))
            problem = f"spec.repositoryType is {repository.spec.repository_type!r}: it can be {known}"
            await self._conclude(repository, problem)
            return DONE
        if not is_new(repository) and await self._store.forget_orphan(repository):
            return DONE
        problem = ""
        try:
            repository = await self._place(repository)
        except NotFound as error:
            problem = str(error)
        if repository.status.phase == BackupRepositoryPhase.READY:
            return DONE
        if repository.status.last_maintenance_time is None:
            # Never ready yet: its location may have been corrected since the identifier was made.
            repository, problem = await self._identify(repository)
        if not problem:
            repository, problem = await self._open(repository)
        await self._conclude(repository, problem)
        return DONE

    async def _place(self, repository: BackupRepository) -> BackupRepository:
        """Note the place of the repository; one that was in another place begins again. Raises NotFound."""
        place = await self._store.place(repository)
        noted = repository.metadata.annotations.get(labels.REPOSITORY_PLACE, "")
        if noted and noted != place:
            log.warning(
                "The location of a repository was created again or moved: the repository is looked for there",
                was=noted,
                now=place,
            )
        return await self._store.replace(repository, placed(repository, place))

    async def _identify(self, repository: BackupRepository) -> tuple[BackupRepository, str]:
        """Write identifier and frequency; return the object and the problem, if any. (docs/spec: CTL 11)"""
        spec, problem = repository.spec, ""
        frequency = spec.maintenance_frequency
        if frequency <= Duration():
            frequency = effective_frequency(self._frequency, spec.repository_type)
        identifier = spec.restic_identifier
        try:
            location = await self._store.location(repository)
            if spec.repository_type == KOPIA_REPOSITORY:
                storage_of(location, spec.volume_namespace)
            else:
                region = ""
                if needs_region(location):
                    region = await self._find_region(location)
                identifier = repository_identifier(location, spec.volume_namespace, bucket_region=region)
        except (NotFound, DecodeError, StorageError, UploaderError) as error:
            problem = str(error)
        changed = msgspec.structs.replace(spec, restic_identifier=identifier, maintenance_frequency=frequency)
        after = msgspec.structs.replace(repository, spec=changed)
        return await self._store.replace(repository, after), problem

    async def _open(self, repository: BackupRepository) -> tuple[BackupRepository, str]:
        """Connect to it, or make it; return the object and the problem, empty if there is none."""
        name, place = repository.metadata.name, repository_place(repository)
        try:
            async with self._locks.shared(name):
                if repository.status.phase == BackupRepositoryPhase.NOT_READY:
                    await unlock(self._operations, place)
                await self._operations.connect(place)
        except RepositoryMissing as error:
            if labels.INITIALIZE_REPOSITORY not in repository.metadata.annotations:
                return repository, f"there is no repository, and only a backup makes one: {error}"
            try:
                await self._check_location(repository)
                repository = await self._note_lost(repository)
                async with self._locks.exclusive(name):
                    await self._operations.init(place)
            except (UploaderError, StorageError, NotFound) as failure:
                return repository, str(failure)
            log.info("Made the repository", identifier=repository.spec.restic_identifier)
        except UploaderError as error:
            return repository, str(error)
        return repository, ""

    async def _note_lost(self, repository: BackupRepository) -> BackupRepository:
        """Say, also to the backup that asked, which backups lost their data with the former repository."""
        lost = await self._store.lost_backups(repository)
        if lost:
            log.warning(lost_data_text(repository, lost))
        annotations = dict(repository.metadata.annotations)
        annotations.pop(labels.LOST_BACKUPS, None)
        if lost:
            annotations[labels.LOST_BACKUPS] = lost
        metadata = msgspec.structs.replace(repository.metadata, annotations=annotations)
        return await self._store.replace(repository, msgspec.structs.replace(repository, metadata=metadata))

    async def _check_location(self, repository: BackupRepository) -> None:
        """The location must be there: `restic init` would make a missing bucket, or a folder below the place
        where a disk is not mounted (docs/adr/007), or a second repository over a damaged one.

        Raises:
            StorageError, KubeError: it is missing, or could not be looked up.
            UploaderError: there is other data where the repository would be.
        """
        location = await self._store.location(repository)
        is_restic = repository.spec.repository_type != KOPIA_REPOSITORY
        if is_restic and location.spec.config.get("resticRepoPrefix"):
            return  # the repository is somewhere else
        if await self._presence.has_data(repository_place(repository)):
            raise UploaderError(DAMAGED)

    async def _conclude(self, repository: BackupRepository, problem: str) -> None:
        if problem:
            if problem[:LONGEST_MESSAGE] != repository.status.message:
                log.warning("Repository is not ready", error=problem)
            phase, maintained = BackupRepositoryPhase.NOT_READY, repository.status.last_maintenance_time
        else:
            log.info("The repository is ready")
            phase = BackupRepositoryPhase.READY
            maintained = repository.status.last_maintenance_time or self._scope.clock.now()
        status = msgspec.structs.replace(
            repository.status,
            phase=phase,
            message=problem[:LONGEST_MESSAGE],
            last_maintenance_time=maintained,
        )
        await self._store.replace(repository, msgspec.structs.replace(repository, status=status))


async def unlock(operations: RepositoryOperations, place: Repository) -> None:
    """Remove stale locks; a failure is no reason not to go on, unless the repository cannot be opened.

    Raises:
        RepositoryMissing, RepositoryUnusable, WrongPassword: it cannot.
    """
    try:
        await operations.unlock(place)
    except UNUSABLE:
        raise
    except UploaderError as error:
        log.warning("Error removing stale locks from the repository", error=error)


def controller(parts: Parts) -> Controller:
    """The controller of a server that makes repositories."""
    reconciler = RepositoryReconciler(
        parts.scope,
        parts.presence,
        parts.uploaders,
        parts.locks,
        frequency=parts.options.maintenance_frequency,
    )
    repositories, locations = (
        parts.informers.of(BACKUP_REPOSITORIES),
        parts.informers.of(BACKUP_STORAGE_LOCATIONS),
    )

    def concerns(obj: JSONObject) -> bool:
        return not is_ready(obj) or is_displaced(obj, locations)

    def displaced_in(location: JSONObject) -> list[Key]:
        name = location["metadata"]["name"]
        of_location = (
            obj for obj in repositories.objects() if text(obj, "spec", "backupStorageLocation") == name
        )
        return [
            Key.of(obj)
            for obj in of_location
            if repository_type(obj) in UPLOADERS and is_displaced(obj, locations)
        ]

    made = controller_of(parts, NAME, reconciler.reconcile, WORKERS, concerns)
    made.watch(repositories, predicate=is_requested, on_add=False)
    made.watch(locations, keys=displaced_in, on_delete=True)
    return made


def is_displaced(repository: JSONObject, locations: Cache) -> bool:
    """Whether a repository is not noted to be where its location is now, by the cache of the locations."""
    name = text(repository, "spec", "backupStorageLocation")
    location = locations.get(Key(text(repository, "metadata", "namespace"), name))
    return location is None or noted_place(repository) != place_of(location)


def _is_for_us(repository: JSONObject) -> bool:
    """Whether a repository is of a known type; one of another is looked at once, to say so."""
    return repository_type(repository) in UPLOADERS or not text(repository, "status", "phase")


def controller_of(
    parts: Parts, name: str, reconcile: Reconcile, workers: int, concerns: Predicate
) -> Controller:
    """A controller of the repositories that fulfil a predicate."""
    informer = parts.informers.of(BACKUP_REPOSITORIES)
    queue = parts.queue(parts.lanes.of_repositories(informer, workers))

    async def enqueue_all() -> None:
        for obj in informer.objects():
            if _is_for_us(obj) and concerns(obj):
                queue.add(Key.of(obj))

    made = Controller(
        name,
        reconcile,
        workers=workers,
        resync=Resync(enqueue_all, PERIOD_SECONDS),
        clock=parts.scope.clock,
        queue=queue,
    )
    # New ones at once; changes by the patches of this server wait for the next pass.
    made.watch(
        informer,
        predicate=lambda obj: _is_for_us(obj) and concerns(obj),
        on_update=False,
    )
    return made
