"""Looking before a restore with a running server: dry runs, restores on trial, scheduled verification."""

import asyncio
import contextlib
import json
import shutil
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.stores.s3 import Bucket
from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import CONFIGMAPS, EVENTS, NAMESPACES, PODS, RESTORES, SECRETS, SERVICES, velero
from pinnace.volumes.uploader.passwords import REPOSITORY_SECRET_NAME, SECRET_KEY
from tests.e2e.without_server.command import Pinnace
from tests.support.servers.sites import Serve, Site
from tests.support.stores.golden import unpack
from tests.support.waiting import POLL_SECONDS, eventually

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.fixture
def pinnace(tmp_path: Path, control_plane: ControlPlane) -> Pinnace:
    folder = tmp_path / "command"
    folder.mkdir()
    return Pinnace(folder, kubeconfig=control_plane.kubeconfig, location=None)


async def test_a_schedule_has_its_newest_backup_verified(site: Site, serve: Serve, bucket: Bucket) -> None:
    await site.add_bucket(bucket)
    await site.add_maps()
    server = await serve()
    await site.create("backups", "b1", spec=site.maps_of(), labels={labels.SCHEDULE_NAME: "yearly"})
    assert (await site.reached("backups", "b1"))["status"]["phase"] == "Completed"
    spec = {"schedule": "0 0 1 1 *", "template": site.maps_of()}
    due = {labels.VERIFY: "@every 1h", labels.LAST_VERIFICATION: "2020-01-01T00:00:00Z sound"}
    await site.create("schedules", "yearly", spec=spec, annotations=due)

    async def is_said(result: str) -> bool:
        notes = (await site.get("backups", "b1"))["metadata"].get("annotations") or {}
        return str(notes.get(labels.VERIFIED, "")).endswith(f" {result}")

    async def is_noted() -> bool:
        notes = (await site.get("schedules", "yearly"))["metadata"]["annotations"]
        return str(notes[labels.LAST_VERIFICATION]).endswith(" sound b1")

    await eventually(lambda: is_said("sound"))
    await eventually(is_noted)  # otherwise the note would come after the annotation below
    folder = bucket.server.directory / "buckets" / bucket.name / "site/backups/b1"
    (folder / "b1.tar.gz").write_bytes(b"damaged")
    patch = {"metadata": {"annotations": due}}
    await site.client.patch(velero("schedules"), "yearly", patch, site.namespace)
    await eventually(lambda: is_said("unsound"))

    notes = (await site.get("backups", "b1"))["metadata"]["annotations"]
    assert "tarball" in notes[labels.VERIFICATION_FINDINGS]

    async def is_told() -> bool:
        events = await site.client.list_all(EVENTS, site.namespace)
        return {each["type"] for each in events if each["reason"] == "Verified"} == {"Normal", "Warning"}

    await eventually(is_told)
    series = 'pinnace_backup_verification_sound{schedule="yearly"} 0.0'

    async def is_counted() -> bool:
        return series in server.metrics.exposition().decode()

    await eventually(is_counted)


async def test_the_server_looks_for_the_data_of_volumes_on_request(
    site: Site, serve: Serve, pinnace: Pinnace, tmp_path: Path
) -> None:
    bucket = await site.add_folder()
    shutil.copytree(unpack("1.6.3", tmp_path / "golden"), bucket, dirs_exist_ok=True)
    password: JSONObject = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": REPOSITORY_SECRET_NAME},
        "stringData": {SECRET_KEY: "static-passw0rd"},
    }
    await site.client.create(SECRETS, password, site.namespace)
    await serve(backup_sync_period=Duration.seconds(1))

    async def is_synced() -> bool:
        backups = await site.client.list_all(velero("backups"), site.namespace)
        return "files" in {each["metadata"]["name"] for each in backups}

    await eventually(is_synced)

    async def verified(*flags: str) -> tuple[int, tuple[str, str]]:
        command = ("--namespace", site.namespace, "backup", "verify", "files", "-o", "json")
        done = await pinnace(*command, *flags)
        (found,) = json.loads(done.out)
        results = {each["check"]: (each["result"], each["details"]) for each in found["checks"]}
        assert results["tarball"][0] == "ok"
        return done.code, results["restic snapshots"]

    assert await verified() == (0, ("ok", "1 snapshot"))
    assert await verified("--read-data", "100%") == (0, ("ok", "1 snapshot; 100% of the data read"))
    for snapshot in (bucket / "restic/files/snapshots").iterdir():
        snapshot.unlink()
    code, (result, details) = await verified()
    assert (code, result) == (1, "BAD")
    assert "of volume data of pod files/keeper is not in its repository" in details
    notes = (await site.get("backups", "files"))["metadata"]["annotations"]
    assert notes[labels.VERIFIED].endswith(" unsound")


async def test_a_command_cannot_look_for_volume_data_without_a_server(site: Site, pinnace: Pinnace) -> None:
    asked = await pinnace("--namespace", site.namespace, "backup", "verify", "b1", "--read-data", "10%")

    assert asked.code == 1
    assert f"no server can verify backups: there is none in namespace {site.namespace}" in asked.err


