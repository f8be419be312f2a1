"""The store of a namespace's kopia repository, and how long it holds what it has: pure. (docs/spec: KOP 2)"""

import math
import re
from datetime import timedelta
from typing import Final

import msgspec

from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.layout import clean_bucket, clean_prefix
from pinnace.storage.object_lock import LOCK_MODE, LockMode, object_lock_of
from pinnace.storage.providers import uploader_store
from pinnace.storage.uploader_store import KopiaStorage
from pinnace.volumes.uploader.errors import IdentifierError

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class RepositoryHold(msgspec.Struct, frozen=True, kw_only=True):
    """How long what kopia stores is held: each file from its upload on, and what is used for as long again by
    each full maintenance.

    Attributes:
        hours: kopia wants more than a day and the time between two full maintenances.
    """

    mode: str
    hours: int


HELD_HOURS: Final = 720
"""Where files of a location are held until their backup expires, which a repository of many has no time of:
the default time to live of backups."""


def hold_of(location: BackupStorageLocation) -> RepositoryHold | None:
    """How long the repositories of a location are held; None for not at all.

    Raises:
        IdentifierError: the location's settings of object lock cannot be read, or kopia would hold its files
            longer than asked: in Azure and Google Cloud Storage it knows one mode alone.
    """
    try:
        lock = object_lock_of(location.spec.config)
    except StoreConfigError as error:
        raise IdentifierError(str(error)) from error
    if lock is None:
        return None
    store = uploader_store(location.spec.provider)
    if lock.mode != LockMode.COMPLIANCE and store is not None and store.holds_for_good:
        raise IdentifierError(
            f"config.{LOCK_MODE} is {lock.mode}, and kopia holds files in Azure and Google Cloud Storage so"
            f" that nobody can delete them: set it to {LockMode.COMPLIANCE} if that is wanted, or save data"
            " of volumes in another location"
        )
    hours = HELD_HOURS if lock.period is None else math.ceil(lock.period / timedelta(hours=1))
    return RepositoryHold(mode=lock.mode, hours=hours)


def repository_prefix(location: BackupStorageLocation, namespace: str) -> str:
    """The prefix of the keys of a namespace's repository, with a slash at its end.

    Raises:
        IdentifierError: the name of the namespace is not valid; it may come from a list in the bucket.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise IdentifierError(f"{namespace[:253]!r} cannot be the namespace of a kopia repository")
    return f"{clean_prefix(location.spec.object_storage.prefix)}kopia/{namespace}/"


def storage_of(location: BackupStorageLocation, namespace: str) -> KopiaStorage:
    """The store of a namespace's repository in a location.

    Raises:
        IdentifierError: the provider has no repositories of kopia, or the location's settings do not fit.
        InvalidLocation: the bucket has a slash inside.
    """
    spec, prefix = location.spec, repository_prefix(location, namespace)
    bucket, store = clean_bucket(spec.object_storage.bucket), uploader_store(spec.provider)
    if store is None:
        raise IdentifierError(f"the provider {spec.provider} of the location has no repositories of kopia")
    try:
        return store.kopia_storage(spec, bucket, prefix)
    except StoreConfigError as error:
        raise IdentifierError(str(error)) from error
