"""The BackupRepository of a namespace in a location: found by labels, made on demand. (docs/spec: PVL 8)"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api import API_VERSION, labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject, mapping
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup_repository import (
    KOPIA_REPOSITORY,
    RESTIC_REPOSITORY,
    BackupRepository,
    BackupRepositoryPhase,
)
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import BACKUP_REPOSITORIES, CONFIGMAPS
from pinnace.volumes.creating import create_generated
from pinnace.volumes.repository_config import settings_of
from pinnace.volumes.repository_places import is_new
from pinnace.volumes.uploader.access import Repository

log = logging.getLogger(__name__)

DEFAULT_FREQUENCY: Final = Duration.hours(168)
KOPIA_FREQUENCY: Final = Duration.hours(1)
"""Quick maintenance is due each hour; kopia itself knows when the full one is. (docs/spec: KOP 5)"""
READY_SECONDS: Final = 60.0
"""How long a repository may take to become ready."""

POLL_SECONDS: Final = 1.0
"""The pause between checks: a repository becomes ready only once, so a watch is not worthwhile."""


_LOOKS_KEPT: Final = 1000


class RepositoryUnavailable(Exception):
    """There is no usable repository; the text is Velero's."""


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a look into a location for a repository.

    Attributes:
        place: the place that the location stands for now. (`repository_places`)
        is_missing: whether the repository is not there.
    """

    place: str
    is_missing: bool


LookFor = Callable[[Repository], Awaitable[Inspection | None]]
"""Looks for a repository where its location is now; None if that is not known."""


class Repositories:
    """Finds or creates the repository of each namespace in each location.

    Args:
        frequency: of the maintenance of repositories that are made here.
        config_map: name of the ConfigMap with the settings of those repositories; empty for none.
        look: looks for the repository of a backup before its first volume; without it, what the object says
            is believed.
        clock: for the pauses between two checks of a repository that is not ready yet.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        *,
        frequency: Duration = DEFAULT_FREQUENCY,
        config_map: str = "",
        look: LookFor | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._namespace = namespace
        # The flag's default is restic's; kopia has one of its own.
        self._frequency = Duration() if frequency == DEFAULT_FREQUENCY else frequency
        self._config_map = config_map
        self._look = look
        self._looked: dict[tuple[str, str], None] = {}
        self._clock = clock
        self._asking: dict[tuple[str, str, str], asyncio.Lock] = {}

    async def ensure(
        self, volume_namespace: str, location: str, *, uploader: str = RESTIC_REPOSITORY, backup: str = ""
    ) -> BackupRepository:
        """Return the repository once it is ready, within a minute; its object is created if there is none.

        Calls at the same time create it only once.

        Args:
            uploader: the program whose format the repository has.
            backup: the uid of the backup that has something to put into it; a missing repository is then made
                in the location. Without a uid nothing is made. (docs/adr/020)

        Raises:
            RepositoryUnavailable: it is not ready, there are several, or it cannot be read or made.
        """
        if not volume_namespace:
            raise RepositoryUnavailable("the namespace of its volume is not known")
        lock = self._asking.setdefault((volume_namespace, location, uploader), asyncio.Lock())
        async with lock:
            repository = await self._find(volume_namespace, location, uploader)
            if repository is None:
                body = new_repository(
                    volume_namespace, location, self._namespace, self._frequency, uploader=uploader
                )
                if settings := await self._settings(uploader):
                    body["spec"]["repositoryConfig"] = settings
                if backup:
                    body["metadata"]["annotations"] = {labels.INITIALIZE_REPOSITORY: backup}
                repository = await self._create(body)
            elif backup and (_lacks_request(repository) or await self._is_outdated(repository, backup)):
                repository = await self._request(repository, backup)
            return await self._ready(repository)

    async def _is_outdated(self, repository: BackupRepository, backup: str) -> bool:
        """Whether a repository that is said to be ready is not where its location is now.

        Each backup looks once: a repository may be deleted, or a location moved, at any time.
        """
        looked = (repository.metadata.uid, backup)
        is_ready = repository.status.phase == BackupRepositoryPhase.READY
        if self._look is None or not is_ready or looked in self._looked:
            return False
        found = await self._look(repository_place(repository))
        if len(self._looked) >= _LOOKS_KEPT:
            del self._looked[next(iter(self._looked))]
        self._looked[looked] = None
        noted = repository.metadata.annotations.get(labels.REPOSITORY_PLACE, "")
        return found is not None and (found.is_missing or (bool(noted) and noted != found.place))

    async def _find(self, volume_namespace: str, location: str, uploader: str) -> BackupRepository | None:
        own_labels = repository_labels(volume_namespace, location)
        selector = ",".join(f"{name}={value}" for name, value in own_labels.items())
        try:
            found = await self._client.list_all(BACKUP_REPOSITORIES, self._namespace, label_selector=selector)
        except KubeError as error:
            raise RepositoryUnavailable(f"error listing restic repositories: {error}") from error
        found = [obj for obj in found if repository_type(obj) == uploader]
        if len(found) > 1:
            raise RepositoryUnavailable(
                f'more than one BackupRepository found for workload namespace "{volume_namespace}", '
                f'backup storage location "{location}"'
            )
        return _decoded(found[0]) if found else None

    async def _settings(self, uploader: str) -> dict[str, str]:
        """The settings of the ConfigMap for new repositories of an uploader. Raises RepositoryUnavailable."""
        if not self._config_map:
            return {}
        where = f"the ConfigMap {self._namespace}/{self._config_map} that --backup-repository-configmap names"
        try:
            found = await self._client.get(CONFIGMAPS, self._config_map, self._namespace)
            document = mapping(found, "data").get(uploader)
            if document is None:
                return {}
            if uploader != KOPIA_REPOSITORY:
                log.warning(f"{where} has settings for {uploader}, which has none")
                return {}
            settings, warnings = settings_of(str(document))
        except KubeError as error:
            raise RepositoryUnavailable(f"{where} cannot be read: {error}") from error
        except ValueError as error:
            raise RepositoryUnavailable(f"{where} cannot be used: {uploader}: {error}") from error
        for warning in warnings:
            log.warning(f"{where}: {warning}")
        return settings

    async def _create(self, body: JSONObject) -> BackupRepository:
        try:
            return _decoded(await create_generated(self._client, BACKUP_REPOSITORIES, body, self._namespace))
        except KubeError as error:
            raise RepositoryUnavailable(f"unable to create restic repository resource: {error}") from error

    async def _request(self, repository: BackupRepository, backup: str) -> BackupRepository:
        """Request another attempt at a repository that was not found, or is not there any more."""
        patch = {
            "metadata": {"annotations": {labels.INITIALIZE_REPOSITORY: backup}},
            "status": {"phase": str(BackupRepositoryPhase.NEW)},
        }
        name = repository.metadata.name
        try:
            return _decoded(await self._client.patch(BACKUP_REPOSITORIES, name, patch, self._namespace))
        except KubeError as error:
            raise RepositoryUnavailable(f"error patching restic repository {name}: {error}") from error

    async def _ready(self, repository: BackupRepository) -> BackupRepository:
        name = repository.metadata.name
        program = repository.spec.repository_type or RESTIC_REPOSITORY
        try:
            async with asyncio.timeout(READY_SECONDS):
                while is_new(repository):
                    await self._clock.sleep(POLL_SECONDS)
                    repository = _decoded(await self._client.get(BACKUP_REPOSITORIES, name, self._namespace))
        except TimeoutError as error:
            raise RepositoryUnavailable(not_ready(repository.spec.repository_type)) from error
        except KubeError as error:
            raise RepositoryUnavailable(f"error reading {program} repository {name}: {error}") from error
        if repository.status.phase != BackupRepositoryPhase.READY:
            raise RepositoryUnavailable(f"{program} repository is not ready: {repository.status.message}")
        return repository


