"""A server with real restic: volumes of pods are saved, restored and forgotten. The agent is the test's."""

import asyncio
import base64
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.codec import decode
from pinnace.api.objects import JSONObject
from pinnace.api.pod_volume_catalogue import SavedSnapshot
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.controllers.shared.options import RESTIC_PRUNE_FREQUENCY
from pinnace.controllers.shared.pod_volumes import PodVolumes
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import PODS, SECRETS, velero
from pinnace.server.monitoring.metrics import ServerMetrics
from pinnace.volumes.repositories import Repositories
from pinnace.volumes.restic.client import Restic
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.locks import RepositoryLocks
from pinnace.volumes.uploader.output import Progress
from pinnace.volumes.uploader.passwords import SECRET_KEY, SECRET_NAME
from tests.support.servers.sites import Serve, Site
from tests.support.waiting import POLL_SECONDS, eventually

ORDERS = {"podvolumebackups": "back_up", "podvolumerestores": "restore"}

pytestmark = pytest.mark.skipif(
    shutil.which("restic") is None, reason="restic is not installed (Debian: apt-get install restic)"
)


class Agent:
    """Processes the PodVolumeBackups and PodVolumeRestores of all nodes, in the simplest way.

    Attributes:
        fails: they end as Failed.
    """

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.fails = False
        self.volumes = folder / "volumes"
        work = folder / "agent"
        work.mkdir()
        self.restic = Restic(AccessProvider(site.client, site.namespace, work))

    def volume(self, pod: str, name: str) -> Path:
        path = self.volumes / pod / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._work())
            yield
            task.cancel()

    async def _work(self) -> None:
        while True:
            for plural in ORDERS:
                for pod_volume in await self.site.client.list_all(velero(plural), self.site.namespace):
                    if (pod_volume.get("status") or {}).get("phase") in (None, "", "New"):
                        await self._end(plural, pod_volume, await self._do(plural, pod_volume))
            await asyncio.sleep(POLL_SECONDS)

    async def _do(self, plural: str, pod_volume: JSONObject) -> JSONObject:
        if self.fails:
            return {"phase": "Failed", "message": "the agent was told to fail"}
        spec = pod_volume["spec"]
        place = Repository(identifier=spec["repoIdentifier"], location=spec["backupStorageLocation"])
        directory = self.volume(spec["pod"]["name"], spec["volume"])
        if plural == "podvolumerestores":
            await self.restic.restore(place, spec["snapshotID"], directory)
            return {"phase": "Completed"}
        snapshot = await self.restic.back_up(place, directory, spec["tags"], on_progress=_ignored)
        return {"phase": "Completed", "snapshotID": snapshot}

    async def _end(self, plural: str, pod_volume: JSONObject, status: JSONObject) -> None:
        name = pod_volume["metadata"]["name"]
        await self.site.client.patch(velero(plural), name, {"status": status}, self.site.namespace)


async def _ignored(_progress: Progress) -> None:
    return


@pytest.fixture
async def agent(site: Site, tmp_path: Path) -> AsyncIterator[Agent]:
    """An agent at work, a location in a folder, and a password."""
    await site.add_folder()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET_NAME, "namespace": site.namespace},
        "data": {SECRET_KEY: base64.b64encode(b"a password").decode()},
    }
    await site.client.create(SECRETS, secret, site.namespace)
    made = Agent(site, tmp_path)
    async with made.working():
        yield made


