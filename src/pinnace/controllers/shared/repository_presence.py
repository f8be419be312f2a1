"""Looks into locations for the repositories of BackupRepositories: by the store, which is one small request.

The programs of the repositories say that there is none also where the store did not answer, and take a second
to say it. (docs/spec: KOP-005, BEY 6.3)
"""

import asyncio
from typing import Final

from pinnace.api.objects import JSONObject, text
from pinnace.controllers.shared.locations import LocationStores
from pinnace.kube.errors import KubeError
from pinnace.runtime.logfields import get_logger
from pinnace.storage.errors import StorageError
from pinnace.volumes.repositories import Inspection
from pinnace.volumes.repository_places import place_of
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.interface import RESTIC

log = get_logger(__name__)

LOOK_SECONDS: Final = 20.0
"""The limit of one look; what it would have said is then not known."""


class RepositoryPresence:
    """Says where repositories are, and whether they are there."""

    def __init__(self, locations: LocationStores) -> None:
        self._locations = locations

    async def look(self, repository: Repository) -> Inspection | None:
        """The place of a repository now, and whether it is missing there; None if that is not known."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                obj = await self._locations.raw(repository.location)
                is_missing = False
                if not _is_elsewhere(obj, repository.uploader):
                    async with await self._locations.acquire(repository.location, obj) as store:
                        is_missing = not await store.has_repository(repository.uploader, repository.namespace)
                return Inspection(place=place_of(obj), is_missing=is_missing)
        except (StorageError, KubeError, TimeoutError) as error:
            # What needs the repository says what is wrong with it.
            log.warning("A repository could not be looked for", error=error, location=repository.location)
            return None

    async def has_data(self, repository: Repository) -> bool:
        """Whether a location that can be reached has any file where a repository is or would be made.

        Raises:
            StorageError, KubeError: that is not known.
        """
        obj = await self._locations.raw(repository.location)
        if _is_elsewhere(obj, repository.uploader):
            return True
        async with await self._locations.acquire(repository.location, obj) as store:
            await store.validate()
            return await store.has_repository_data(repository.uploader, repository.namespace)

    async def is_gone(self, repository: Repository) -> bool:
        """Whether a location that can be reached has nothing of a repository, for certain."""
        if not repository.namespace:
            return False
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                return not await self.has_data(repository)
        except (StorageError, KubeError, TimeoutError) as error:
            log.warning("A repository could not be looked for", error=error, location=repository.location)
            return False


def _is_elsewhere(location: JSONObject, uploader: str) -> bool:
    """Whether the repositories of a location are in a place of their own, where only restic can look."""
    return uploader == RESTIC and bool(text(location, "spec", "config", "resticRepoPrefix"))