class Pods:
    """Makes the pods of scratch namespaces ready."""

    def __init__(self, client: KubeClient, backup: str) -> None:
        self._client = client
        self._selector = f"{labels.VERIFICATION}={backup}"
        self.services: list[JSONObject] = []

    async def work(self) -> None:
        while True:
            with contextlib.suppress(KubeError):  # the namespace goes
                for namespace in await self._client.list_all(NAMESPACES, label_selector=self._selector):
                    await self._make_ready(namespace["metadata"]["name"])
            await asyncio.sleep(POLL_SECONDS)

    async def _make_ready(self, namespace: str) -> None:
        self.services += await self._client.list_all(SERVICES, namespace)
        for pod in await self._client.list_all(PODS, namespace):
            name = pod["metadata"]["name"]
            await self._client.patch(PODS, name, {"status": READY}, namespace, subresource="status")


async def test_a_server_does_what_the_dry_runs_said(
    site: Site, serve: Serve, bucket: Bucket, pinnace: Pinnace, other_namespace: str
) -> None:
    await site.add_bucket(bucket)
    await _fill(site.client, other_namespace)
    await serve()
    server = ("--namespace", site.namespace)
    backup = f"b-{site.namespace}"
    create = (*server, "backup", "create", backup, "--include-namespaces", other_namespace)

    said = await pinnace(*create, "--dry-run", "-o", "json")
    assert (said.code, said.told) == (0, "")
    made = await pinnace(*create, "--wait", "--storage-location", "default")
    assert made.code == 0, made.err

    expected: dict[tuple[str, str], int] = {}
    for each in json.loads(said.out)["items"]:
        expected[each["resource"], each["namespace"]] = each["items"]
    held: dict[tuple[str, str], int] = {}
    for item in json.loads((await pinnace(*server, "backup", "ls", backup, "-o", "json")).out):
        place = item["resource"], item.get("namespace") or ""
        held[place] = held.get(place, 0) + 1
    assert expected == held

    await site.client.patch(CONFIGMAPS, "changes", {"data": {"x": "2"}}, other_namespace)
    await site.client.delete(CONFIGMAPS, "goes", other_namespace)
    restore = (*server, "restore", "create", "r1", "--from-backup", backup)
    before = await site.client.list_all(CONFIGMAPS, other_namespace)
    foreseen = [
        json.loads((await pinnace(*restore, flag, "-o", "json")).out)
        for flag in ("--dry-run", "--dry-run=server")
    ]
    client_side = await pinnace(*restore, "--dry-run=client", "-o", "json")
    assert json.loads(client_side.out)["spec"]["backupName"] == backup
    assert await site.client.list_all(CONFIGMAPS, other_namespace) == before
    assert await site.client.list_all(RESTORES, site.namespace) == []

    done = await pinnace(*restore, "--wait")
    assert done.code == 0, done.err
    described = await pinnace(*server, "restore", "describe", "r1", "--details", "-o", "json")
    happened = _outcomes(json.loads(described.out)["status"]["resourceList"])
    assert happened["v1/ConfigMap", f"{other_namespace}/goes"] == "created"
    for each in foreseen:
        assert {(o["kind"], o["name"]): o["outcome"] for o in each["objects"]} == happened

    await site.client.delete(RESTORES, "r1", site.namespace)
    pods = Pods(site.client, backup)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(pods.work())
        verified = await pinnace(*server, "backup", "verify", backup, "--restore", "-o", "json")
        working.cancel()
    (found,) = json.loads(verified.out)
    results = {each["check"]: (each["result"], each["details"]) for each in found["checks"]}
    assert (verified.code, verified.told) == (0, ""), results
    assert results[f"Pod {other_namespace}/web"] == ("ok", "ready")
    assert {each["spec"]["type"] for each in pods.services} == {"ClusterIP"}
    assert await site.client.list_all(RESTORES, site.namespace) == []
    assert [each for each in await site.client.list_all(CONFIGMAPS, site.namespace) if _is_ours(each)] == []
    selector = f"{labels.VERIFICATION}={backup}"
    assert await site.client.list_all(NAMESPACES, label_selector=selector) == []


async def _fill(client: KubeClient, namespace: str) -> None:
    for name in ("changes", "goes", "stays"):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "1"}}
        await client.create(CONFIGMAPS, body, namespace)
    spec: JSONObject = {"containers": [{"name": "c", "image": "registry.example.com/none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    await client.create(PODS, pod, namespace)
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    await client.create(SERVICES, service, namespace)


def _is_ours(config_map: JSONObject) -> bool:
    return labels.VERIFICATION in (config_map["metadata"].get("labels") or {})


def _outcomes(listed: dict[str, list[str]]) -> dict[tuple[str, str], str]:
    """By kind and name, from `name(outcome: reason)`."""
    found = {}
    for kind, titles in listed.items():
        for title in titles:
            name, _, said = title.removesuffix(")").partition("(")
            found[kind, name] = said.partition(":")[0]
    return found
