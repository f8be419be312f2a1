"""The place of a BackupRepository in its location: decides when it is forgotten. Pure.

A repository belongs to a location by the location's uid, bucket and prefix, and the settings that say which
store the bucket is in. Its BackupRepository keeps them in an annotation, so that a location that was deleted,
created again under its name, or moved is noticed by any server, also after a restart. (docs/spec: BEY 6.3)
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.api.velero.backup_repository import (
    RESTIC_REPOSITORY,
    BackupRepository,
    BackupRepositoryPhase,
    BackupRepositoryStatus,
)
from pinnace.api.velero.pod_volume import uploader_of_object
from pinnace.storage.providers import qualified_provider

_ADDRESS: Final = ("s3Url", "region", "path", "resticRepoPrefix", "storageAccount", "storageAccountURI")
"""Settings of a location that name the store; all others say how it is used."""

_USER_INFO: Final = re.compile(r"(?<=//)[^/@\s]+@")
_LONGEST_VALUE: Final = 1000
_NEW: Final = frozenset({"", BackupRepositoryPhase.NEW})


def place_of(location: JSONObject) -> str:
    """The place that a BackupStorageLocation stands for, as the annotation of its repositories has it."""
    return " ".join(filter(None, (_part("uid", text(location, "metadata", "uid")), store_of(location))))


def store_of(location: JSONObject) -> str:
    """The store, bucket and prefix of a BackupStorageLocation: what changes when it is moved."""
    spec = mapping(location, "spec")
    config, storage = mapping(spec, "config"), mapping(spec, "objectStorage")
    parts = {
        "provider": qualified_provider(text(spec, "provider")),
        "bucket": text(storage, "bucket").strip("/"),
        "prefix": text(storage, "prefix").strip("/"),
        **{name: _USER_INFO.sub("", text(config, name)) for name in _ADDRESS},
    }
    return " ".join(filter(None, map(_part, parts.keys(), parts.values())))


def _part(name: str, value: str) -> str:
    return f"{name}={value[:_LONGEST_VALUE]}" if value else ""


def noted_place(repository: JSONObject) -> str:
    """The place that a BackupRepository belongs to; empty if none was noted, as on Velero's."""
    return text(repository, "metadata", "annotations", labels.REPOSITORY_PLACE)


def is_new(repository: BackupRepository) -> bool:
    """Whether the server has not opened the repository yet, or is asked to open it again."""
    return repository.status.phase in _NEW


def placed(repository: BackupRepository, place: str) -> BackupRepository:
    """The BackupRepository with its place noted.

    One that belonged to another place begins again: nothing that was known of the repository there counts,
    and only a backup that has asked since then may create one here.
    """
    metadata, noted = repository.metadata, repository.metadata.annotations.get(labels.REPOSITORY_PLACE, "")
    annotations = {**metadata.annotations, labels.REPOSITORY_PLACE: place}
    spec, status = repository.spec, repository.status
    if noted and noted != place:
        annotations.pop(labels.LOST_BACKUPS, None)
        if not is_new(repository):
            annotations.pop(labels.INITIALIZE_REPOSITORY, None)
        spec = msgspec.structs.replace(spec, restic_identifier="")
        status = BackupRepositoryStatus(phase=BackupRepositoryPhase.NEW)
    return msgspec.structs.replace(
        repository,
        metadata=msgspec.structs.replace(metadata, annotations=annotations),
        spec=spec,
        status=status,
    )


def backups_in(
    repository: BackupRepository, pod_volume_backups: Iterable[JSONObject], data_uploads: Iterable[JSONObject]
) -> list[str]:
    """The backups that had volumes in a repository, by the objects of the cluster; sorted."""
    spec = repository.spec
    uploader = spec.repository_type or RESTIC_REPOSITORY
    found = set()
    for obj in pod_volume_backups:
        is_here = text(obj, "spec", "pod", "namespace") == spec.volume_namespace
        if is_here and uploader_of_object(obj) == uploader:
            found.add(_saved_backup(obj, spec.backup_storage_location))
    for obj in data_uploads:
        is_here = text(obj, "spec", "sourceNamespace") == spec.volume_namespace
        if is_here and uploader != RESTIC_REPOSITORY:
            found.add(_saved_backup(obj, spec.backup_storage_location))
    return sorted(found - {""})


def _saved_backup(obj: JSONObject, location: str) -> str:
    """The backup of a PodVolumeBackup or DataUpload with a snapshot in a location; empty without one."""
    if text(obj, "spec", "backupStorageLocation") != location or not text(obj, "status", "snapshotID"):
        return ""
    owners = listed(obj, "metadata", "ownerReferences")
    names = (text(owner, "name") for owner in owners if text(owner, "kind") == "Backup")
    return next(names, text(obj, "metadata", "labels", labels.BACKUP_NAME))
