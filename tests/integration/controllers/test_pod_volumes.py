"""A server with real restic: volumes of pods are saved, restored and forgotten. The agent is the test's."""

import asyncio
import base64
import gzip
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from hack.cluster import binaries
from pinnace.age.identities import Identities
from pinnace.age.x25519 import X25519Identity
from pinnace.api import labels
from pinnace.api.codec import decode
from pinnace.api.objects import JSONObject
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.options import MAINTENANCE_FREQUENCY
from pinnace.controllers.shared.pod_volumes import PodVolumes, SnapshotForgetter, pod_volumes_in_cluster
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.waiting_pods import WAIT_CONTAINER
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.resources import NODES, PODS, SECRETS, velero
from pinnace.server.monitoring.metrics import ServerMetrics
from pinnace.storage.key_errors import IdentityMissing
from pinnace.volumes.repositories import Repositories
from pinnace.volumes.restic.client import Restic
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.errors import UploaderError
from pinnace.volumes.uploader.interface import Source, Target
from pinnace.volumes.uploader.locks import RepositoryLocks
from pinnace.volumes.uploader.passwords import SECRET_KEY, SECRET_NAME
from pinnace.volumes.uploaders import Uploaders
from tests.support.servers.sites import Serve, Site, running
from tests.support.waiting import MOST_POLL_SECONDS, eventually

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
        self.uploaders = Uploaders.of(AccessProvider(site.client, site.namespace, work))

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
            await asyncio.sleep(MOST_POLL_SECONDS)

    async def _do(self, plural: str, pod_volume: JSONObject) -> JSONObject:
        if self.fails:
            return {"phase": "Failed", "message": "the agent was told to fail"}
        spec = pod_volume["spec"]
        place = Repository(
            identifier=spec["repoIdentifier"],
            location=spec["backupStorageLocation"],
            namespace=spec["pod"]["namespace"],
            uploader=spec.get("uploaderType") or "restic",
        )
        directory = self.volume(spec["pod"]["name"], spec["volume"])
        if plural == "podvolumerestores":
            await self.uploaders.fill(place, spec["snapshotID"], Target(path=directory))
            return {"phase": "Completed"}
        source = Source(path=directory, name=spec["volume"], tags=spec["tags"])
        try:
            saved = await self.uploaders.save(place, source)
        except UploaderError as error:
            return {"phase": "Failed", "message": str(error)}
        return {"phase": "Completed", "snapshotID": saved.snapshot}

    async def _end(self, plural: str, pod_volume: JSONObject, status: JSONObject) -> None:
        name = pod_volume["metadata"]["name"]
        await self.site.client.patch(velero(plural), name, {"status": status}, self.site.namespace)


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
    # Pods of a node that does not exist are deleted by the cluster after 40 seconds.
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": _node(site)}}
    await site.client.create(NODES, node)
    made = Agent(site, tmp_path)
    async with made.working():
        yield made
    await site.client.delete(NODES, _node(site))


def _node(site: Site) -> str:
    """The node of all pods, which has no kubelet."""
    return f"node-of-{site.namespace}"


