"""The files and environment that one call of restic needs. (docs/spec: PVL 2, PVL 8.5, STO 11, 16)"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pinnace.aio.blocking import in_thread
from pinnace.api.values.error_texts import error_text
from pinnace.storage.errors import InvalidLocation, StorageError
from pinnace.storage.providers import uploader_store
from pinnace.volumes.restic.commands import OpenedRepository
from pinnace.volumes.restic.environment import environment
from pinnace.volumes.restic.identifiers import belongs_to
from pinnace.volumes.uploader.access import PROXIES, AccessProvider, Opened, Repository, write_private
from pinnace.volumes.uploader.errors import AccessError, IdentifierError

_SCRATCH_VARIABLE = "VELERO_SCRATCH_DIR"


@asynccontextmanager
async def restic_access(accesses: AccessProvider, repository: Repository) -> AsyncIterator[OpenedRepository]:
    """Make the files; they are gone when the context ends, however it ends.

    Raises:
        AccessError: something is missing or cannot be read; Velero's texts. (docs/spec: PVL 5.3)
    """
    async with accesses.open(repository) as opened:
        _check_tenant(opened)
        yield await _access(opened)


async def _access(opened: Opened) -> OpenedRepository:
    location, inherited, identifier = opened.location, opened.inherited, opened.repository.identifier
    try:
        password_file = await in_thread(write_private, opened.directory / "password", opened.password)
        ca_file = None
        if ca_cert := location.spec.object_storage.ca_cert:
            ca_file = await in_thread(write_private, opened.directory / "ca.pem", ca_cert)
    except OSError as error:
        raise AccessError(f"error creating temp restic credentials file: {error.strerror}") from error
    try:
        store = uploader_store(location.spec.provider)
        of_the_store = await store.restic_environment(opened.call) if store is not None else {}
    except (StorageError, OSError) as error:
        raise AccessError(f"error setting restic cmd env: {error_text(error)}") from error
    variables = environment(inherited, identifier, of_the_store)
    if opened.tenant:
        variables = {name: value for name, value in variables.items() if name.lower() not in PROXIES}
    scratch = inherited.get(_SCRATCH_VARIABLE)
    return OpenedRepository(
        identifier=identifier,
        password_file=password_file,
        ca_file=ca_file,
        cache_directory=Path(scratch) / ".cache" / "restic" if scratch else None,
        environment=variables,
    )


def _check_tenant(opened: Opened) -> None:
    """Refuse another repository than that of the tenant whose location it is. Raises AccessError."""
    if not opened.tenant:
        return
    try:
        is_own = belongs_to(opened.repository.identifier, opened.location, opened.tenant)
    except (IdentifierError, InvalidLocation) as error:
        raise AccessError(str(error)) from error
    opened.check_tenant(is_own=is_own)
