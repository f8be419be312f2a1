"""Looks up the data of volumes in a location for `backup verify`, with a cluster if the settings name one."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import click

from pinnace.cli.browse.verify import BackupVerifyOptions
from pinnace.cli.connect import open_cluster, settings_of
from pinnace.cli.errors import InvalidInput
from pinnace.cli.settings import Settings
from pinnace.client.location import LocationBackend
from pinnace.csi.snapshots import FEATURE
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConfigError
from pinnace.operations.local import LocalRun
from pinnace.operations.local_deletion import find_password
from pinnace.operations.verification.views import local_view
from pinnace.operations.verification.volumes import ClusterView, NoCluster, VolumeLookup
from pinnace.volumes.uploader.access import AccessProvider, LocationAccess
from pinnace.volumes.uploader.share import ReadShare


def check_volume_options(ctx: click.Context, options: BackupVerifyOptions) -> None:
    """Refuse options that would do nothing. Raises InvalidInput."""
    share_of(options)
    if options.ask_drivers and settings_of(ctx).location is None:
        raise InvalidInput(f"--ask-drivers needs --location: a server with the feature {FEATURE} asks anyway")


def share_of(options: BackupVerifyOptions) -> ReadShare | None:
    """The share of the data that is read. Raises InvalidInput."""
    try:
        return ReadShare.parse(options.read_data) if options.read_data else None
    except ValueError as error:
        raise InvalidInput(f"--read-data: {error}") from error


@asynccontextmanager
async def volume_lookup(
    settings: Settings, backend: LocationBackend, options: BackupVerifyOptions
) -> AsyncIterator[VolumeLookup]:
    """A lookup of the volume data of the location's backups."""
    async with AsyncExitStack() as stack:
        cluster = _Cluster(settings, backend, options, stack)

        async def access(workdir: Path) -> AccessProvider:
            password = await find_password(
                options.restic_password_file, await cluster.client_if_any(), settings.namespace
            )
            return LocationAccess(backend.location, password, workdir)

        yield VolumeLookup(
            location=backend.location,
            store=backend.store,
            access=access,
            cluster=cluster.view,
            share=share_of(options),
        )


class _Cluster:
    """The cluster of the settings, opened on first use and closed with the stack."""

    def __init__(
        self,
        settings: Settings,
        backend: LocationBackend,
        options: BackupVerifyOptions,
        stack: AsyncExitStack,
    ) -> None:
        self._settings = settings
        self._backend = backend
        self._options = options
        self._stack = stack
        self._client: KubeClient | None = None

    async def client_if_any(self) -> KubeClient | None:
        """Its client; None if the settings name no cluster."""
        try:
            return await self._opened()
        except ConfigError:
            return None

    async def view(self) -> ClusterView:
        """The cluster with its snapshot locations. Raises NoCluster."""
        settings = self._settings
        try:
            client = await self._opened()
        except ConfigError as error:
            raise NoCluster(str(error)) from error
        run = LocalRun(
            client=client,
            location=self._backend.location,
            store=self._backend.store,
            namespace=settings.namespace,
            kubeconfig=settings.kubeconfig or "",
            features=settings.features,
        )
        ask_in = settings.namespace if self._options.ask_drivers else ""
        return await local_view(run, self._stack, ask_in=ask_in)

    async def _opened(self) -> KubeClient:
        if self._client is None:
            self._client = await self._stack.enter_async_context(open_cluster(self._settings))
        return self._client
