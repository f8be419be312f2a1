"""The work of `verify` of the Python API."""

from contextlib import AsyncExitStack
from os import fspath
from pathlib import Path

from pinnace.kube.client import KubeClient
from pinnace.operations.local import LocalRun
from pinnace.operations.local_deletion import find_password
from pinnace.operations.verification.views import local_view
from pinnace.operations.verification.volumes import ClusterView, NoCluster, VolumeLookup
from pinnace.operations.verification.whole import verify_stored
from pinnace.operations.workdir import work_directory
from pinnace.python_api._running import Reports, opened_location, opened_run
from pinnace.python_api.errors import InvalidRequest
from pinnace.python_api.types import Cluster, Location, Verification, VerifyOptions
from pinnace.volumes.uploader.access import AccessProvider, LocationAccess
from pinnace.volumes.uploader.share import ReadShare


async def verification(
    backup: str, location: Location, cluster: Cluster | None, options: VerifyOptions
) -> Verification:
    """Verify one backup. Raises InvalidRequest, StorageError, KubeError."""
    try:
        share = ReadShare.parse(options.read_data) if options.read_data else None
    except ValueError as error:
        raise InvalidRequest(f"read_data: {error}") from error
    file = fspath(options.password_file) if options.password_file is not None else ""
    namespace = (cluster or Cluster()).namespace
    async with AsyncExitStack() as stack:
        run: LocalRun | None = None
        if cluster is not None:
            run = await stack.enter_async_context(opened_run(location, cluster, Reports(None)))
            found, store = run.location, run.store
        else:
            found, store = await stack.enter_async_context(opened_location(location))
        if backup not in await store.list_backups():
            raise InvalidRequest(f"the location has no backup {backup!r}")
        client: KubeClient | None = run.client if run is not None else None

        async def access(workdir: Path) -> AccessProvider:
            return LocationAccess(found, await find_password(file, client, namespace), workdir)

        async def view() -> ClusterView:
            if run is None:
                raise NoCluster("no cluster was given")
            return await local_view(run, stack)

        lookup = VolumeLookup(location=found, store=store, access=access, cluster=view, share=share)
        folder = await stack.enter_async_context(work_directory(None))
        checks = await verify_stored(store, backup, lookup, folder)
    return Verification(backup=backup, checks=tuple(checks))
