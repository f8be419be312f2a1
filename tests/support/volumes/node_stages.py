"""A node with its agent, an application with volumes, and requests to the agent."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hack.cluster import binaries
from hack.cluster.control_plane import ControlPlane
from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.nodes.node import Node
from hack.cluster.processes import DIRECT, ManagedProcess
from pinnace.api import labels
from pinnace.api.codec import decode
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup_repository import BackupRepository
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import (
    BACKUP_REPOSITORIES,
    CONFIGMAPS,
    PERSISTENT_VOLUMES,
    PODS,
    APIResource,
    velero,
)
from pinnace.volumes.repositories import repository_place
from pinnace.volumes.uploader.access import AccessProvider
from pinnace.volumes.uploaders import Uploaders
from tests.support.cluster.namespaces import delete_namespace
from tests.support.cluster.pods import add_ready_agent, busybox_pod, exec_in_pod, run_pod, wait_ready
from tests.support.servers.sites import Site
from tests.support.waiting import eventually

PINNACE = Path(sys.executable).with_name("pinnace")


IMAGE = "localhost/pinnace/agent:1"


START_SECONDS = 120.0
"""The time for an agent to start: it needs seconds of processor time, and a busy machine is slow."""


PASSWORD = b"a password of its own"


LIST_FILES = "cd /{volume} && find . -path ./.velero -prune -o -exec stat -c '%n %F %a %u:%g' {{}} + | sort"


SUM_FILES = "cd /{volume} && find . -path ./.velero -prune -o -type f -exec md5sum {{}} + | sort"


GATE = """\
#!/bin/sh
# Waits before or after the commands that the test names, until the test releases it.
for word in $(cat "{gate}" 2>/dev/null); do
    for argument in "$@"; do
        if [ "$word" = "$argument" ]; then
            touch "{gate}.reached"
            while [ -e "{gate}" ]; do sleep 0.05; done
        fi
    done
done
for word in $(cat "{gate}.after" 2>/dev/null); do
    for argument in "$@"; do
        if [ "$word" = "$argument" ]; then
            {program} "$@"
            code=$?
            touch "{gate}.reached"
            while [ -e "{gate}.after" ]; do sleep 0.05; done
            exit $code
        fi
    done
