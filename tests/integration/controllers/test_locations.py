"""Locations and requests of a running server, in folders and in buckets."""

import gzip

import aiohttp
import pytest

from hack.cluster.stores.s3 import Bucket
from pinnace import __version__
from pinnace.kube.resources import SECRETS, velero
from pinnace.plugins.kinds import PluginKind
from tests.support.servers.sites import Serve, Site


@pytest.mark.spec("CTL-059", "API-018")
async def test_the_servers_default_becomes_the_default(site: Site, serve: Serve) -> None:
    await site.add_folder("default")
    await site.add_folder("other")
    await serve()
    for name in ("default", "other"):
        await site.reached("backupstoragelocations", name, "Available")

    found = {name: (await site.get("backupstoragelocations", name))["spec"] for name in ("default", "other")}

    assert found["default"]["default"] is True
    assert "default" not in found["other"]
    # What the store was opened with is not written back.
    assert set(found["default"]["config"]) == {"path"}


@pytest.mark.spec("API-035", "STO-024")
async def test_one_broken_location_does_not_hide_the_others(
    site: Site, serve: Serve, other_namespace: str
) -> None:
    metadata = {"name": "absent"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"cloud": "x"}}
    await site.client.create(SECRETS, secret, other_namespace)
    await site.add_folder("a-broken", credential={"name": "absent", "key": "cloud"})
    await site.add_folder("b-good")
    await serve()

    broken = await site.reached("backupstoragelocations", "a-broken", "Unavailable")
    await site.reached("backupstoragelocations", "b-good", "Available")

    assert 'Secret "absent" not found' in broken["status"]["message"]
    assert "lastValidationTime" in broken["status"]


async def test_a_location_is_looked_at_when_it_is_new_edited_or_due(site: Site, serve: Serve) -> None:
    await serve()
    folder = await site.add_folder("later", validationFrequency="1s")
    await site.reached("backupstoragelocations", "later", "Available")
    patch = {"spec": {"provider": "nobody"}}
    await site.client.patch(velero("backupstoragelocations"), "later", patch, site.namespace)
    edited = await site.reached("backupstoragelocations", "later", "Unavailable")
    assert edited["status"]["message"] == "unable to locate ObjectStore plugin named velero.io/nobody"

    patch = {"spec": {"provider": "pinnace.io/filesystem"}}
    await site.client.patch(velero("backupstoragelocations"), "later", patch, site.namespace)
    await site.reached("backupstoragelocations", "later", "Available")
    (folder / "foreign").mkdir(parents=True)
    (folder / "foreign/file").touch()
    await site.reached("backupstoragelocations", "later", "Unavailable")


async def test_a_bucket_is_opened_with_the_credentials_of_a_secret(
    site: Site, serve: Serve, bucket: Bucket
) -> None:
    credentials = bucket.server.credentials
    await site.add_bucket(bucket, validationFrequency="1s")
    await serve()
    await site.reached("backupstoragelocations", "default", "Available")

    wrong = "[default]\naws_access_key_id = nobody\naws_secret_access_key = topsecret\n"
    patch = {"stringData": {"cloud": wrong}}
    await site.client.patch(SECRETS, "cloud-credentials", patch, site.namespace)
    location = await site.reached("backupstoragelocations", "default", "Unavailable")

    message = location["status"]["message"]
    assert message
    for secret in ("topsecret", credentials.secret_access_key):
        assert secret not in message


@pytest.mark.spec("CTL-060", "STO-023", "API-031")
async def test_every_file_can_be_downloaded_from_a_bucket(site: Site, serve: Serve, bucket: Bucket) -> None:
    await site.add_bucket(bucket)
    await site.add_maps()
    await serve()
    await site.create("backups", "my-backup", spec=site.maps_of())
    await site.reached("backups", "my-backup", "Completed")
    await site.create("restores", "r", spec={"backupName": "my-backup"})
    await site.reached("restores", "r", "Completed")
    files = {
        "BackupLog": "backups/my-backup/my-backup-logs.gz",
        "BackupContents": "backups/my-backup/my-backup.tar.gz",
        "BackupVolumeSnapshots": "backups/my-backup/my-backup-volumesnapshots.json.gz",
        "BackupResourceList": "backups/my-backup/my-backup-resource-list.json.gz",
        "RestoreLog": "restores/r/restore-r-logs.gz",
        "RestoreResults": "restores/r/restore-r-results.gz",
    }
    for kind in files:
        target = {"kind": kind, "name": "r" if kind.startswith("Restore") else "my-backup"}
        await site.create("downloadrequests", kind.lower(), spec={"target": target})

    async with aiohttp.ClientSession(auto_decompress=False) as session:
        for kind, key in files.items():
            request = await site.reached("downloadrequests", kind.lower(), "Processed")
            url = request["status"]["downloadURL"]
            assert f"/{bucket.name}/site/{key}?" in url
            assert "expiration" in request["status"]
            async with session.get(url) as response:
                assert response.status == 200
                gzip.decompress(await response.read())


@pytest.mark.spec("CTL-061")
async def test_a_server_says_its_version_and_its_actions(site: Site, serve: Serve) -> None:
    await serve()
    await site.create("serverstatusrequests", "s1")

    status = (await site.reached("serverstatusrequests", "s1", "Processed"))["status"]

    assert status["serverVersion"] == f"v{__version__}"
    kinds = [plugin["kind"] for plugin in status["plugins"]]
    order = [kind.value for kind in PluginKind]
    assert kinds == sorted(kinds, key=order.index)
    assert {"name": "velero.io/service-account", "kind": "BackupItemAction"} in status["plugins"]
    assert {"name": "velero.io/service-account", "kind": "RestoreItemAction"} in status["plugins"]


async def test_objects_of_other_namespaces_are_left_alone(site: Site, serve: Serve) -> None:
    """Two servers in one cluster do not answer each other's requests. (docs/spec: CTL 2.2)"""
    await serve()
    await site.create("serverstatusrequests", "s1")
    foreign = {
        "apiVersion": "velero.io/v1",
        "kind": "ServerStatusRequest",
        "metadata": {"name": site.namespace, "namespace": "default"},
    }
    resource = velero("serverstatusrequests")
    await site.client.create(resource, foreign, "default")
    await site.reached("serverstatusrequests", "s1", "Processed")

    untouched = await site.client.get(resource, site.namespace, "default")
    await site.client.delete(resource, site.namespace, "default")

    assert "status" not in untouched
