"""Opens the backend that the settings ask for: the only module that knows both a server and a location."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pinnace.cli.backend.interface import Backend
from pinnace.cli.settings import Settings


@asynccontextmanager
async def open_backend(settings: Settings) -> AsyncIterator[Backend]:
    """The location of the settings, read directly; without one the server in the cluster."""
    # Each is loaded only where it is needed: a location needs no HTTP client for API servers.
    if settings.location is not None:
        from pinnace.cli.backend.location import LocationBackend

        async with LocationBackend.open(settings.location) as local:
            yield local
    else:
        from pinnace.cli.backend.server import ServerBackend
        from pinnace.cli.connect import open_cluster

        async with open_cluster(settings) as client:
            yield ServerBackend(client, settings.namespace)
