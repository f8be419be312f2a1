"""Forgets the snapshots that a backup has in repositories, without a server. (docs/adr/021)"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from pinnace.api.velero.pod_volume import RESTIC
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.catalogue.volumes import Place, SavedVolume
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.operations.deletion import summary
from pinnace.operations.workdir import work_directory
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError
from pinnace.volumes.restic.identifiers import find_region, needs_region, repository_identifier
from pinnace.volumes.uploader.access import LocationAccess, Repository
from pinnace.volumes.uploader.errors import InvalidSnapshot, RepositoryMissing, UploaderError
from pinnace.volumes.uploader.passwords import read_password
from pinnace.volumes.uploaders import Uploaders

PasswordSource = Callable[[], Awaitable[bytes]]
"""Finds the password of the repositories; raises UploaderError, OSError."""


@dataclass(frozen=True, slots=True)
class LocationRepositories:
    """The snapshots of one backup in the repositories of its location.

    Args:
        store: of the location.
        volumes: of the backup, wherever they are; of those elsewhere this tells that they would be left.
        warn: told of a snapshot that is not there any more.
    """

    location: BackupStorageLocation
    store: BackupStore
    volumes: Sequence[SavedVolume]
    _: KW_ONLY
    password: PasswordSource
    warn: Callable[[str], None]

    async def obstacles(self) -> list[str]:
        return [str(each) for each in self.volumes if each.place == Place.ELSEWHERE]

    async def delete(self) -> list[str]:
        """Forget the snapshots; the next maintenance frees their space."""
        wanted = [each for each in self.volumes if each.place == Place.REPOSITORY]
        if not wanted:
            return []
        try:
            password = await self.password()
            region = ""
            if needs_region(self.location) and any(each.uploader == RESTIC for each in wanted):
                region = await find_region(self.location)
        except (UploaderError, OSError) as error:
            return [f"{summary(wanted)} cannot be forgotten: {error}"]
        errors = []
        async with work_directory(None) as workdir:
            uploaders = Uploaders.of(LocationAccess(self.location, password, workdir))
            for each in wanted:
                try:
                    await self._forget(uploaders, each, region)
                except (UploaderError, StorageError) as error:
                    errors.append(f"{each} cannot be forgotten: {error}")
        return errors

    async def _forget(self, uploaders: Uploaders, saved: SavedVolume, region: str) -> None:
        # By the location: the PodVolumeBackup is stored in the bucket and could name any repository.
        identifier = ""
        if saved.uploader == RESTIC:
            identifier = repository_identifier(self.location, saved.namespace, bucket_region=region)
        place = Repository(
            identifier=identifier, location="", namespace=saved.namespace, uploader=saved.uploader
        )
        try:
            await uploaders.forget(place, saved.snapshot)
        except InvalidSnapshot as error:
            self.warn(f"{saved} was not there: {error}")
        except RepositoryMissing as error:
            elsewhere = saved.uploader == RESTIC and self.location.spec.config.get("resticRepoPrefix")
            if elsewhere or not saved.namespace:
                raise
            await self.store.validate()
            if await self.store.has_repository_data(saved.uploader, saved.namespace):
                raise
            self.warn(f"{saved} was not there: nothing of its repository is left in the location: {error}")


async def find_password(file: str, client: KubeClient | None, namespace: str) -> bytes:
    """The password of repositories: of the file, the environment, or the Secret of the namespace.

    Args:
        file: empty if none was given.
        client: None without a cluster.

    Raises:
        UploaderError, OSError: it is not known, or cannot be read.
    """
    if file := file or os.environ.get("RESTIC_PASSWORD_FILE", ""):
        return (await asyncio.to_thread(Path(file).read_bytes)).rstrip(b"\r\n")
    if password := os.environ.get("RESTIC_PASSWORD", ""):
        return password.encode()
    if client is None:
        raise UploaderError("the password is not known: give --restic-password-file")
    try:
        return await read_password(client, namespace)
    except (UploaderError, KubeError) as error:
        raise UploaderError(f"the password is not known: give --restic-password-file ({error})") from error
