"""Hours in the life of two clusters with one location: at the end nothing is lost, and nothing leaked."""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.stores.s3 import Bucket
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, velero
from tests.e2e.without_server.command import Pinnace
from tests.integration.scenario.fleet import Cluster, is_expired, pass_time, serving
from tests.support.clock import FakeClock
from tests.support.cluster.crds import ensure_crds
from tests.support.servers.lives import keys_in, objects_of
from tests.support.servers.sites import Site

STEP_MINUTES = 10
HOURS = 3
MOST_LOOKS = 5

SCHEDULES = {
    "half-hourly": "@every 30m",
    "hourly": "@every 1h",
    "by-the-clock": "0 * * * *",
    "nightly": "0 3 * * *",
    "often": "@every 20m",
    "never": "0 0 30 2 *",
    "to-be-fixed": "every other day",
    "to-be-deleted": "@every 30m",
}


@pytest.fixture
async def fleet(
    site: Site, second_client: KubeClient, bucket: Bucket, tmp_path: Path
) -> AsyncIterator[dict[str, Cluster]]:
    """The first cluster makes backups; the second finds them."""
    await ensure_crds(second_client)
    name = f"test-{secrets.token_hex(4)}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await second_client.create(NAMESPACES, namespace)
    (tmp_path / "second").mkdir()
    clock = FakeClock(now=datetime.now(UTC).replace(microsecond=0))  # API servers date objects themselves
    first, second = Cluster(site, clock), Cluster(Site(second_client, name, tmp_path / "second"), clock)
    for cluster in (first, second):
        await cluster.site.add_bucket(bucket, default=True)
    yield {"first": first, "second": second}
    await second_client.delete(NAMESPACES, name)


