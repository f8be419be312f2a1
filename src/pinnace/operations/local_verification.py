"""Whether the volume data of a backup in a location is really there, asked without a server."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pinnace.api.velero.pod_volume import RESTIC
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.csi.stored_data import SavedPodVolume
from pinnace.operations.local_deletion import PasswordSource
from pinnace.storage.errors import StorageError
from pinnace.volumes.restic.identifiers import needs_region, repository_identifier
from pinnace.volumes.restic.regions import find_region
from pinnace.volumes.uploader.access import LocationAccess, Repository
from pinnace.volumes.uploader.errors import RepositoryMissing, RepositoryUnusable, UploaderError
from pinnace.volumes.uploaders import Uploaders


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What was found of the snapshots of pods' volumes, a text each.

    Attributes:
        missing: snapshots that are not in their repository, or whose repository is missing or damaged.
        unknown: repositories that could not be asked, and why.
    """

    missing: Sequence[str] = ()
    unknown: Sequence[str] = ()


async def look_up_pod_volumes(
    location: BackupStorageLocation, saved: Sequence[SavedPodVolume], *, password: PasswordSource
) -> Lookup:
    """Look up each snapshot of restic or kopia in its repository.

    Raises:
        UploaderError, OSError: the password or the region is not known.
    """
    if not saved:
        return Lookup()
    secret = await password()
    region = ""
    if needs_region(location) and any(each.uploader == RESTIC for each in saved):
        region = await find_region(location.spec.object_storage.bucket)
    missing: list[str] = []
    unknown: list[str] = []
    listed: dict[Repository, frozenset[str] | None] = {}
    with tempfile.TemporaryDirectory(prefix="pinnace-") as workdir:
        uploaders = Uploaders.of(LocationAccess(location, secret, Path(workdir)))
        for each in saved:
            try:
                # By the location: the PodVolumeBackup is stored in the bucket and could name any repository.
                identifier = ""
                if each.uploader == RESTIC:
                    identifier = repository_identifier(location, each.namespace, bucket_region=region)
                place = Repository(
                    identifier=identifier, location="", namespace=each.namespace, uploader=each.uploader
                )
                if place not in listed:
                    listed[place] = None
                    listed[place] = await uploaders.snapshot_ids(place)
            except (RepositoryMissing, RepositoryUnusable) as error:
                listed[place] = frozenset()
                missing.append(f"{each} cannot be restored: {_one_line(error)}")
                continue
            except (UploaderError, StorageError) as error:
                unknown.append(f"the {each.uploader} repository of {each.namespace}: {_one_line(error)}")
                continue
            known = listed[place]
            if known is not None and not _is_in(known, each.snapshot):
                missing.append(f"{each} is not in its repository")
    return Lookup(missing=missing, unknown=unknown)


def _is_in(known: frozenset[str], snapshot: str) -> bool:
    """Whether an id, which may be shortened as restic's are, is that of a snapshot."""
    return bool(snapshot) and any(each.startswith(snapshot) for each in known)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
