"""Opens the backend that the settings ask for: the only module that knows both a server and a location."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pinnace.cli.settings import Settings
from pinnace.client.interface import Backend


@asynccontextmanager
async def open_backend(settings: Settings) -> AsyncIterator[Backend]:
    """The location of the settings, read directly; without one the server in the cluster."""
    # Each is loaded only where it is needed: a location needs no HTTP client for API servers.
    if settings.location is not None:
        from pinnace.cli.connect import caller
        from pinnace.cli.identities import given_identities
        from pinnace.client.location import LocationBackend

        async with LocationBackend.open(
            settings.location, caller(), identities=given_identities(settings)
        ) as local:
            yield local
    else:
        from pinnace.cli.connect import caller, open_cluster
        from pinnace.client.server import ServerBackend

        async with open_cluster(settings) as client:
            yield ServerBackend(client, settings.namespace, caller())
