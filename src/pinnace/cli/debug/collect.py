"""Collects the parts of a support bundle. (docs/spec: BEY 8.2)

A part that cannot be read becomes a line in the bundle's `problems.txt`: a bundle is made when something
fails.
"""

import platform
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

from pinnace._version import __version__
from pinnace.api import kinds
from pinnace.api.labels import SERVER_LABEL
from pinnace.api.objects import JSONObject
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.backends import server_backend
from pinnace.cli.backup.describe import describe_backup
from pinnace.cli.backup.description import DescribedBackup
from pinnace.cli.common.describing import DOWNLOAD_TIMEOUT_SECONDS, View
from pinnace.cli.connect import caller, program_name
from pinnace.cli.debug.bundle import Bundle
from pinnace.cli.errors import CommandError
from pinnace.cli.output.cells import status
from pinnace.cli.restore.describe import describe_restore
from pinnace.cli.restore.description import DescribedRestore
from pinnace.cli.settings import Settings
from pinnace.client.errors import ClientError
from pinnace.client.interface import DownloadOptions, fetch, fetch_json
from pinnace.client.server import ServerBackend
from pinnace.client.server_status import answered, ask_server
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, DAEMON_SETS, DEPLOYMENTS, EVENTS, PODS, known
from pinnace.messages.redaction import redact_object
from pinnace.storage.errors import StorageError

STATUS_TIMEOUT_SECONDS = 5.0
LOG_LINES = 100_000
LOG_BYTES = 16 << 20
"""How much of the end of a container's log is taken: a bundle must be small enough to be sent."""

MISSING = (KubeError, ClientError, CommandError, StorageError, ValueError)
"""The errors that leave a part out of the bundle: it cannot be read or decoded."""