done
exec {program} "$@"
"""


class Stage:
    """The server's namespace, a namespace with an application, and a location in a folder.

    Attributes:
        app: the namespace of the application.
        site: the server's namespace and the objects in it.
    """

    def __init__(self, cluster: NodeCluster, site: Site, app: str, folder: Path) -> None:
        self.cluster = cluster
        self.site = site
        self.client = site.client
        self.app = app
        self.folder = folder
        self.namespaces: set[str] = set()
        self._gate = folder / "gate"

    # --- The agents --------------------------------------------------------------------------------------

    @contextmanager
    def agent(self, node: Node | None = None, *flags: str) -> Iterator[ManagedProcess]:
        """An agent that runs; ended at once with its uploader at the end, if it has not ended before."""
        node = node or self.cluster.nodes[0]
        process = self._start_agent(node, flags)
        try:
            process.wait_ready(
                lambda: "phase=Running" in process.log.read_text(), timeout_seconds=START_SECONDS
            )
            yield process
        except BaseException:
            print(process.log_tail())
            raise
        finally:
            process.stop(grace_seconds=0)

    def _start_agent(self, node: Node, flags: tuple[str, ...]) -> ManagedProcess:
        plane: ControlPlane = self.cluster.control_plane
        address = f"https://{plane.service_address}"
        kubeconfig = plane.write_kubeconfig(self.folder / f"kubeconfig-{node.name}", server=address)
        command: list[str | Path] = [
            *("unshare", "--pid", "--fork", "--kill-child", PINNACE, "node-agent"),
            *(
                "--log-level=debug",
                "--metrics-address=127.0.0.1:0",
                "--host-pods=/var/lib/kubelet/pods",
                *flags,
            ),
        ]
        environment = {
            **DIRECT,
            "KUBECONFIG": str(kubeconfig),
            "NODE_NAME": node.name,
            "VELERO_NAMESPACE": self.site.namespace,
            "VELERO_SCRATCH_DIR": str(self.folder),
            "PATH": f"{self._programs()}:{os.environ['PATH']}",
        }
        enter, *arguments = node.enter_argv(command)
        program = shutil.which(enter)
        assert program is not None
        log = self.folder / f"agent-{len(list(self.folder.glob('agent-*')))}.log"
        return ManagedProcess(f"agent of {node.name}", [program, *arguments], log=log, env=environment)

    def _programs(self) -> Path:
        directory = self.folder / "programs"
        if not directory.exists():
            directory.mkdir()
            programs = {
                "restic": shutil.which("restic"),
                "kopia": binaries.locate(binaries.UPLOADER)["kopia"],
            }
            for name, program in programs.items():
                script = directory / name
                script.write_text(GATE.format(gate=self._gate, program=program))
                script.chmod(0o755)
        return directory

    def hold(self, *commands: str) -> None:
        """Make the uploader wait before these commands: `backup`, `restore` of restic, `create` of kopia."""
        self._gate.write_text(" ".join(commands))

    def hold_after(self, *commands: str) -> None:
        """Make the uploader wait after it has carried out and reported one of these commands."""
        self._gate.with_name("gate.after").write_text(" ".join(commands))

    async def held(self) -> None:
        """Wait until a command is held."""

        async def reached() -> bool:
            return self._gate.with_name("gate.reached").exists()

        await eventually(reached)

    def release(self) -> None:
        """Let the command continue."""
        for name in ("gate", "gate.after"):
            self._gate.with_name(name).unlink(missing_ok=True)
        self._gate.with_name("gate.reached").unlink()

    # --- The application ---------------------------------------------------------------------------------

    async def run_pod(self, pod: JSONObject, volumes: str | None = None) -> JSONObject:
        """Create a pod whose annotation names these volumes; return it once it is ready."""
        if volumes is not None:
            pod["metadata"]["annotations"] = {labels.VOLUMES_TO_BACKUP: volumes}
        return await run_pod(self.client, self.app, pod)

    async def fill(self, pod: str, script: str) -> None:
        """Run a shell script in a pod."""
        await exec_in_pod(self.client, self.app, pod, "sh", "-c", script)

    async def content(self, pod: str, volume: str, *, namespace: str = "") -> str:
        """Names, types, modes, owners and sums of all that is in a volume, mounted at `/<volume>`."""
        shown = []
        for command in (LIST_FILES, SUM_FILES):
            script = command.format(volume=volume)
            shown.append(await exec_in_pod(self.client, namespace or self.app, pod, "sh", "-c", script))
        return "".join(shown)

    async def delete_app(self) -> None:
        """Delete the application's namespace, and wait until it is gone."""
        await delete_namespace(self.client, self.app)

    # --- Backups and restores ----------------------------------------------------------------------------

    async def back_up(self, name: str = "b", **spec: Any) -> JSONObject:
        """Back up the application; return the Backup once it has ended."""
        await self.begin_backup(name, **spec)
        return await self.site.reached("backups", name)

    async def begin_backup(self, name: str = "b", **spec: Any) -> None:
        if spec.get("snapshotMoveData"):
            with suppress(AlreadyExists):
                await add_ready_agent(self.client, self.site.namespace)
        await self.site.create("backups", name, spec={"includedNamespaces": [self.app], **spec})

    async def restore(self, name: str = "r", *, backup: str = "b", **spec: Any) -> JSONObject:
        """Restore the application; return the Restore once it has ended."""
        await self.begin_restore(name, backup=backup, **spec)
        return await self.site.reached("restores", name)

    async def begin_restore(self, name: str = "r", *, backup: str = "b", **spec: Any) -> None:
        self.namespaces |= set(spec.get("namespaceMapping", {}).values())
        await self.site.create("restores", name, spec={"backupName": backup, **spec})

    async def pod_volumes(self, plural: str) -> dict[str, JSONObject]:
        """PodVolumeBackups or PodVolumeRestores by the name of the volume."""
        found = await self.client.list_all(velero(plural), self.site.namespace)
        return {obj["spec"]["volume"]: obj for obj in found}

    async def snapshots(self) -> list[str]:
        """The ids of all snapshots in the repositories of the site."""
        found: list[str] = []
        accesses = AccessProvider(self.client, self.site.namespace, self.folder)
        for obj in await self.client.list_all(BACKUP_REPOSITORIES, self.site.namespace):
            place = repository_place(decode(BackupRepository, obj))
            found += await Uploaders.of(accesses).snapshot_ids(place)
        return found

    async def pod_volume_of(self, plural: str, backup: str) -> JSONObject:
        """The only PodVolumeBackup or PodVolumeRestore of a backup."""
        found = await self.client.list_all(self.kind(plural), self.site.namespace)
        [pod_volume] = [obj for obj in found if obj["metadata"]["labels"].get(labels.BACKUP_NAME) == backup]
        return pod_volume

    @staticmethod
    def kind(plural: str) -> APIResource:
        """One of our kinds."""
        return velero(plural)

    async def listing(self, pod: str, directory: str) -> list[str]:
        """The names in a directory of a pod."""
        return (await exec_in_pod(self.client, self.app, pod, "ls", "-A", directory)).split()

    async def delete_pod(self, name: str) -> None:
        """Delete a pod of the application, and wait until the kubelet has taken its volumes away."""
        await self.client.delete(PODS, name, self.app)

        async def gone() -> bool:
            try:
                await self.client.get(PODS, name, self.app)
            except NotFound:
                return True
            return False

        await eventually(gone)

    async def pod(self, name: str, *, namespace: str = "") -> JSONObject:
        """A pod, once it is ready."""
        return await wait_ready(self.client, namespace or self.app, name)


def volume_pod(name: str, *volumes: str, **spec: Any) -> JSONObject:
    """A pod with these emptyDirs, mounted below the root by their names."""
    return busybox_pod(
        name,
        mounts={volume: f"/{volume}" for volume in volumes},
        volumes=[{"name": volume, "emptyDir": {}} for volume in volumes],
        **spec,
    )


FILES = """
cd /data
mkdir -p deep/er empty
echo one > one; printf 'no newline' > deep/two; : > deep/er/nothing
head -c 3000000 /dev/urandom > deep/large
ln -s ../one deep/link; ln -s /nowhere dangling
chmod 600 one; chmod 4755 deep/two; chown 1234:5678 deep/er
echo spaced > 'name with blanks'
"""


async def add_helper_config(stage: Stage, **data: str) -> None:
    marks = {labels.PLUGIN_CONFIG: "", "velero.io/restic": "RestoreItemAction"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "helper", "labels": marks}}
    await stage.client.create(CONFIGMAPS, {**body, "data": data}, stage.site.namespace)


async def add_local_volume(stage: Stage, name: str, **spec: Any) -> None:
    """A persistent volume of a directory of the first node."""
    node = stage.cluster.nodes[0]
    (node.directory / "lib" / name).mkdir()
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}
    given = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": f"/var/lib/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        **spec,
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": given}
    await stage.client.create(PERSISTENT_VOLUMES, body)
