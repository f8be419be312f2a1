"""Locations that accept connections and never answer, beside others, in a running server."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pinnace.controllers import storage_location
from pinnace.controllers.shared import availability
from pinnace.kube.resources import SECRETS, velero
from tests.support.sites import Serve, Site

STUCK = 8
QUEUED = 20


@asynccontextmanager
async def silence() -> AsyncIterator[str]:
    """The URL of a server that accepts connections, reads, and never answers."""
    writers = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        while await reader.read(65536):
            pass

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for writer in writers:
            writer.close()


async def add_stuck(site: Site, name: str, url: str) -> None:
    await site.create(
        "backupstoragelocations",
        name,
        spec={
            "provider": "aws",
            "config": {"region": "us-east-1", "s3Url": url, "s3ForcePathStyle": "true"},
            "objectStorage": {"bucket": "never"},
            "credential": {"name": "keys", "key": "cloud"},
        },
    )


async def test_stuck_locations_hold_up_neither_validation_nor_backups_of_others(
    site: Site, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker; the honest location and backup come last in every line."""
    monkeypatch.setattr(availability, "LOOK_SECONDS", 1.0)
    monkeypatch.setattr(storage_location, "VALIDATION_SECONDS", 5.0)
    text = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "keys"},
        "stringData": {"cloud": text},
    }
    await site.client.create(SECRETS, secret, site.namespace)
    async with silence() as url:
        for number in range(STUCK):
            await add_stuck(site, f"a-stuck-{number}", url)
        await site.add_folder("z-honest")
        await serve()
        started = time.monotonic()
        await site.reached("backupstoragelocations", "z-honest", "Available")
        assert time.monotonic() - started < storage_location.VALIDATION_SECONDS
        stuck = await site.reached("backupstoragelocations", "a-stuck-0", "Unavailable")
        assert stuck["status"]["message"]

        selection = {"includedNamespaces": [site.namespace], "includedResources": ["configmaps"]}
        for number in range(QUEUED):
            await site.create("backups", f"b-{number}", spec={"storageLocation": "a-stuck-0", **selection})
        await site.create("backups", "honest", spec={"storageLocation": "z-honest", **selection})
        honest = await site.reached("backups", "honest")
        assert honest["status"]["phase"] == "Completed"
        for number in range(QUEUED):
            refused = await site.reached("backups", f"b-{number}")
            assert refused["status"]["phase"] == "FailedValidation"
            [error] = refused["status"]["validationErrors"]
            assert "BackupStorageLocation a-stuck-0 is in Unavailable status. " in error
        assert len(await site.client.list_all(velero("backups"), site.namespace)) == QUEUED + 1
