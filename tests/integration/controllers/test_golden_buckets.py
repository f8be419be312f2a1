"""Buckets that were written before, handed to a server: synced, restored to the last field, deleted.

By real Velero servers, and by earlier versions of this program.
"""

import json
import shutil
import tarfile
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SERVICES
from tests.support.servers.sites import Serve, Site
from tests.support.stores.golden import EARLIER, VERSIONS, unpack
from tests.support.waiting import eventually

BACKUP = "from-schedule"
SPACES = ("shop", "shop-data", "shop-ops")
IGNORED = ("events", "events.events.k8s.io", "endpoints")
MADE_ANEW = {"kube-root-ca.crt", "default"}
"""The objects that the cluster itself puts into each namespace."""
UNCHANGED = (
    "configmaps",
    "secrets",
    "promotions.shop.example.com",
    "deployments.apps",
    "statefulsets.apps",
    "ingresses.networking.k8s.io",
    "limitranges",
    "resourcequotas",
    "networkpolicies.networking.k8s.io",
    "poddisruptionbudgets.policy",
    "roles.rbac.authorization.k8s.io",
)
"""Kinds that come back with every field that they had."""
_OF_THE_CLUSTER = ("metadata", "status", "kind", "apiVersion")


def stored(tarball: Path) -> Iterator[tuple[str, JSONObject]]:
    """The namespaced objects of a backup, each with its kind as `plural.group`."""
    with tarfile.open(tarball) as archive:
        for member in archive:
            parts = Path(member.name).parts
            if len(parts) == 5 and parts[2] == "namespaces":
                content = archive.extractfile(member)
                assert content is not None
                yield parts[1], json.load(content)


@pytest.fixture
async def target(client: KubeClient, namespace: str) -> AsyncIterator[str]:
    """The beginning of the names of namespaces to restore into."""
    yield namespace
    for space in SPACES:
        name = f"{namespace}-{space}"
        for service in await client.list_all(SERVICES, name):  # their node ports are needed again at once
            await client.delete(SERVICES, service["metadata"]["name"], name)
        try:
            await client.delete(NAMESPACES, name)
        except NotFound:
            continue
    try:
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, "promotions.shop.example.com")
    except NotFound:
        return


async def synced(site: Site, name: str) -> bool:
    try:
        await site.get("backups", name)
    except NotFound:
        return False
    return True


def summary(obj: JSONObject) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in _OF_THE_CLUSTER}


@pytest.mark.found("DOC21")
@pytest.mark.parametrize(
    "version", [*VERSIONS, pytest.param("main", marks=pytest.mark.spec("AFT-130")), *EARLIER]
)
async def test_a_bucket_that_was_written_before_is_synced_restored_to_the_last_field_and_deleted(
    site: Site, serve: Serve, client: KubeClient, tmp_path: Path, target: str, version: str
) -> None:
    bucket = await site.add_folder()
    shutil.copytree(unpack(version, tmp_path / "golden"), bucket, dirs_exist_ok=True)
    names = sorted(path.name for path in (bucket / "backups").iterdir())
    tarball = shutil.copy(bucket / f"backups/{BACKUP}/{BACKUP}.tar.gz", tmp_path)
    await serve(backup_sync_period=Duration.seconds(1))
    for name in names:
        await eventually(partial(synced, site, name))
    phases = {name: (await site.get("backups", name))["status"]["phase"] for name in names}
    assert phases == {
        name: json.loads((bucket / f"backups/{name}/velero-backup.json").read_text())["status"]["phase"]
        for name in names
    }

    mapping = {space: f"{target}-{space}" for space in SPACES}
    await site.create(
        "restores",
        "r1",
        spec={
            "backupName": BACKUP,
            "namespaceMapping": mapping,
            "excludedResources": ["persistentvolumes"],
        },
    )
    restore = await site.reached("restores", "r1")

    assert (restore["status"]["phase"], restore["status"].get("errors", 0)) == ("Completed", 0)
    discovery = await Discovery.load(client)
    compared = 0
    for kind, obj in stored(Path(tarball)):
        meta = obj["metadata"]
        if kind in IGNORED or meta["name"] in MADE_ANEW or "ownerReferences" in meta:
            continue  # controllers replace what they own
        resource = discovery.resolve(kind)
        found = await client.get(resource, meta["name"], mapping[meta["namespace"]])
        if kind in UNCHANGED and obj.get("type") != "kubernetes.io/service-account-token":  # filled again
            assert summary(found) == summary(obj), (kind, meta["name"])
            assert (meta.get("labels") or {}).items() <= found["metadata"]["labels"].items()
            compared += 1
    assert compared >= 19
    await site.create("deletebackuprequests", "d1", spec={"backupName": BACKUP})
    await site.gone("backups", BACKUP)
    assert sorted(path.name for path in bucket.glob("backups/*")) == [
        name for name in names if name != BACKUP
    ]
    assert not (bucket / "restores/r1").exists()
