"""Maintenance in Jobs on a real API server with its own Job controller. The kubelet is the test's."""

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from hack.cluster import binaries
from hack.cluster.control_plane import ControlPlane
from pinnace.api import labels
from pinnace.api.objects import JSONObject, text
from pinnace.controllers.repository_jobs import MaintenanceJobs
from pinnace.controllers.repository_maintenance import MaintenanceReconciler
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.resources import CONFIGMAPS, DEPLOYMENTS, JOBS, PODS, SECRETS, SERVICE_ACCOUNTS
from pinnace.runtime.controller import DONE
from pinnace.runtime.keys import Key
from pinnace.server.monitoring.metrics import ServerMetrics
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.locks import RepositoryLocks
from pinnace.volumes.uploader.passwords import REPOSITORY_SECRET_NAME, SECRET_KEY
from pinnace.volumes.uploaders import Uploaders
from tests.e2e.without_server.command import Pinnace
from tests.support.servers.sites import Site
from tests.support.waiting import MOST_POLL_SECONDS, eventually

PASSWORD = b"a password"
NAME = "shop-default-kopia-x"


class Kubelet:
    """Runs the pods of maintenance Jobs: what their containers would do, as a child process.

    Attributes:
        may_run: set while pods may run.
        ran: the arguments of each container.
    """

    def __init__(self, site: Site, command: Pinnace) -> None:
        self.site = site
        self.command = command
        self.may_run = asyncio.Event()
        self.may_run.set()
        self.ran: list[list[str]] = []

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._work())
            yield
            task.cancel()

    async def _work(self) -> None:
        while True:
            pods = await self.site.client.list_all(
                PODS, self.site.namespace, label_selector=labels.REPOSITORY_NAME
            )
            for pod in pods:
                if text(pod, "status", "phase") == "Pending":
                    await self._status(pod, {"phase": "Running"})
                elif text(pod, "status", "phase") == "Running" and self.may_run.is_set():
                    await self._run(pod)
            await asyncio.sleep(MOST_POLL_SECONDS)

    async def _run(self, pod: JSONObject) -> None:
        [container] = pod["spec"]["containers"]
        self.ran.append(container["args"])
        outcome = await self.command(*container["args"])
        phase = "Succeeded" if outcome.code == 0 else "Failed"
        said = (outcome.out + outcome.err)[-2000:]
        terminated = {"exitCode": outcome.code, "message": said, "reason": "Ended"}
        status = {
            "name": container["name"],
            "ready": False,
            "restartCount": 0,
            "image": container["image"],
            "imageID": "",
            "state": {"terminated": terminated},
        }
        await self._status(pod, {"phase": phase, "containerStatuses": [status]})

    async def _status(self, pod: JSONObject, status: JSONObject) -> None:
        name = pod["metadata"]["name"]
        patch = {"status": status}
        await self.site.client.patch(PODS, name, patch, self.site.namespace, subresource="status")


@pytest.fixture
async def kubelet(
    site: Site, control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Kubelet]:
    """A kubelet at work, a kopia repository in a folder that is due, and the server's Deployment."""
    path = f"{binaries.locate(binaries.UPLOADER)['kopia'].parent}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    client, namespace = site.client, site.namespace
    await site.add_folder()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": REPOSITORY_SECRET_NAME},
        "data": {SECRET_KEY: base64.b64encode(PASSWORD).decode()},
    }
    await client.create(SECRETS, secret, namespace)
    (tmp_path / "work").mkdir()
    uploaders = Uploaders.of(AccessProvider(client, namespace, tmp_path / "work"))
    await uploaders.init(Repository(location="default", namespace="shop", uploader="kopia"))
    spec = {"volumeNamespace": "shop", "backupStorageLocation": "default", "repositoryType": "kopia"}
    spec |= {"maintenanceFrequency": "1h0m0s", "resticIdentifier": ""}
    await site.create("backuprepositories", NAME, spec=spec, status={"phase": "Ready"})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "velero"}}
    await client.create(SERVICE_ACCOUNTS, account, namespace)
    await client.create(DEPLOYMENTS, _deployment(), namespace)
    settings = {"global": json.dumps({"podResources": {"cpuRequest": "50m"}, "podLabels": {"team": "blue"}})}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "jobs"}, "data": settings}
    await client.create(CONFIGMAPS, config_map, namespace)
    (tmp_path / "home").mkdir()
    command = Pinnace(
        tmp_path / "home",
        kubeconfig=control_plane.kubeconfig,
        location=None,
        environ={"VELERO_NAMESPACE": namespace, "PATH": path},
    )
    made = Kubelet(site, command)
    async with made.working():
        yield made


