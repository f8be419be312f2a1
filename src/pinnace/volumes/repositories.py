"""The BackupRepository of a namespace in a location: found by labels, made on demand. (docs/spec: PVL 8)"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

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
from pinnace.volumes.uploader.access import Repository

log = logging.getLogger(__name__)

DEFAULT_FREQUENCY: Final = Duration.hours(168)
KOPIA_FREQUENCY: Final = Duration.hours(1)
"""Quick maintenance is due each hour; kopia itself knows when the full one is. (docs/spec: KOP 5)"""
READY_SECONDS: Final = 60.0
"""How long a repository may take to become ready."""

POLL_SECONDS: Final = 1.0
"""The pause between checks: a repository becomes ready only once, so a watch is not worthwhile."""

_NEW = frozenset({"", BackupRepositoryPhase.NEW})


class RepositoryUnavailable(Exception):
    """There is no usable repository; the text is Velero's."""


class Repositories:
    """Finds or creates the repository of each namespace in each location.

    Args:
        frequency: of the maintenance of repositories that are made here.
        config_map: name of the ConfigMap with the settings of those repositories; empty for none.
        sleep: between two checks of a repository that is not ready yet.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        *,
        frequency: Duration = DEFAULT_FREQUENCY,
        config_map: str = "",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._namespace = namespace
        # The flag's default is restic's; kopia has one of its own.
        self._frequency = Duration() if frequency == DEFAULT_FREQUENCY else frequency
        self._config_map = config_map
        self._sleep = sleep
        self._asking: dict[tuple[str, str, str], asyncio.Lock] = {}

    async def ensure(
        self,
        volume_namespace: str,
        location: str,
        *,
        uploader: str = RESTIC_REPOSITORY,
        initialize: bool = False,
    ) -> BackupRepository:
        """Return the repository once it is ready, within a minute; its object is created if there is none.

        Calls at the same time create it only once.

        Args:
            uploader: the program whose format the repository has.
            initialize: whether the repository itself may be made in the location if it is not there. Only a
                backup has something to put into it. (docs/adr/020)

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
                if initialize:
                    body["metadata"]["annotations"] = {labels.INITIALIZE_REPOSITORY: "true"}
                repository = await self._create(body)
            elif initialize and _lacks_request(repository):
                repository = await self._request(repository)
            return await self._ready(repository)

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

    async def _request(self, repository: BackupRepository) -> BackupRepository:
        """Request another attempt at a repository that a restore or deletion did not find."""
        patch = {
            "metadata": {"annotations": {labels.INITIALIZE_REPOSITORY: "true"}},
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
                while repository.status.phase in _NEW:
                    await self._sleep(POLL_SECONDS)
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
        "labels": {
            **repository_labels(volume_namespace, location),
            labels.REPOSITORY_TYPE: uploader,
        },
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