async def plant(bucket: Bucket) -> set[str]:
    """Put leftovers of a crash and an attacker's files into the bucket: at most a harmless Backup results."""
    status = {
        "phase": "Completed",
        "startTimestamp": "2021-08-11T21:43:26Z",
        "completionTimestamp": "2021-08-11T21:43:27Z",
    }
    forged = {
        "name": "half-hourly",
        "namespace": "kube-system",
        "uid": "no-uid",
        "resourceVersion": "1",
        "finalizers": ["example.com/for-ever"],
        "labels": {"velero.io/storage-location": "elsewhere"},
        "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Schedule", "name": "hourly", "uid": "x"}],
    }

    def backup(metadata: JSONObject, **members: Any) -> bytes:
        return json.dumps(
            {"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata, "spec": {}, **members}
        ).encode()

    planted = {
        "half/half-logs.gz": b"the upload ended here",
        "half/half.tar.gz": b"and here",
        "new/velero-backup.json": backup({"name": "new"}, status={"phase": "New"}),
        "garbage/velero-backup.json": b"{",
        "other/velero-backup.json": json.dumps({"apiVersion": "v1", "kind": "Secret"}).encode(),
        "forged/velero-backup.json": backup(forged, status=status),
    }
    objects = objects_of(bucket)
    for key, body in planted.items():
        await objects.put(f"site/backups/{key}", body)
    await objects.close()
    return {f"site/backups/{key}" for key in planted}


async def remove(bucket: Bucket, backup: str) -> None:
    """Delete the files of a backup, as a user does by hand."""
    objects = objects_of(bucket)
    for key in await objects.list_keys(f"site/backups/{backup}/"):
        await objects.delete(key)
    await objects.close()


async def test_two_clusters_with_one_location_lose_and_leak_nothing(
    fleet: dict[str, Cluster], bucket: Bucket, control_plane: ControlPlane, tmp_path: Path
) -> None:
    first, second, clock = fleet["first"], fleet["second"], fleet["first"].clock
    site, start = first.site, clock.now()
    (tmp_path / "command").mkdir()
    command = Pinnace(
        tmp_path / "command",
        kubeconfig=control_plane.kubeconfig,
        location=None,
        environ={"VELERO_NAMESPACE": site.namespace},
    )
    for name, cron in SCHEDULES.items():
        template = site.maps_of(ttl="2h", storageLocation="default")
        spec = {"schedule": cron, "template": template, "useOwnerReferencesInBackup": name == "hourly"}
        await site.create("schedules", name, spec=spec)
    planted: set[str] = set()
    removed: set[str] = set()

    async with AsyncExitStack() as servers:
        running = {name: await servers.enter_async_context(AsyncExitStack()) for name in fleet}
        for name, cluster in fleet.items():
            await running[name].enter_async_context(serving(cluster))
        for step in range(1, HOURS * 60 // STEP_MINUTES + 1):
            await pass_time(clock, fleet, STEP_MINUTES)
            match step:
                case 3:
                    planted = await plant(bucket)
                    fixed = {"spec": {"schedule": "@every 1h"}}
                    await site.client.patch(velero("schedules"), "to-be-fixed", fixed, site.namespace)
                case 5:
                    victim = min(name for name in first.seen if name.startswith("often-"))
                    outcome = await command("backup", "delete", victim, "--confirm")
                    assert outcome.code == 0
                    removed.add(victim)
                case 7:
                    source = min(name for name in second.seen if name.startswith("half-hourly-"))
                    await restore(second, site.namespace, source)
                case 9:
                    await running["first"].aclose()
                    clock.turn(45 * 60)
                    await running["first"].enter_async_context(serving(first))
                case 11:
                    outcome = await command("schedule", "delete", "to-be-deleted", "--confirm")
                    assert outcome.code == 0
                case 13:
                    alive = await first.objects("backups")
                    lost = max(name for name in alive if name.startswith("often-"))
                    await remove(bucket, lost)
                    removed.add(lost)
                case 15:
                    await running["second"].aclose()
                    await running["second"].enter_async_context(serving(second))
        # Each server must still see the last step of the other, and new backups are made all the time.
        for _ in range(MOST_LOOKS):
            if await agreed(fleet, bucket, planted):
                break
            await pass_time(clock, fleet, 1)

        assert await agreed(fleet, bucket, planted)
        await harmless(fleet, bucket, planted)
        await complete(first, start, removed)
        await restore(second, site.namespace, max(await second.objects("backups")))
        await restore(
            first, site.namespace, min(name for name in await first.objects("backups") if name != "forged")
        )


async def restore(cluster: Cluster, source_namespace: str, backup: str) -> None:
    """Restore into the namespace of the cluster's server."""
    name = f"restore-{secrets.token_hex(4)}"
    mapping = {source_namespace: cluster.site.namespace}
    await cluster.site.create("restores", name, spec={"backupName": backup, "namespaceMapping": mapping})
    restore = await cluster.site.reached("restores", name)
    assert restore["status"]["phase"] == "Completed", (backup, restore["status"])
    maps = {
        obj["metadata"]["name"]
        for obj in await cluster.site.client.list_all(CONFIGMAPS, cluster.site.namespace)
    }
    assert maps >= {"map-0", "map-1", "map-2"}


async def agreed(fleet: dict[str, Cluster], bucket: Bucket, planted: set[str]) -> bool:
    """Whether the bucket holds the backups of both clusters and the planted files, and nothing else."""
    keys = set(await keys_in(bucket)) - planted
    stored = {key.split("/")[2] for key in keys if key.startswith("site/backups/")} | {"forged"}
    restores = {key.split("/")[2] for key in keys if key.startswith("site/restores/")}
    known = [set(await cluster.objects("backups")) for cluster in fleet.values()]
    own = {name for cluster in fleet.values() for name in await cluster.objects("restores")}
    return known == [stored, stored] and restores == own


async def harmless(fleet: dict[str, Cluster], bucket: Bucket, planted: set[str]) -> None:
    """Assert that the planted files are unchanged, and that the forged Backup got nothing that it claimed."""
    assert planted <= set(await keys_in(bucket))
    for cluster in fleet.values():
        forged = (await cluster.objects("backups"))["forged"]["metadata"]
        assert forged["namespace"] == cluster.site.namespace
        assert forged["labels"] == {"velero.io/storage-location": "default"}
        assert "finalizers" not in forged
        assert "ownerReferences" not in forged


async def complete(cluster: Cluster, start: Any, removed: set[str]) -> None:
    """All backups that were due were made, and exist until a user deletes them or they expire."""
    now, backups = cluster.clock.now(), await cluster.objects("backups")
    made = {name: obj for name, obj in cluster.seen.items() if name != "forged"}
    assert {obj["status"]["phase"] for obj in made.values()} <= {"Completed", "Deleting"}
    for name, obj in made.items():
        if name in removed or is_expired(obj, now - timedelta(hours=1)):
            assert name not in backups
        elif not is_expired(obj, now):
            assert name in backups
    runs = {name: sum(each.rpartition("-")[0] == name for each in made) for name in SCHEDULES}
    hours = (now - start) / timedelta(hours=1)
    # A run whose time passed while the server was away, or between two steps, comes later, and once.
    assert hours * 2 - 3 <= runs["half-hourly"] <= hours * 2 + 1
    assert hours - 2 <= runs["hourly"] <= hours + 1
    assert hours - 2 <= runs["by-the-clock"] <= hours + 2
    # Its first run is the first time at three after its creation.
    assert runs["nightly"] <= 1
    assert runs["never"] == 0
    assert runs["to-be-fixed"] >= hours - 2
    phases = {name: obj["status"]["phase"] for name, obj in (await cluster.objects("schedules")).items()}
    expected = dict.fromkeys(SCHEDULES.keys() - {"to-be-deleted"}, "Enabled")
    assert phases == {**expected, "never": "FailedValidation"}
