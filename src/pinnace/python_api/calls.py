"""The functions of the Python API, each for scripts and for asyncio. Calls load the engines."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pinnace.python_api.errors import InvalidRequest
from pinnace.python_api.types import (
    BackupOptions,
    BackupResult,
    BackupSummary,
    Cluster,
    Location,
    Phase,
    ProgressCallback,
    RestoreOptions,
    RestoreResult,
    Selection,
    Verification,
    VerifyOptions,
)

if TYPE_CHECKING:
    from pinnace.python_api.administration import Diagnosis, InstallOptions, InstallResult

_PARALLEL_READS = 16

_T = TypeVar("_T")


def backup(
    name: str,
    location: Location,
    *,
    cluster: Cluster | None = None,
    selection: Selection | None = None,
    options: BackupOptions | None = None,
    progress: ProgressCallback | None = None,
) -> BackupResult:
    """Back up the selected objects of a cluster into a location, and wait for the end.

    Not for programs with a running event loop: these await `backup_async`. Ctrl-C ends the backup, and leaves
    nothing in the location that looks like one.

    Raises:
        PinnaceError: see the subclasses.
    """
    return _run(
        backup_async(
            name, location, cluster=cluster, selection=selection, options=options, progress=progress
        ),
        "backup",
    )


async def backup_async(
    name: str,
    location: Location,
    *,
    cluster: Cluster | None = None,
    selection: Selection | None = None,
    options: BackupOptions | None = None,
    progress: ProgressCallback | None = None,
) -> BackupResult:
    """As `backup`, for asyncio. If it is cancelled, nothing in the location looks like a backup.

    Raises:
        PinnaceError: see the subclasses.
    """
    from pinnace.operations.local import make_backup
    from pinnace.python_api._running import Reports, backup_request, opened_run, phase_of, translated

    cluster, reports = cluster or Cluster(), Reports(progress)
    request = backup_request(name, cluster, selection or Selection(), options or BackupOptions())
    with translated():
        async with opened_run(location, cluster, reports, create=True) as run:
            finished = await make_backup(run, request)
    status = finished.status
    return reports.check(
        BackupResult(
            name=finished.metadata.name,
            phase=phase_of(status.phase),
            items=status.progress.items_backed_up if status.progress else 0,
            errors=status.errors,
            warnings=status.warnings,
            failure_reason=status.failure_reason,
            started=status.start_timestamp,
            completed=status.completion_timestamp,
            notes=tuple(reports.notes),
        )
    )


def restore(
    backup: str,
    location: Location,
    *,
    cluster: Cluster | None = None,
    selection: Selection | None = None,
    options: RestoreOptions | None = None,
    progress: ProgressCallback | None = None,
) -> RestoreResult:
    """Restore the selected objects of a backup into a cluster, and wait for the end.

    Objects that exist already are left as they are, unless the options say otherwise.
    Not for programs with a running event loop: these await `restore_async`.

    Raises:
        PinnaceError: see the subclasses.
    """
    return _run(
        restore_async(
            backup, location, cluster=cluster, selection=selection, options=options, progress=progress
        ),
        "restore",
    )


async def restore_async(
    backup: str,
    location: Location,
    *,
    cluster: Cluster | None = None,
    selection: Selection | None = None,
    options: RestoreOptions | None = None,
    progress: ProgressCallback | None = None,
) -> RestoreResult:
    """As `restore`, for asyncio. If it is cancelled, the objects that it has created stay.

    Raises:
        PinnaceError: see the subclasses.
    """
    from pinnace.api.values.default_names import other_names
    from pinnace.operations.local_restore import make_restore
    from pinnace.python_api._running import (
        Reports,
        opened_run,
        phase_of,
        resource_modifiers,
        restore_request,
        translated,
    )

    cluster, reports, options = cluster or Cluster(), Reports(progress), options or RestoreOptions()
    request = restore_request(backup, cluster, selection or Selection(), options)
    modifiers = resource_modifiers(options)
    with translated():
        async with opened_run(location, cluster, reports) as run:
            others = () if options.name else other_names(request.metadata.name)
            finished, _ = await make_restore(run, request, modifiers=modifiers, other_names=others)
    status = finished.status
    return reports.check(
        RestoreResult(
            name=finished.metadata.name,
            backup=finished.spec.backup_name,
            phase=phase_of(status.phase),
            items=status.progress.items_restored if status.progress else 0,
            errors=status.errors,
            warnings=status.warnings,
            failure_reason=status.failure_reason,
            started=status.start_timestamp,
            completed=status.completion_timestamp,
            notes=tuple(reports.notes),
        )
    )


def list_backups(location: Location) -> list[BackupSummary]:
    """The backups in a location, by name. No cluster is needed.

    Not for programs with a running event loop: these await `list_backups_async`.

    Raises:
        PinnaceError: see the subclasses.
    """
    return _run(list_backups_async(location), "list_backups")


async def list_backups_async(location: Location) -> list[BackupSummary]:
    """As `list_backups`, for asyncio.

    Raises:
        PinnaceError: see the subclasses.
    """
    from pinnace.python_api._running import opened_location, summary_of, translated
    from pinnace.storage.backup_store import BackupStore
    from pinnace.storage.errors import ObjectNotFound, UnreadableObject

    limit = asyncio.Semaphore(_PARALLEL_READS)

    async def read(store: BackupStore, name: str) -> BackupSummary | None:
        async with limit:
            try:
                return summary_of(name, await store.read_backup(name))
            except ObjectNotFound:
                return None  # the rest of a backup that was never finished, or is being deleted
            except UnreadableObject as error:
                return BackupSummary(name=name, phase=Phase.UNKNOWN, problem=str(error))

    with translated():
        async with opened_location(location) as (_, store):
            names = await store.list_backups()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(read(store, name)) for name in names]
    return sorted((found for task in tasks if (found := task.result())), key=lambda found: found.name)


def verify(
    backup: str,
    location: Location,
    *,
    cluster: Cluster | None = None,
    options: VerifyOptions | None = None,
) -> Verification:
    """Check that a backup is whole: its files, each item, and the data of its volumes. Nothing is changed.

    Without a cluster the snapshots of clouds and of CSI drivers are not checked.
    Not for programs with a running event loop: these await `verify_async`.

    Raises:
        PinnaceError: see the subclasses. What is wrong with the backup is in the result.
    """
    return _run(verify_async(backup, location, cluster=cluster, options=options), "verify")


async def verify_async(
    backup: str,
    location: Location,
    *,
    cluster: Cluster | None = None,
    options: VerifyOptions | None = None,
) -> Verification:
    """As `verify`, for asyncio.

    Raises:
        PinnaceError: see the subclasses.
    """
    from pinnace.python_api._running import translated
    from pinnace.python_api._verifying import verification

    with translated():
        return await verification(backup, location, cluster, options or VerifyOptions())


def doctor(
    location: Location | None = None,
    *,
    cluster: Cluster | None = None,
    namespaces: Sequence[str] = (),
) -> "Diagnosis":
    """Check everything that backups and restores need. Nothing stays changed.

    Args:
        location: check what is needed without a server; without one, the server of the cluster's namespace.
        namespaces: whose objects are backed up; by default all. For checks without a server.

    Not for programs with a running event loop: these await `doctor_async`.

    Raises:
        InvalidRequest: a namespace is no name. What is wrong with cluster or location is in the result.
    """
    return _run(doctor_async(location, cluster=cluster, namespaces=namespaces), "doctor")


async def doctor_async(
    location: Location | None = None,
    *,
    cluster: Cluster | None = None,
    namespaces: Sequence[str] = (),
) -> "Diagnosis":
    """As `doctor`, for asyncio.

    Raises:
        InvalidRequest: a namespace is no name.
    """
    from pinnace.python_api._running import names, translated
    from pinnace.python_api.administration import diagnosis

    chosen = names(namespaces, "namespaces")
    with translated():
        return await diagnosis(location, cluster or Cluster(), chosen)


def install(options: "InstallOptions", *, cluster: Cluster | None = None) -> "InstallResult":
    """Install definitions, access rights, a backup location and the server, in the cluster's namespace.

    Existing objects are left as they are, unless the options say `apply`.
    Not for programs with a running event loop: these await `install_async`.

    Raises:
        PinnaceError: see the subclasses. What was sent before the error stays.
    """
    return _run(install_async(options, cluster=cluster), "install")


async def install_async(options: "InstallOptions", *, cluster: Cluster | None = None) -> "InstallResult":
    """As `install`, for asyncio.

    Raises:
        PinnaceError: see the subclasses.
    """
    from pinnace.python_api._running import translated
    from pinnace.python_api.administration import installation

    with translated():
        return await installation(cluster or Cluster(), options)


def _run(work: Coroutine[Any, Any, _T], function: str) -> _T:
    """Run the coroutine in a loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise InvalidRequest(
        f"pinnace.{function}() cannot be called while an event loop runs: await pinnace.{function}_async()"
    )