async def add_pod(site: Site, name: str, *, volumes: str) -> None:
    """A pod that counts as running, with two volumes of its own and the wish to save some.

    It has the container that waits for data, as if it had been restored before.
    """
    mounts = [{"name": volume, "mountPath": f"/{volume}"} for volume in ("data", "cache")]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {labels.VOLUMES_TO_BACKUP: volumes}},
        "spec": {
            "nodeName": _node(site),
            "automountServiceAccountToken": False,
            "initContainers": [{"name": WAIT_CONTAINER, "image": "main"}],
            "containers": [{"name": "main", "image": "main", "volumeMounts": mounts}],
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
    repositories = Repositories(site.client, site.namespace, frequency=MAINTENANCE_FREQUENCY)
    forgetter = cast(SnapshotForgetter, restic)  # a restore forgets nothing
    return PodVolumes(scope, forgetter, repositories, RepositoryLocks())


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
    folder = Path((await _repository(site))["spec"]["resticIdentifier"])
    config = (folder / "config").read_bytes()
    (folder / "config").unlink()

    await site.create("deletebackuprequests", "d1", spec={"backupName": "b1"})
    request = await site.reached("deletebackuprequests", "d1", "Processed")

    assert len(request["status"]["errors"]) == 2
    assert all("error deleting restic snapshot" in error for error in request["status"]["errors"])
    assert (await site.get("backups", "b1"))["status"]["phase"] == "Deleting"

    (folder / "config").write_bytes(config)
    await site.create("deletebackuprequests", "d2", spec={"backupName": "b1"})
    await site.gone("backups", "b1")
    assert list((folder / "snapshots").iterdir()) == []


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


async def _backed_up(site: Site, name: str) -> JSONObject:
    """A backup of the pods, once it has ended."""
    await site.create("backups", name, spec=pods_of(site))
    return await site.reached("backups", name)


async def _repository(site: Site) -> JSONObject:
    [repository] = await site.client.list_all(velero("backuprepositories"), site.namespace)
    return repository


def _folder(site: Site, uploader: str, *parts: str) -> Path:
    """The folder of the repository; `parts` are bucket and prefix."""
    return site.folder.joinpath(*(parts or ["bucket-default"]), uploader, site.namespace)


@pytest.fixture(params=["restic", "kopia"])
def uploader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The program that saves volumes; it is on the PATH."""
    program = binaries.locate(binaries.UPLOADER)["kopia"]
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return str(request.param)


async def test_volumes_of_an_encrypted_backup_that_the_cluster_had_lost_are_forgotten_without_an_identity(
    site: Site, agent: Agent, serve: Serve, uploader: str, tmp_path: Path
) -> None:
    identity = X25519Identity.generate()
    recipient = {"encryption.recipients": str(identity.recipient)}
    config = {"spec": {"config": {"path": str(site.folder), **recipient}}}
    await site.client.patch(velero("backupstoragelocations"), "default", config, site.namespace)
    await serve(uploader=uploader, backup_sync_period=Duration.seconds(1))
    await add_pod(site, "p", volumes="data")
    (agent.volume("p", "data") / "file").write_bytes(b"content")
    for name in ("b1", "b2"):
        await site.create("backups", name, spec=pods_of(site))
        assert (await site.reached("backups", name))["status"]["phase"] == "Completed"
    saved = await _snapshots(site)
    place = Repository(
        identifier=str(_folder(site, "restic")),
        location="default",
        namespace=site.namespace,
        uploader=uploader,
    )
    assert {each[:8] for each in await agent.uploaders.snapshot_ids(place)} == {
        each[:8] for each in saved.values()
    }
    lost = (await site.get("backups", "b1"))["metadata"]["uid"]
    for volume in await site.client.list_all(velero("podvolumebackups"), site.namespace):
        await site.client.delete(velero("podvolumebackups"), volume["metadata"]["name"], site.namespace)
    await site.client.delete(velero("backups"), "b1", site.namespace)

    async def is_found() -> bool:
        try:
            return bool((await site.get("backups", "b1"))["metadata"]["uid"] != lost)
        except NotFound:
            return False

    await eventually(is_found)
    assert await site.client.list_all(velero("podvolumebackups"), site.namespace) == []
    # A restore takes them from the location, by the identity that it names.
    scope = Scope(client=site.client, namespace=site.namespace, metrics=ServerMetrics(), workdir=tmp_path)
    stores = LocationStores(site.client, site.namespace, tmp_path / "credentials")
    identities = Identities.parse(identity.secret_text().encode())
    async with stores.open("default", identities=identities) as store:
        found = await pod_volumes_in_cluster(scope, store, "b1", [])
    (kept,) = found.of_pod(site.namespace, "p")
    assert (kept.snapshot[:8], kept.uploader) == (saved["b1"][:8], uploader)
    async with stores.open("default") as store:
        with pytest.raises(IdentityMissing):
            await pod_volumes_in_cluster(scope, store, "b1", [])

    await site.create("deletebackuprequests", "d1", spec={"backupName": "b1"})
    await site.gone("backups", "b1")

    assert [each[:8] for each in await agent.uploaders.snapshot_ids(place)] == [saved["b2"][:8]]


@pytest.mark.found("E-F2")
async def test_a_repository_is_forgotten_with_its_location_and_made_in_a_new_one(
    site: Site, agent: Agent, serve: Serve, uploader: str
) -> None:
    await serve(uploader=uploader)
    await add_pod(site, "p", volumes="data")
    (agent.volume("p", "data") / "file").write_bytes(b"content")
    assert (await _backed_up(site, "b1"))["status"]["phase"] == "Completed"
    name = (await _repository(site))["metadata"]["name"]

    await site.client.delete(velero("backupstoragelocations"), "default", site.namespace)
    await site.gone("backuprepositories", name)
    other = {"bucket": "other"}
    (site.folder / "other").mkdir()
    await site.add_folder(objectStorage=other)
    backup = await _backed_up(site, "b2")

    assert backup["status"]["phase"] == "Completed"
    assert "b2" in await _snapshots(site)
    repository = await _repository(site)
    assert repository["status"]["phase"] == "Ready"
    assert "bucket=other" in repository["metadata"]["annotations"][labels.REPOSITORY_PLACE]
    assert _files(_folder(site, uploader, "other"))


@pytest.mark.found("E-F2")
@pytest.mark.parametrize(
    ("moved", "is_running"),
    [("bucket", True), ("prefix", False)],
    ids=["bucket, server runs", "prefix, server was down"],
)
async def test_a_repository_follows_a_location_that_is_moved(
    site: Site, agent: Agent, uploader: str, moved: str, is_running: bool
) -> None:
    await add_pod(site, "p", volumes="data")
    (agent.volume("p", "data") / "file").write_bytes(b"content")
    (site.folder / "other").mkdir()
    storage = {"bucket": "other"} if moved == "bucket" else {"prefix": "other"}
    patch = {"spec": {"objectStorage": storage}}

    async def move() -> None:
        await site.client.patch(velero("backupstoragelocations"), "default", patch, site.namespace)

    async with running(site.client, site.namespace, site.folder, uploader=uploader):
        assert (await _backed_up(site, "b1"))["status"]["phase"] == "Completed"
        first = _folder(site, uploader)
        kept = _files(first)
        if is_running:
            await move()
            backup = await _backed_up(site, "b2")
    if not is_running:
        await move()
        async with running(site.client, site.namespace, site.folder, uploader=uploader):
            backup = await _backed_up(site, "b2")

    assert backup["status"]["phase"] == "Completed"
    assert (await _repository(site))["status"]["phase"] == "Ready"
    places = {"bucket": ["other"], "prefix": ["bucket-default", "other"]}
    assert _files(_folder(site, uploader, *places[moved]))
    assert _files(first) == kept


@pytest.mark.found("V28")
async def test_a_repository_that_is_gone_is_made_by_the_next_backup_which_names_what_is_lost(
    site: Site, agent: Agent, serve: Serve, uploader: str
) -> None:
    await serve(log_level="warning", uploader=uploader)
    await add_pod(site, "p", volumes="data")
    (agent.volume("p", "data") / "file").write_bytes(b"content")
    for name in ("b1", "b2"):
        await _backed_up(site, name)
    folder = _folder(site, uploader)
    shutil.rmtree(folder)

    await site.create("deletebackuprequests", "d1", spec={"backupName": "b1"})
    await site.gone("backups", "b1")
    backup = await _backed_up(site, "b3")

    assert (backup["status"]["phase"], backup["status"]["warnings"]) == ("Completed", 1)
    log = gzip.decompress((site.folder / "bucket-default/backups/b3/b3-logs.gz").read_bytes()).decode()
    assert "the data of the volumes of these backups is gone: b2" in log
    assert (await _backed_up(site, "b4"))["status"].get("warnings", 0) == 0
    await site.create("deletebackuprequests", "d2", spec={"backupName": "b2"})
    await site.gone("backups", "b2")

    async def collected() -> bool:
        """The garbage collector deletes the objects of backups that are gone, when it knows their kind."""
        return set(await _snapshots(site)) == {"b3", "b4"}

    await eventually(collected)


@pytest.mark.found("V28")
@pytest.mark.spec("KOP-005")
async def test_no_repository_is_made_over_what_is_left_of_one(
    site: Site, agent: Agent, serve: Serve, uploader: str
) -> None:
    await serve(uploader=uploader)
    await add_pod(site, "p", volumes="data")
    (agent.volume("p", "data") / "file").write_bytes(b"content")
    await _backed_up(site, "b1")
    folder = _folder(site, uploader)
    for path in folder.iterdir():
        if path.name != "data" and not path.name.startswith("p"):  # all but the packs
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    left = _files(folder)

    backup = await _backed_up(site, "b2")

    assert backup["status"]["phase"] == "PartiallyFailed"
    repository = await _repository(site)
    assert repository["status"]["phase"] == "NotReady"
    assert "there is data in its place: it is damaged" in repository["status"]["message"]
    assert _files(folder) == left


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
