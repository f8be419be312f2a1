"""One node: containerd and a kubelet in namespaces of their own (mounts, network, process ids).

The namespaces belong to a first process (init.py), which is leashed to this one. Whatever ends it ends
the node as a power cut would: the kernel kills every process of the node, pods and their shims included, and
drops its mounts and its network. What remains, the folder and the control groups, is removed by `remove()`.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hack.cluster import binaries
from hack.cluster.control_plane import ControlPlane
from hack.cluster.errors import ClusterError, StartFailed
from hack.cluster.nodes import cgroups
from hack.cluster.nodes.config import CONTAINERD_SOCKET, ETC, KUBELET_ROOT, NodeConfig
from hack.cluster.nodes.network import ClusterNetwork
from hack.cluster.nodes.requirements import cni_directory
from hack.cluster.pki import write_secret
from hack.cluster.processes import SERVER, ManagedProcess, run_command

INIT = Path(__file__).with_name("init.py")
START_TIMEOUT_SECONDS = 90.0
LOAD_TIMEOUT_SECONDS = 300.0
END_TIMEOUT_SECONDS = 30.0
CONTAINERD_PROBE_SECONDS = 20.0


class Node:
    """One node in one folder. `stop()` is a power cut; `start()` boots it again with what is on its disk.

    Args:
        directory: the node's own folder; made if missing. Its `lib` is the node's /var/lib.
        number: from 1, unique in the network.
        network: open as long as the node runs.
    """

    def __init__(self, directory: Path, *, name: str, number: int, network: ClusterNetwork) -> None:
        self.directory = directory.absolute()
        self.name = name
        self.number = number
        self._network = network
        self._processes: dict[str, ManagedProcess] = {}
        self._init_pid = 0
        self._init_descriptor = -1

    @property
    def address(self) -> str:
        """The node's InternalIP."""
        return self._network.node_address(self.number)

    @property
    def pid(self) -> int:
        """The node's first process; 0 when the node does not run.

        `/proc/<pid>/root` is the file system as the node sees it, mounts of volumes included.
        """
        return self._init_pid

    @property
    def root(self) -> Path:
        """The node's file system as the node sees it, for processes of this machine."""
        if not self._init_pid:
            raise RuntimeError(f"node {self.name} does not run")
        return Path(f"/proc/{self._init_pid}/root")

    @property
    def kubelet_root(self) -> Path:
        """The kubelet's root with all its mounts, for processes of this machine; /var/lib/kubelet inside."""
        return self.root / KUBELET_ROOT.lstrip("/")

    @property
    def processes(self) -> dict[str, ManagedProcess]:
        """The running programs by name; each is an `nsenter` whose only child is the program."""
        return dict(self._processes)

    def boot(self, *, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start the node up to containerd; needs no API server.

        Raises:
            ClusterError: nothing is left running then.
        """
        deadline = time.monotonic() + timeout_seconds
        try:
            self._start_init(deadline)
            cgroups.create(self._config.cgroup)
            self._network.attach(self.number, self._init_pid)
            for name, content in self._config.files().items():
                path = self._etc / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
            self._launch("containerd", ["containerd", f"--config={ETC}/containerd.toml"])
            self._processes["containerd"].wait_ready(
                self._containerd_answers, timeout_seconds=_left(deadline)
            )
        except BaseException:
            self.stop()
            raise

    def join(self, plane: ControlPlane, *, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start the kubelet of a booted node and return when pods can be scheduled on it.

        Raises:
            ClusterError: nothing is left running then.
        """
        deadline = time.monotonic() + timeout_seconds
        try:
            if not (self._etc / "kubeconfig").exists():
                self._issue_credentials(plane)
            launched_at = datetime.now(UTC).replace(microsecond=0)
            self._launch("kubelet", self._config.kubelet_argv())
            self._processes["kubelet"].wait_ready(
                lambda: _is_schedulable(plane, self.name, since=launched_at), timeout_seconds=_left(deadline)
            )
        except BaseException:
            self.stop()
            raise

    def load(self, archive: Path) -> None:
        """Import the images of an archive (images.py).

        Raises:
            ClusterError: the text has containerd's answer.
        """
        run_command(
            [*self._ctr(), "images", "import", archive],
            timeout_seconds=LOAD_TIMEOUT_SECONDS,
        )

    def enter_argv(self, argv: Sequence[str | Path]) -> list[str]:
        """Return a command that runs a program inside the node, for example to act as the node agent."""
        return [
            "nsenter",
            f"--target={self._init_pid}",
            *("--mount", "--net", "--pid"),
            "--",
            *(str(part) for part in argv),
        ]

    def stop_kubelet(self) -> None:
        """End the kubelet alone: pods continue, without reports to the cluster. `join()` brings it back."""
        self._processes.pop("kubelet").stop(grace_seconds=0)

    def stop(self) -> None:
        """End the node at once, as a power cut does. Idempotent."""
        if not self._processes:
            return  # by now its names may be those of another cluster
        if self._init_descriptor >= 0:
            _kill_and_wait(self._init_descriptor)
            os.close(self._init_descriptor)
        self._init_pid, self._init_descriptor = 0, -1
        for process in reversed(self._processes.values()):
            process.stop(grace_seconds=0)
        self._processes.clear()
        self._network.detach(self.number)
        cgroups.remove(self._config.cgroup)

    def remove(self) -> None:
        """End the node and delete its folder."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _config(self) -> NodeConfig:
        return NodeConfig(
            name=self.name,
            address=self.address,
            pod_range=self._network.pod_range(self.number),
            cgroup=f"{self._network.name}-{self.number}",
            cni_directory=cni_directory(),
        )

    @property
    def _etc(self) -> Path:
        """ETC from outside the node."""
        return self.directory / Path(ETC).relative_to("/var")

    def _ctr(self) -> list[str]:
        return ["ctr", f"--address={self.root}{CONTAINERD_SOCKET}", "--namespace=k8s.io"]

    def _start_init(self, deadline: float) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        ready = self.directory / "init.pid"
        ready.unlink(missing_ok=True)
        kubelet = binaries.locate(binaries.NODE)["kubelet"]
        # `unshare` stays outside, waits for the first process inside, and hands its own death on to it.
        namespaces = ["--mount", "--net", "--pid", "--fork", "--kill-child"]
        init = ManagedProcess(
            "init",
            [
                _program("unshare"),
                *namespaces,
                *(sys.executable, "-I", "-S", INIT, self.directory, kubelet, ready),
            ],
            log=self._log("init"),
        )
        self._processes["init"] = init
        init.wait_ready(lambda: _has_line(ready), timeout_seconds=_left(deadline))
        self._init_pid = int(ready.read_text())
        self._init_descriptor = os.pidfd_open(self._init_pid)

    def _launch(self, name: str, argv: Sequence[str]) -> None:
        enter = self.enter_argv(argv)
        self._processes[name] = ManagedProcess(
            name, [_program(enter[0]), *enter[1:]], log=self._log(name), env=SERVER
        )

    def _log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    def _containerd_answers(self) -> bool:
        if not (self.root / CONTAINERD_SOCKET.lstrip("/")).exists():
            return False
        try:
            run_command([*self._ctr(), "version"], timeout_seconds=CONTAINERD_PROBE_SECONDS)
        except ClusterError:
            return False
        return True

    def _issue_credentials(self, plane: ControlPlane) -> None:
        authority = plane.authority
        serving = authority.issue_server(f"{self.name}-server", addresses=(self.address,), names=(self.name,))
        client = authority.issue_client(
            f"{self.name}-client", user=f"system:node:{self.name}", groups=("system:nodes",)
        )
        shutil.copyfile(authority.certificate, self._etc / "ca.crt")
        shutil.copyfile(serving.certificate, self._etc / "kubelet-server.crt")
        write_secret(self._etc / "kubelet-server.key", serving.key.read_bytes())
        plane.write_kubeconfig(
            self._etc / "kubeconfig", server=f"https://{plane.service_address}", client=client
        )


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _program(name: str) -> str:
    return shutil.which(name) or name


def _has_line(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


def _is_schedulable(plane: ControlPlane, name: str, *, since: datetime) -> bool:
    """Whether pods can be scheduled there; reports of an earlier kubelet, before `since`, do not count."""
    status, body = plane.get(f"/api/v1/nodes/{name}")
    if status != 200:
        return False
    node = json.loads(body)
    ready = next((item for item in node["status"].get("conditions", []) if item["type"] == "Ready"), None)
    return (
        ready is not None
        and ready["status"] == "True"
        and datetime.fromisoformat(ready["lastHeartbeatTime"]) >= since
        and not node["spec"].get("taints")
    )


def _kill_and_wait(descriptor: int) -> None:
    """Kill the first process of a namespace and wait until the last one in there has ended."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    if not select.select([descriptor], [], [], END_TIMEOUT_SECONDS)[0]:
        raise StartFailed("the processes of a node do not end")
