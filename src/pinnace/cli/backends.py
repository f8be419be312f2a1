"""Opens the backend that the settings ask for: the only module that knows both a server and a location."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING

from pinnace.cli.settings import Settings
from pinnace.client.interface import Backend

if TYPE_CHECKING:
    from pinnace.client.sealed_downloads import ReaderEncryption
    from pinnace.client.server import ServerBackend
    from pinnace.kube.client import KubeClient
    from pinnace.storage.encryption import Encryption


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
        from pinnace.cli.connect import open_cluster

        async with open_cluster(settings) as client:
            yield server_backend(client, settings)


def server_backend(client: "KubeClient", settings: Settings) -> "ServerBackend":
    """The server in the cluster; what is encrypted is opened by the identities of the settings."""
    from pinnace.cli.connect import caller
    from pinnace.client.server import ServerBackend

    return ServerBackend(client, settings.namespace, caller(), encryption=encryption_of(settings))


def encryption_of(settings: Settings) -> "ReaderEncryption":
    """How files are opened that turn out to be encrypted; until then no identity is read."""

    def encryption() -> "Encryption":
        from pinnace.cli.identities import reading_encryption

        return reading_encryption(settings)

    return cache(encryption)
