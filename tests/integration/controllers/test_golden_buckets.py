"""Buckets that were written before, handed to a server: synced, restored to the last field, deleted.

By real Velero servers, and by earlier versions of this program.
"""

import base64
import json
import os
import shutil
import tarfile
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hack.cluster import binaries
from hack.cluster.stores.s3 import Bucket
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS, SERVICES
from pinnace.storage.open import open_object_store
from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.passwords import SECRET_KEY
from tests.support.servers.sites import Serve, Site
from tests.support.stores.golden import EARLIER, VERSIONS, WHOLE_FOLDER, archive, unpack, upload
from tests.support.volumes.volume_labs import cloud_lab
from tests.support.waiting import eventually

BACKUP = "from-schedule"
SPACES = ("shop", "shop-data", "shop-ops")
PASSWORD = "static-passw0rd"
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
@pytest.mark.parametrize("version", [*VERSIONS, "main", *EARLIER])
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


@pytest.mark.found("G3")
@pytest.mark.spec("AFT-130", "AFT-132")
@pytest.mark.parametrize(
    ("version", "mover", "saved_from", "backup", "forgotten"),
    [
        (
            "main-csi",
            "velero-fs",
            "drives",
            "moved",
            {"a9a2eb60f7e31f52cd131dad178f3fb1", "aec4dc23b476195d2dd2e8b09dfce848"},
        ),
        (
            "main-block",
            "velero-block",
            "blocks",
            "block-first",
            {"ad645a5e81eb03337446409c09dca862", "8d0865371649f8e78386e1d24e8f9378"},
        ),
    ],
    ids=["velero-fs", "velero-block"],
)
async def test_a_server_deletes_backups_of_main_with_the_snapshots_of_their_moved_data(
    site: Site,
    serve: Serve,
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    mover: str,
    saved_from: str,
    backup: str,
    forgotten: set[str],
) -> None:
    if archive(version) is None:
        pytest.skip(f"velero-{version}.tar.gz is not in tests/golden, nor in ${WHOLE_FOLDER}")
    program = binaries.locate(binaries.UPLOADER)["kopia"]
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    place = {"bucket": bucket.name}
    store = open_object_store(
        "aws",
        {
            **bucket.location_config,
            **place,
            "credentialsFile": str(bucket.server.credentials_file),
        },
    )
    try:
        await upload(version, tmp_path / "golden", store)
    finally:
        await store.close()
    password = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "velero-repo-credentials", "namespace": site.namespace},
        "data": {SECRET_KEY: base64.b64encode(PASSWORD.encode()).decode()},
    }
    await site.client.create(SECRETS, password, site.namespace)
    await site.add_bucket(bucket, objectStorage=place)
    lab = cloud_lab(tmp_path, bucket)
    lab.cluster.stored("backupstoragelocations", "default")["spec"]["objectStorage"] = place
    lab.set_password(PASSWORD)
    kopia = Kopia(lab.accesses, program=str(program))
    before = await kopia.snapshot_ids(Repository(location="default", namespace=saved_from))
    assert forgotten < before

    await serve(uploader="kopia", backup_sync_period=Duration.seconds(1))
    await eventually(partial(synced, site, backup))
    assert (await site.get("backups", backup))["spec"]["datamover"] == mover
    await site.create("deletebackuprequests", "d1", spec={"backupName": backup})
    await site.gone("backups", backup)

    assert (
        await kopia.snapshot_ids(Repository(location="default", namespace=saved_from)) == before - forgotten
    )
