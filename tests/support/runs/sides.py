"""Ways to make backups and restores, with one face: the command without a server, a server, a Velero program.

All of them work in one cluster and keep their files in one folder, so that each restores what another made.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import yaml

from hack.cluster.control_plane import ControlPlane
from pinnace.api.codec import decode
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.cli.backup.local import make_backup
from pinnace.cli.restore.local import make_restore
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, velero
from tests.support.cluster.crds import ensure_crds
from tests.support.plugins.programs import put_own
from tests.support.servers.sites import Site
from tests.support.waiting import eventually
from tests.support.whole_plugin.store import NAME as FOLDER_PROVIDER

VELERO = "PINNACE_TEST_VELERO"
"""The variable with the path of a Velero program."""


_LABELS = {"deploy": "velero"}
_DEPLOYMENT: JSONObject = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "velero"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {"containers": [{"name": "velero", "image": "velero/velero:latest"}]},
        },
    },
}
"""Its restores look for the image of their own Deployment, and are PartiallyFailed without one."""


class Side(Protocol):
    """One way."""

    name: str

    async def back_up(self, name: str, spec: JSONObject) -> JSONObject:
        """The status of the backup at its end."""

    async def restore(self, name: str, spec: JSONObject) -> JSONObject:
        """The status of the restore at its end; `spec` names the backup, which any side may have made."""


class CommandSide:
    """`pinnace --location`."""

    name = "command"

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self._folder = folder
        self._settings = Settings(
            namespace="velero",
            kubeconfig=str(cluster.kubeconfig),
            kubecontext=None,
            location=str(folder),
            features=frozenset(),
            colour=False,
            ca_cert="",
        )

    async def back_up(self, name: str, spec: JSONObject) -> JSONObject:
        body = {"metadata": {"name": name, "namespace": "velero"}, "spec": spec}
        await make_backup(self._settings, decode(Backup, body))
        return self._status(f"backups/{name}/velero-backup.json")

    async def restore(self, name: str, spec: JSONObject) -> JSONObject:
        body = {"metadata": {"name": name, "namespace": "velero"}, "spec": spec}
        await make_restore(self._settings, decode(Restore, body), allow_partially_failed=False)
        return self._status(f"restores/{name}/velero-restore.json")

    def _status(self, path: str) -> JSONObject:
        found: JSONObject = json.loads((self._folder / path).read_bytes())["status"]
        return found


class ServerSide:
    """A server of the site's namespace, ours or Velero's: both do the work of the same objects."""

    def __init__(self, site: Site, name: str) -> None:
        self.name = name
        self._site = site

    async def back_up(self, name: str, spec: JSONObject) -> JSONObject:
        await self._site.create("backups", name, spec=spec)
        return await self._ended("backups", name)

    async def restore(self, name: str, spec: JSONObject) -> JSONObject:
        await eventually(lambda: self._is_there(spec["backupName"]))  # it is synced from the folder
        await self._site.create("restores", name, spec=spec)
        return await self._ended("restores", name)

    async def _ended(self, plural: str, name: str) -> JSONObject:
        found: JSONObject = (await self._site.reached(plural, name))["status"]
        return found

    async def _is_there(self, backup: str) -> bool:
        try:
            await self._site.get("backups", backup)
        except NotFound:
            return False
        return True


async def define(client: KubeClient, program: str) -> None:
    """Let the cluster serve the definitions: Velero's own beside Velero, which cannot use ours."""
    if not program:
        await ensure_crds(client)
        return
    words = ("install", "--crds-only", "--dry-run", "-o", "yaml")
    process = await asyncio.create_subprocess_exec(program, *words, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    definitions = yaml.safe_load(printed)["items"]
    for definition in definitions:
        try:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        except AlreadyExists:
            continue

    async def served() -> bool:
        found = {each.group_resource for each in (await Discovery.load(client)).resources}
        return {each["metadata"]["name"] for each in definitions} <= found

    await eventually(served)
    await client.list_all(velero("backups"))


@asynccontextmanager
async def velero_server(
    program: str, cluster: ControlPlane, site: Site, folder: Path, workdir: Path
) -> AsyncIterator[None]:
    """A Velero server of the site's namespace, whose location is the folder; ended with the context.

    It listens on port 8080, which no flag changes, so that one can run on a machine.
    """
    plugins = workdir / "plugins"
    put_own(plugins, "velero-folder", "tests.support.folder_plugin")
    spec = {
        "provider": FOLDER_PROVIDER,
        "config": {"root": str(folder.parent)},
        "objectStorage": {"bucket": folder.name},
        "backupSyncPeriod": "1s",
        "default": True,
    }
    await site.create("backupstoragelocations", "default", spec=spec)
    await site.client.create(DEPLOYMENTS, _DEPLOYMENT, site.namespace)
    words = ["--namespace", site.namespace, "--plugin-dir", str(plugins), "--metrics-address", "127.0.0.1:0"]
    environ = {"HOME": str(workdir), "PATH": os.environ["PATH"], "KUBECONFIG": str(cluster.kubeconfig)}
    with (workdir / "velero.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program, "server", *words, env=environ, stdout=log, stderr=log
        )
        try:
            await _available(site, process)
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _available(site: Site, process: asyncio.subprocess.Process) -> None:
    """Wait until the server has found its location. Raises AssertionError if it ends before."""
    ready = asyncio.ensure_future(site.reached("backupstoragelocations", "default", "Available"))
    ended = asyncio.ensure_future(process.wait())
    await asyncio.wait({ready, ended}, return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        ready.cancel()
        raise AssertionError(f"the Velero server ended with {ended.result()}: velero.log says why")
    ended.cancel()
    await ready
