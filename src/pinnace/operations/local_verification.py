"""Whether the volume data of a backup in a location is really there, asked without a server."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from pinnace.api.pod_volume import RESTIC
from pinnace.api.storage_location import BackupStorageLocation
from pinnace.csi.stored_data import SavedPodVolume
from pinnace.operations.local_deletion import PasswordSource
from pinnace.storage.errors import StorageError
from pinnace.volumes.restic.client import Restic
from pinnace.volumes.restic.identifiers import needs_region, repository_identifier
from pinnace.volumes.restic.regions import find_region
from pinnace.volumes.uploader.access import LocationAccess, Repository
from pinnace.volumes.uploader.errors import UploaderError


async def missing_pod_volumes(
    location: BackupStorageLocation, saved: Sequence[SavedPodVolume], *, password: PasswordSource
) -> list[str]:
    """Look up each restic snapshot in its repository. Returns what is wrong, a text each.

    Raises:
        UploaderError, OSError: the password or the region is not known.
    """
    wanted = [each for each in saved if each.uploader == RESTIC]
    if not wanted:
        return []
    secret = await password()
    region = ""
    if needs_region(location):
        region = await find_region(location.spec.object_storage.bucket)
    problems: list[str] = []
    listed: dict[str, frozenset[str]] = {}
    with tempfile.TemporaryDirectory(prefix="pinnace-") as workdir:
        restic = Restic(LocationAccess(location, secret, Path(workdir)))
        for each in wanted:
            identifier = repository_identifier(location, each.namespace, bucket_region=region)
            try:
                if identifier not in listed:
                    repository = Repository(identifier=identifier, location="")
                    listed[identifier] = await restic.snapshot_ids(repository)
            except (UploaderError, StorageError) as error:
                problems.append(f"{each} cannot be looked up: {' '.join(str(error).split())}")
                continue
            if not each.snapshot or not any(known.startswith(each.snapshot) for known in listed[identifier]):
                problems.append(f"{each} is not in its repository")
    return problems