def _deployment() -> JSONObject:
    pod = {
        "serviceAccountName": "velero",
        "containers": [
            {
                "name": "velero",
                "image": "example.org/pinnace:v1",
                "args": ["server", "--log-level=warning"],
                "env": [{"name": "VELERO_SCRATCH_DIR", "value": "/scratch"}],
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            }
        ],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    template = {"metadata": {"labels": {"deploy": "velero"}}, "spec": pod}
    spec = {"replicas": 0, "selector": {"matchLabels": {"deploy": "velero"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "velero"}, "spec": spec}


def _server(site: Site, folder: Path) -> MaintenanceReconciler:
    """The maintenance of a server that has just started."""
    scope = Scope(client=site.client, namespace=site.namespace, metrics=ServerMetrics(), workdir=folder)
    uploaders = Uploaders.of(AccessProvider(site.client, site.namespace, folder))
    return MaintenanceReconciler(scope, uploaders, RepositoryLocks(), jobs=MaintenanceJobs(scope, "jobs"))


async def _jobs(site: Site) -> list[JSONObject]:
    selector = f"{labels.REPOSITORY_NAME}={NAME}"
    return await site.client.list_all(JOBS, site.namespace, label_selector=selector)


async def test_a_job_maintains_a_repository_of_kopia(site: Site, kubelet: Kubelet, tmp_path: Path) -> None:
    assert await _server(site, tmp_path).reconcile(Key(site.namespace, NAME)) == DONE

    status = (await site.get("backuprepositories", NAME))["status"]
    [done] = status["recentMaintenance"]
    assert done["result"] == "Succeeded", done
    assert status["phase"] == "Ready"
    assert status["lastMaintenanceTime"] == done["startTimestamp"] <= done["completeTimestamp"]
    assert kubelet.ran == [["repo-maintenance", f"--repository={NAME}", "--log-level=warning"]]
    [job] = await _jobs(site)
    assert job["status"]["startTime"] == done["startTimestamp"]
    pod = job["spec"]["template"]
    assert pod["metadata"]["labels"]["team"] == "blue"
    assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "50m"}}
    assert PASSWORD.decode() not in json.dumps(job)


async def test_a_server_that_restarts_waits_for_the_running_job_and_starts_no_second(
    site: Site, kubelet: Kubelet, tmp_path: Path
) -> None:
    kubelet.may_run.clear()
    killed = asyncio.create_task(_server(site, tmp_path).reconcile(Key(site.namespace, NAME)))

    async def is_running() -> bool:
        return any((job.get("status") or {}).get("active") for job in await _jobs(site))

    await eventually(is_running)
    killed.cancel()
    with suppress(asyncio.CancelledError):
        await killed

    async def started_again() -> None:
        assert await _server(site, tmp_path).reconcile(Key(site.namespace, NAME)) == DONE

    again = asyncio.create_task(started_again())
    kubelet.may_run.set()
    await again

    assert len(await _jobs(site)) == 1
    assert len(kubelet.ran) == 1
    status = (await site.get("backuprepositories", NAME))["status"]
    assert [done["result"] for done in status["recentMaintenance"]] == ["Succeeded"]


async def test_a_job_whose_repository_is_gone_says_so_in_the_status(
    site: Site, kubelet: Kubelet, tmp_path: Path
) -> None:
    folder = site.folder / "bucket-default/kopia/shop"
    for path in folder.iterdir():
        path.unlink()

    assert await _server(site, tmp_path).reconcile(Key(site.namespace, NAME)) == DONE

    status = (await site.get("backuprepositories", NAME))["status"]
    assert status["phase"] == "NotReady"
    [done] = status["recentMaintenance"]
    assert done["result"] == "Failed"
    assert "there is no repository" in done["message"]