async def add_pod(site: Site, name: str, *, volumes: str) -> None:
    """A pod that counts as running, with two volumes of its own and the wish to save some."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {labels.VOLUMES_TO_BACKUP: volumes}},
        "spec": {
            "nodeName": "no-such-node",
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "main"}],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}],
        },
    }
    await eventually(lambda: _created(site, pod))
    await site.client.patch(
        PODS, name, {"status": {"phase": "Running"}}, site.namespace, subresource="status"
    )


async def _created(site: Site, pod: JSONObject) -> bool:
    """A namespace takes pods as soon as it has its default service account."""
    try:
        await site.client.create(PODS, pod, site.namespace)
    except Forbidden:
        return False
    return True


def pods_of(site: Site, **spec: Any) -> JSONObject:
    return {"includedNamespaces": [site.namespace], "includedResources": ["pods"], **spec}


@pytest.mark.spec("PVL-049")
async def test_volumes_are_saved_and_forgotten(site: Site, agent: Agent, serve: Serve) -> None:
    await serve()
    await add_pod(site, "p", volumes="data")
    (agent.volume("p", "data") / "file").write_bytes(b"content")

    await site.create("backups", "b1", spec=pods_of(site))
    backup = await site.reached("backups", "b1")
    await site.create("backups", "b2", spec=pods_of(site))
    await site.reached("backups", "b2")

    assert backup["status"]["phase"] == "Completed"
    [repository] = await site.client.list_all(velero("backuprepositories"), site.namespace)
    assert repository["status"]["phase"] == "Ready"
    assert repository["metadata"]["labels"] == {
        labels.VOLUME_NAMESPACE: site.namespace,
        labels.STORAGE_LOCATION: "default",
        labels.REPOSITORY_TYPE: "restic",
    }
    folder = Path(repository["spec"]["resticIdentifier"])
    saved = await _snapshots(site)
    assert len(saved) == 2
    assert len(list((folder / "snapshots").iterdir())) == 2

    await site.create("deletebackuprequests", "d1", spec={"backupName": "b1"})
    await site.gone("backups", "b1")

    assert [path.name[:8] for path in (folder / "snapshots").iterdir()] == [saved["b2"]]


async def test_volumes_come_back_in_a_pod_of_another_name(
    site: Site, agent: Agent, serve: Serve, tmp_path: Path
) -> None:
    await serve()
    await add_pod(site, "p", volumes="data,cache")
    for name in ("data", "cache"):
        (agent.volume("p", name) / "file").write_text(f"content of {name}")
    backup = decode(Backup, await site.create("backups", "b1", spec=pods_of(site)))
    await site.reached("backups", "b1")
    saved = await site.client.list_all(velero("podvolumebackups"), site.namespace)
    snapshots = {
        pod_volume["spec"]["volume"]: SavedSnapshot(pod_volume["status"]["snapshotID"])
        for pod_volume in saved
    }
    await add_pod(site, "q", volumes="")
    pod = await site.client.get(PODS, "q", site.namespace)
    restore = decode(Restore, await site.create("restores", "r1", spec={"backupName": "none"}))

    backup.spec.storage_location = "default"
    async with _pod_volumes(site, tmp_path).restoring(restore, backup) as restorer:
        errors = await restorer.restore_pod_volumes(pod, site.namespace, snapshots)
        agent.fails = True
        failures = await restorer.restore_pod_volumes(pod, site.namespace, snapshots)

    assert errors == []
    assert failures == ["pod volume restore failed: the agent was told to fail"] * 2
    for name in ("data", "cache"):
        assert (agent.volume("q", name) / "file").read_text() == f"content of {name}"
    assert len(await site.client.list_all(velero("backuprepositories"), site.namespace)) == 1


def _pod_volumes(site: Site, folder: Path) -> PodVolumes:
    """The parts of a server, for a restore that the test makes itself."""
    scope = Scope(client=site.client, namespace=site.namespace, metrics=ServerMetrics(), workdir=folder)
    restic = Restic(AccessProvider(site.client, site.namespace, folder))
    repositories = Repositories(site.client, site.namespace, frequency=RESTIC_PRUNE_FREQUENCY)
    return PodVolumes(scope, restic, repositories, RepositoryLocks())


async def test_a_volume_that_fails_fails_its_pod(site: Site, agent: Agent, serve: Serve) -> None:
    await serve()
    agent.fails = True
    await add_pod(site, "p", volumes="data")

    await site.create("backups", "b1", spec=pods_of(site))
    backup = await site.reached("backups", "b1")

    assert (backup["status"]["phase"], backup["status"]["errors"]) == ("PartiallyFailed", 1)


@pytest.mark.spec("PVL-072")
async def test_a_backup_whose_snapshots_cannot_be_forgotten_stays(
    site: Site, agent: Agent, serve: Serve
) -> None:
    await serve()
    await add_pod(site, "p", volumes="data,cache")
    for name in ("data", "cache"):
        (agent.volume("p", name) / "file").write_bytes(b"content")
    await site.create("backups", "b1", spec=pods_of(site))
    await site.reached("backups", "b1")
    [repository] = await site.client.list_all(velero("backuprepositories"), site.namespace)
    folder = Path(repository["spec"]["resticIdentifier"])
    away = shutil.move(folder, folder.with_name("away"))

    await site.create("deletebackuprequests", "d1", spec={"backupName": "b1"})
    request = await site.reached("deletebackuprequests", "d1", "Processed")

    assert len(request["status"]["errors"]) == 2
    assert all("error deleting restic snapshot" in error for error in request["status"]["errors"])
    assert (await site.get("backups", "b1"))["status"]["phase"] == "Deleting"

    shutil.move(away, folder)
    await site.create("deletebackuprequests", "d2", spec={"backupName": "b1"})
    await site.gone("backups", "b1")
    assert list((folder / "snapshots").iterdir()) == []


async def test_a_wrong_password_is_reported_and_mended(site: Site, agent: Agent, serve: Serve) -> None:
    await serve()
    await add_pod(site, "p", volumes="data")
    (agent.volume("p", "data") / "file").write_bytes(b"content")
    await site.create("backups", "b1", spec=pods_of(site))
    await site.reached("backups", "b1")
    [repository] = await site.client.list_all(velero("backuprepositories"), site.namespace)
    await site.client.delete(velero("backuprepositories"), repository["metadata"]["name"], site.namespace)
    await _set_password(site.client, site.namespace, b"another")

    await site.create("backups", "b2", spec=pods_of(site))
    backup = await site.reached("backups", "b2")

    assert backup["status"]["phase"] == "PartiallyFailed"
    [repository] = await site.client.list_all(velero("backuprepositories"), site.namespace)
    assert repository["status"]["phase"] == "NotReady"
    assert "wrong password or no key found" in repository["status"]["message"]


async def _set_password(client: KubeClient, namespace: str, password: bytes) -> None:
    patch = {"data": {SECRET_KEY: base64.b64encode(password).decode()}}
    await client.patch(SECRETS, SECRET_NAME, patch, namespace)


async def _snapshots(site: Site) -> dict[str, str]:
    """The ids of the snapshots by backup."""
    pod_volumes = await site.client.list_all(velero("podvolumebackups"), site.namespace)
    return {
        pod_volume["spec"]["tags"]["backup"]: pod_volume["status"]["snapshotID"] for pod_volume in pod_volumes
    }
