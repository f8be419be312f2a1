"""Locations that accept connections and never answer, beside others, in a running server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hack.cluster.faults import Stall
from hack.cluster.stores.s3 import Bucket
from pinnace.controllers import storage_location
from pinnace.controllers.shared import availability
from pinnace.kube.resources import SECRETS, velero
from tests.support.servers.sites import Serve, Site, StartProxy
from tests.support.waiting import eventually

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
    """There is one worker; the honest location and its backup are last in every queue."""
    monkeypatch.setattr(availability, "LOOK_SECONDS", 3.0)
    monkeypatch.setattr(storage_location, "VALIDATION_SECONDS", 20.0)
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
        await site.reached("backupstoragelocations", "z-honest", "Available")
        listed = await site.client.list_all(velero("backupstoragelocations"), site.namespace)
        phases = {obj["metadata"]["name"]: obj.get("status", {}).get("phase") for obj in listed}
        assert set(phases.values()) == {"Available", None}, "no stuck location was judged before"
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


async def test_stalled_uploads_do_not_hold_the_only_worker(
    site: Site, serve: Serve, bucket: Bucket, fault_proxy: StartProxy
) -> None:
    """Two uploads use all slots of their location, the third backup waits for them."""
    proxy = await fault_proxy(bucket.server)
    await site.add_bucket(bucket, "stuck", config={**bucket.location_config, "s3Url": proxy.url})
    await site.add_folder("honest")
    await site.add_maps()
    await serve()
    held = proxy.rules.add(Stall(), method="PUT", path=r"\.tar\.gz$")
    for number in range(3):
        await site.create("backups", f"stuck-{number}", spec=site.maps_of(storageLocation="stuck"))
    await held.struck()

    async def two_upload() -> bool:
        return held.hits == 2

    await eventually(two_upload)
    await site.create("backups", "honest", spec=site.maps_of(storageLocation="honest"))

    assert (await site.reached("backups", "honest"))["status"]["phase"] == "Completed"
    phases = [(await site.get("backups", f"stuck-{n}")).get("status", {}).get("phase") for n in range(3)]
    assert phases.count("InProgress") == 2
    assert not {"Completed", "Failed", "PartiallyFailed"} & set(phases)
    held.release()
    for number in range(3):
        assert (await site.reached("backups", f"stuck-{number}"))["status"]["phase"] == "Completed"


@pytest.mark.parametrize("asked", ["GET", "PUT"], ids=["download", "upload"])
async def test_a_restore_that_waits_for_its_location_does_not_hold_the_only_worker(
    site: Site, serve: Serve, bucket: Bucket, fault_proxy: StartProxy, other_namespace: str, asked: str
) -> None:
    """The Restores are into different namespaces: two into one would wait for each other."""
    proxy = await fault_proxy(bucket.server)
    await site.add_bucket(bucket, "stuck", config={**bucket.location_config, "s3Url": proxy.url})
    await site.add_folder("honest")
    await site.add_maps()
    await serve()
    for name in ("stuck", "honest"):
        await site.create("backups", name, spec=site.maps_of(storageLocation=name))
        assert (await site.reached("backups", name))["status"]["phase"] == "Completed"
    path = r"\.tar\.gz$" if asked == "GET" else "/restores/stuck/"
    held = proxy.rules.add(Stall(), method=asked, path=path)
    target = {"includedNamespaces": [site.namespace]}
    await site.create("restores", "stuck", spec={"backupName": "stuck", **target})
    await held.struck()
    mapped = {"namespaceMapping": {site.namespace: other_namespace}}
    await site.create("restores", "honest", spec={"backupName": "honest", **target, **mapped})

    assert (await site.reached("restores", "honest"))["status"]["phase"] == "Completed"
    assert (await site.get("restores", "stuck"))["status"]["phase"] == "InProgress"
    held.release()
    assert (await site.reached("restores", "stuck"))["status"]["phase"] == "Completed"


async def test_a_backup_whose_location_stalls_at_first_does_not_hold_the_only_worker(
    site: Site, serve: Serve, bucket: Bucket, fault_proxy: StartProxy
) -> None:
    """The location was Available before, but the first request of the backup is not answered."""
    proxy = await fault_proxy(bucket.server)
    await site.add_bucket(bucket, "stuck", config={**bucket.location_config, "s3Url": proxy.url})
    await site.add_folder("honest")
    await site.add_maps()
    await serve()
    await site.reached("backupstoragelocations", "stuck", "Available")
    held = proxy.rules.add(Stall(), path="/backups/stuck/")
    await site.create("backups", "stuck", spec=site.maps_of(storageLocation="stuck"))
    await held.struck()
    await site.create("backups", "honest", spec=site.maps_of(storageLocation="honest"))

    assert (await site.reached("backups", "honest"))["status"]["phase"] == "Completed"
    assert (await site.get("backups", "stuck"))["status"]["phase"] == "InProgress"
    held.release()
    assert (await site.reached("backups", "stuck"))["status"]["phase"] == "Completed"