class Collector:
    """Collects the parts of one bundle."""

    def __init__(
        self, client: KubeClient, settings: Settings, bundle: Bundle, on_part: Callable[[str], None]
    ) -> None:
        self._client = client
        self._namespace = settings.namespace
        self._features = settings.features
        self._bundle = bundle
        self._on_part = on_part
        self._backend = server_backend(client, settings)
        self._options = DownloadOptions(timeout_seconds=DOWNLOAD_TIMEOUT_SECONDS, ca_cert=settings.ca_cert)
        self._view = View(program=program_name(), details=True)

    @asynccontextmanager
    async def _part(self, what: str) -> AsyncIterator[None]:
        """A part that may be missing."""
        self._on_part(what)
        try:
            yield
        except MISSING as error:
            self._bundle.problem(f"{what}: {error}")

    async def check_namespace(self) -> None:
        """Refuse a namespace without a server: the bundle would hold nothing. Raises CommandError."""
        servers = await self._client.list_all(DEPLOYMENTS, self._namespace, label_selector=SERVER_LABEL)
        # A server need not run in the cluster that it backs up; its locations are there all the same.
        if not servers and not await self._client.list_all(BACKUP_STORAGE_LOCATIONS, self._namespace):
            raise CommandError(
                f"no server found in namespace {self._namespace}: it has neither a Deployment labelled "
                f"{SERVER_LABEL} nor a backup location; -n/--namespace names another"
            )

    async def named(self, plural: str, name: str) -> JSONObject:
        """The object of that name. Raises NotFound with similar names, and KubeError."""
        return await ServerBackend(self._client, self._namespace, caller()).object(plural, name)

    async def versions(self) -> None:
        """The versions of client, server and cluster."""
        lines = [
            f"Client: v{__version__} (Python {platform.python_version()}, {platform.platform()})",
            f"Features: {', '.join(sorted(self._features)) or '<none>'}",
        ]
        async with self._part("the cluster's version"):
            lines.append(f"Cluster: {(await self._client.version()).git_version}")
        async with self._part("the server's version"):
            answer = await ask_server(self._client, self._namespace, STATUS_TIMEOUT_SECONDS)
            if answered(answer):
                lines.append(f"Server: {status(answer).get('serverVersion') or '<none>'}")
            else:
                self._bundle.problem(f"the server did not answer within {STATUS_TIMEOUT_SECONDS:g}s")
        self._bundle.add_text("version.txt", "\n".join(lines) + "\n")

    async def objects(self) -> None:
        """The server's custom resources, its workloads and their events."""
        for resource in (*map(known, kinds.VELERO), DEPLOYMENTS, DAEMON_SETS, PODS, EVENTS):
            async with self._part(resource.name):
                found = await self._client.list_all(resource, self._namespace)
                self._bundle.add_object(f"objects/{resource.name}.json", found)

    async def logs(self) -> None:
        """The end of the log of each container, and of its log before the last restart."""
        pods: list[JSONObject] = []
        async with self._part("pods with logs"):
            pods = await self._client.list_all(PODS, self._namespace)
        for pod in pods:
            states = [
                state
                for field in ("initContainerStatuses", "containerStatuses")
                for state in status(pod).get(field) or []
            ]
            if not states:
                self._bundle.problem(f"log {pod['metadata']['name']}: {_why_no_container(pod)}")
            for state in states:
                await self._log(pod["metadata"]["name"], state["name"], previous=False)
                if state.get("restartCount"):
                    await self._log(pod["metadata"]["name"], state["name"], previous=True)

    async def _log(self, pod: str, container: str, *, previous: bool) -> None:
        name = f"{pod}/{container}{'.previous' if previous else ''}.log"
        async with self._part(f"log {name}"):
            text = await self._client.request(
                "GET",
                PODS.path(self._namespace, pod, "log"),
                params={
                    "container": container,
                    "previous": str(previous).lower(),
                    "timestamps": "true",
                    "tailLines": str(LOG_LINES),
                    "limitBytes": str(LOG_BYTES),
                },
                accept="text/plain, */*",
            )
            self._bundle.add_text(f"logs/{name}", text.decode(errors="replace"))

    async def backup(self, backup: JSONObject) -> None:
        """The description and the log of one backup."""
        name = backup["metadata"]["name"]
        kinds = DownloadTargetKind
        resource_list = await self._stored(kinds.BACKUP_RESOURCE_LIST, name)
        snapshots: Any = []
        if status(backup).get("volumeSnapshotsAttempted"):
            snapshots = await self._stored(kinds.BACKUP_VOLUME_SNAPSHOTS, name)
        facts = DescribedBackup(resource_list=resource_list, snapshots=snapshots)
        # The object is redacted before it is described: in the text, the command of a hook is not recognised.
        self._bundle.add_text(
            f"backup_describe_{name}.txt", f"{describe_backup(redact_object(backup), facts, self._view)}\n"
        )
        await self._stored_log(kinds.BACKUP_LOG, name, f"backup_{name}.log")

    async def restore(self, restore: JSONObject) -> None:
        """The description and the log of one restore."""
        name = restore["metadata"]["name"]
        results: Any = None
        if status(restore).get("warnings") or status(restore).get("errors"):
            results = await self._stored(DownloadTargetKind.RESTORE_RESULTS, name)
        facts = DescribedRestore(results=results)
        self._bundle.add_text(
            f"restore_describe_{name}.txt", f"{describe_restore(redact_object(restore), facts, self._view)}\n"
        )
        await self._stored_log(DownloadTargetKind.RESTORE_LOG, name, f"restore_{name}.log")

    async def _stored(self, kind: DownloadTargetKind, name: str) -> Any:
        """A stored JSON file; without it the text that stands in its place in a description."""
        try:
            return await fetch_json(self._backend, kind, name, self._options)
        except MISSING as error:
            self._bundle.problem(f"{kind.words} of {name}: {error}")
            return "<not available>"

    async def _stored_log(self, kind: DownloadTargetKind, name: str, file: str) -> None:
        async with self._part(f"{kind.words} of {name}"):
            sink = BytesIO()
            await fetch(self._backend, kind, name, self._options, sink)
            self._bundle.add_text(file, sink.getvalue().decode(errors="replace"))


def _why_no_container(pod: JSONObject) -> str:
    """Why a pod has no container with a log yet, by its conditions."""
    reasons = [
        condition.get("message") or condition.get("reason") or ""
        for condition in status(pod).get("conditions") or []
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
    ]
    where = "" if (pod.get("spec") or {}).get("nodeName") else "; it is on no node"
    why = "".join(f": {reason}" for reason in reasons if reason)
    return f"no container has started (phase {status(pod).get('phase') or 'Pending'}){where}{why}"