def not_ready(uploader: str = "") -> str:
    """The message about a repository that does not become ready in time."""
    return f"timed out waiting for {uploader or RESTIC_REPOSITORY} repository to become ready"


def lost_data_text(repository: BackupRepository, lost: str) -> str:
    """The warning about a repository that was created where there should have been one."""
    spec = repository.spec
    uploader = spec.repository_type or RESTIC_REPOSITORY
    return (
        f"the {uploader} repository of namespace {spec.volume_namespace} was not in location"
        f" {spec.backup_storage_location} any more, and a new one was created: the data of the volumes of"
        f" these backups is gone: {lost}"
    )


def repository_type(obj: JSONObject) -> str:
    """The program whose format a BackupRepository has; Velero 1.10 left it out for restic."""
    return (obj.get("spec") or {}).get("repositoryType") or RESTIC_REPOSITORY


def repository_place(repository: BackupRepository) -> Repository:
    """The repository for its uploader."""
    spec = repository.spec
    return Repository(
        identifier=spec.restic_identifier,
        location=spec.backup_storage_location,
        namespace=spec.volume_namespace,
        uploader=spec.repository_type or RESTIC_REPOSITORY,
    )


def effective_frequency(frequency: Duration, uploader: str = RESTIC_REPOSITORY) -> Duration:
    """How often a repository is maintained; the default of its program if the frequency is not positive."""
    if frequency > Duration():
        return frequency
    return KOPIA_FREQUENCY if uploader == KOPIA_REPOSITORY else DEFAULT_FREQUENCY


def repository_labels(volume_namespace: str, location: str) -> dict[str, str]:
    """The labels that identify a repository, with its type; its name is generated."""
    return {
        labels.VOLUME_NAMESPACE: labels.label_value(volume_namespace),
        labels.STORAGE_LOCATION: labels.label_value(location),
    }


def new_repository(
    volume_namespace: str, location: str, namespace: str, frequency: Duration, *, uploader: str
) -> JSONObject:
    """The object that asks the server to open a repository. (docs/spec: PVL 8.1)"""
    metadata: JSONObject = {
        "generateName": f"{volume_namespace}-{location}-{uploader}-",
        "namespace": namespace,
        "labels": {**repository_labels(volume_namespace, location), labels.REPOSITORY_TYPE: uploader},
    }
    return {
        "apiVersion": API_VERSION,
        "kind": BACKUP_REPOSITORIES.kind,
        "metadata": metadata,
        "spec": {
            "volumeNamespace": volume_namespace,
            "backupStorageLocation": location,
            "repositoryType": uploader,
            "resticIdentifier": "",
            "maintenanceFrequency": str(effective_frequency(frequency, uploader)),
        },
    }


def _lacks_request(repository: BackupRepository) -> bool:
    is_ready = repository.status.phase == BackupRepositoryPhase.READY
    return not is_ready and labels.INITIALIZE_REPOSITORY not in repository.metadata.annotations


def _decoded(obj: JSONObject) -> BackupRepository:
    try:
        return decode(BackupRepository, obj)
    except DecodeError as error:
        raise RepositoryUnavailable(f"restic repository cannot be read: {error}") from error
