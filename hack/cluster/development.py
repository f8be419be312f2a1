"""The long-running cluster of a developer's machine: one, in the cache, behind `make cluster-up`.

A supervisor process owns the servers; they end with it. It holds a lock on `<state>/lock` as long as it
lives, so whether the cluster runs is never a guess from a process id that may have been given to another.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from urllib.parse import urlencode

from hack.cluster import binaries
from hack.cluster.control_plane import ControlPlane
from hack.cluster.errors import ClusterError, StartFailed
from hack.cluster.locks import is_locked, try_lock
from hack.cluster.nodes import network as node_network
from hack.cluster.nodes import requirements as node_requirements
from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.processes import resident_bytes
from hack.cluster.stores.s3 import S3Server

NAME = "pinnace-dev"
BUCKET = "pinnace"
START_TIMEOUT_SECONDS = 180.0
STOP_TIMEOUT_SECONDS = 30.0
LOCK_TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.1
LOG_TAIL_LINES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The facts that the supervisor publishes once everything is ready."""

    supervisor: int
    processes: dict[str, int]
    api_server_url: str
    kubeconfig: str
    s3_url: str
    s3_region: str
    s3_credentials_file: str
    nodes: list[str]

    @property
    def location_url(self) -> str:
        """The bucket as a location for `pinnace --location`."""
        return f"s3://{BUCKET}/dev?{urlencode({'region': self.s3_region, 's3Url': self.s3_url})}"


def state_directory() -> Path:
    """Return the folder that holds everything of the development cluster."""
    return binaries.cache_directory() / "dev-cluster"


def up(*, node: bool = False) -> State:
    """Start the cluster in the background unless it runs, and return when it is ready.

    Args:
        node: with a node, so that pods run.

    Raises:
        ClusterError: it did not come up, and nothing is left running; or one without a node runs.
    """
    directory = state_directory()
    if not _is_running(directory):
        if node:
            node_requirements.require()
        binaries.locate([*binaries.CONTROL_PLANE, *binaries.S3_SERVER, *(binaries.NODE if node else ())])
        shutil.rmtree(directory, ignore_errors=True)  # of one whose machine was switched off
        directory.mkdir(parents=True, mode=0o700)
        _start_supervisor(directory, node=node)
    state = _await_state(directory)
    if node and not state.nodes:
        raise ClusterError("the development cluster runs without a node; stop it first (make cluster-down)")
    return state


def down() -> bool:
    """Stop the cluster and delete its folder. Returns whether there was one to stop."""
    directory = state_directory()
    was_running = _is_running(directory)
    if was_running:
        _stop_supervisor(directory, int(_pid_file(directory).read_text()))
    shutil.rmtree(directory, ignore_errors=True)
    if node_requirements.why_impossible() is None:
        node_network.clean_up()  # after a supervisor that was killed
    return was_running


def status() -> State | None:
    """Return what the running cluster published, or None when there is none or it is not ready."""
    directory = state_directory()
    return _read_state(directory) if _is_running(directory) else None


def memory_bytes(state: State) -> dict[str, int]:
    """Return the resident memory of each server."""
    return {name: resident_bytes(pid) for name, pid in state.processes.items()}


def serve(*, node: bool = False) -> None:
    """Run the cluster in this process until SIGTERM or SIGINT; this is the supervisor."""
    directory = state_directory()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    with _supervision(directory), contextlib.ExitStack() as stack:
        cluster: ControlPlane | NodeCluster
        address = "127.0.0.1"
        if node:
            cluster = stack.enter_context(NodeCluster(directory / "cluster", name=NAME))
            address = cluster.network.gateway  # so that pods reach the S3 server too
        else:
            cluster = stack.enter_context(ControlPlane(directory / "cluster", name=NAME))
        s3 = stack.enter_context(S3Server(directory / "s3", address=address))
        s3.create_bucket(BUCKET)
        _publish(directory, cluster, s3)
        servers = [*cluster.processes.values(), *([s3.process] if s3.process else [])]
        while all(server.returncode is None for server in servers):
            time.sleep(1)
        raise StartFailed(f"a server ended by itself; see the logs under {directory}")


def _leave(_number: int, _frame: FrameType | None) -> None:
    # The exception unwinds the `with` above, which stops everything in order.
    raise SystemExit(0)


@contextlib.contextmanager
def _supervision(directory: Path) -> Iterator[None]:
    """Hold the lock that says "it runs", and record the process id for `down`."""
    with (directory / "lock").open("a") as lock:
        # Several tries: `_is_running` of another process holds the lock for an instant.
        if not _poll(lambda: try_lock(lock.fileno()), LOCK_TIMEOUT_SECONDS):
            raise ClusterError(f"a development cluster runs already in {directory}")
        _pid_file(directory).write_text(str(os.getpid()))
        yield


def _publish(directory: Path, cluster: ControlPlane | NodeCluster, s3: S3Server) -> None:
    processes = {name: process.pid for name, process in cluster.processes.items()}
    plane = cluster.control_plane if isinstance(cluster, NodeCluster) else cluster
    if s3.process is not None:
        processes["versitygw"] = s3.process.pid
    state = State(
        supervisor=os.getpid(),
        processes=processes,
        api_server_url=plane.url,
        kubeconfig=str(plane.kubeconfig),
        s3_url=s3.url,
        s3_region=s3.region,
        s3_credentials_file=str(s3.credentials_file),
        nodes=[node.name for node in cluster.nodes] if isinstance(cluster, NodeCluster) else [],
    )
    scratch = directory / "state.json.new"
    scratch.write_text(json.dumps(asdict(state), indent=2))
    scratch.rename(directory / "state.json")


def _read_state(directory: Path) -> State | None:
    try:
        return State(**json.loads((directory / "state.json").read_text()))
    except FileNotFoundError:
        return None


def _pid_file(directory: Path) -> Path:
    return directory / "pid"


def _is_running(directory: Path) -> bool:
    try:
        with (directory / "lock").open("r") as lock:
            return is_locked(lock.fileno())
    except FileNotFoundError:
        return False


def _start_supervisor(directory: Path, *, node: bool) -> None:
    checkout = Path(__file__).parents[2]
    with (directory / "supervisor.log").open("ab") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "hack.cluster", "serve", *(["--node"] if node else [])],
            cwd=checkout,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    # This process owns the supervisor only until that holds its lock.
    _poll(lambda: supervisor.poll() is not None or _is_running(directory), START_TIMEOUT_SECONDS)


def _await_state(directory: Path) -> State:
    done = _poll(
        lambda: _read_state(directory) is not None or not _is_running(directory), START_TIMEOUT_SECONDS
    )
    state = _read_state(directory) if done and _is_running(directory) else None
    if state is None:
        log = (directory / "supervisor.log").read_text().splitlines()[-LOG_TAIL_LINES:]
        down()
        raise StartFailed("\n".join(["The development cluster did not come up:", *log]))
    return state


def _stop_supervisor(directory: Path, pid: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if _poll(lambda: not _is_running(directory), STOP_TIMEOUT_SECONDS):
            return
    raise ClusterError(f"process {pid} does not end")


def _poll(condition: Callable[[], bool], timeout_seconds: float) -> bool:
    """Return whether the condition came true in time."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
