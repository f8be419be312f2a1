"""Whether the snapshots that a backup has in repositories of restic and kopia are there and readable."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import msgspec

from pinnace.api.velero.pod_volume import RESTIC
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.catalogue.volumes import SavedVolume
from pinnace.operations.workdir import work_directory
from pinnace.storage.errors import StorageError
from pinnace.volumes.restic.identifiers import find_region, needs_region, repository_identifier
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.errors import (
    DataDamaged,
    RepositoryMissing,
    RepositoryUnusable,
    SnapshotMissing,
    UploaderError,
)
from pinnace.volumes.uploader.share import ReadShare
from pinnace.volumes.uploaders import Uploaders

OpenAccess = Callable[[Path], Awaitable[AccessProvider]]
"""Gives access to the location's repositories, with files below a folder. Raises UploaderError, OSError."""

Hold = Callable[[Repository], AbstractAsyncContextManager[None]]
"""Keeps other tasks of this process from removing data of a repository."""


def no_lock(repository: Repository) -> AbstractAsyncContextManager[None]:
    """Hold nothing: in this process nothing else uses the repository."""
    return nullcontext()


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """The result of looking for snapshots in repositories.

    Attributes:
        missing: snapshots that are not in their repository, or whose repository is missing or damaged.
        unknown: repositories that could not be asked, and why.
        read: repositories whose data was read.
    """

    missing: Sequence[str] = ()
    unknown: Sequence[str] = ()
    read: int = 0


async def look_up_snapshots(
    location: BackupStorageLocation,
    saved: Sequence[SavedVolume],
    access: OpenAccess,
    share: ReadShare | None = None,
    hold: Hold = no_lock,
) -> Lookup:
    """Look up each snapshot of restic or kopia in its repository.

    Args:
        share: how much of the data is read as well; None for none.
        hold: around all that is done with a repository.

    Raises:
        UploaderError, OSError: the password or the region is not known.
    """
    if not saved:
        return Lookup()
    missing: list[str] = []
    unknown: list[str] = []
    found: dict[Repository, list[SavedVolume]] = {}
    async with work_directory(None) as workdir:
        uploaders = Uploaders.of(await access(workdir))
        region = ""
        if needs_region(location) and any(each.uploader == RESTIC for each in saved):
            region = await find_region(location)
        for place, wanted in _by_repository(location, saved, region, unknown).items():
            try:
                async with hold(place):
                    known = await uploaders.snapshot_ids(place)
            except (RepositoryMissing, RepositoryUnusable) as error:
                missing += [f"{each} cannot be restored: {_one_line(error)}" for each in wanted]
                continue
            except (UploaderError, StorageError) as error:
                unknown.append(f"{_title(place)}: {_one_line(error)}")
                continue
            there = [each for each in wanted if _is_in(known, each.snapshot)]
            missing += [f"{each} is not in its repository" for each in wanted if each not in there]
            if there:
                found[place] = there
        if share is not None:
            for place, there in found.items():
                ids = [each.snapshot for each in there]
                try:
                    async with hold(place):
                        await uploaders.check(place, ids, share)
                except (DataDamaged, SnapshotMissing) as error:
                    missing.append(f"{_title(place)} is damaged: {_one_line(error)}")
                except (UploaderError, StorageError) as error:
                    unknown.append(f"{_title(place)} could not be read: {_one_line(error)}")
    return Lookup(missing=missing, unknown=unknown, read=len(found) if share is not None else 0)


def _by_repository(
    location: BackupStorageLocation, saved: Sequence[SavedVolume], region: str, unknown: list[str]
) -> dict[Repository, list[SavedVolume]]:
    """The snapshots of each repository; a snapshot whose repository cannot be known goes to `unknown`."""
    places: dict[Repository, list[SavedVolume]] = {}
    for each in saved:
        try:
            # By the location: the PodVolumeBackup is stored in the bucket and could name any repository.
            identifier = ""
            if each.uploader == RESTIC:
                identifier = repository_identifier(location, each.namespace, bucket_region=region)
        except UploaderError as error:
            unknown.append(f"{each}: {_one_line(error)}")
            continue
        place = Repository(
            identifier=identifier,
            location=location.metadata.name,
            namespace=each.namespace,
            uploader=each.uploader,
        )
        places.setdefault(place, []).append(each)
    return places


def _title(place: Repository) -> str:
    return f"the {place.uploader} repository of {place.namespace}"


def _is_in(known: frozenset[str], snapshot: str) -> bool:
    """Whether an id, which may be shortened as restic's are, is that of a snapshot."""
    return bool(snapshot) and any(each.startswith(snapshot) for each in known)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
