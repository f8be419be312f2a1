"""A process that has the server's code loaded and forks servers on request, so that a test can kill many.

    test ──a line of JSON──> nursery ──fork──> server, until it is killed by its id

Started as a program of its own (`python -m tests.support.servers.nursery`): a test process has threads and an
event loop, which do not survive a fork. Servers die with the nursery, the nursery with its standard input.
"""

import asyncio
import ctypes
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from hack.cluster.leash import PR_SET_PDEATHSIG
from hack.cluster.processes import LEASH

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One server.

    Attributes:
        scratch: for its temporary files; shared by servers that shall find each other's leftovers.
        log: standard output and errors are appended to it.
        lease_seconds: how long its Lease lasts; 0 for a server that needs none.
        features: those that are on.
        disabled: controllers that do not run.
        resume_restores: whether it resumes the Restores of those before it.
    """

    kubeconfig: str
    namespace: str
    scratch: str
    log: str
    lease_seconds: int = 0
    features: Sequence[str] = ()
    disabled: Sequence[str] = ()
    resume_restores: bool = False


class Nursery:
    """The parent's side. A context manager; leaving it ends the nursery and all its servers."""

    def __init__(self) -> None:
        leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid())]
        self._process = subprocess.Popen(
            [*leash, sys.executable, "-m", __name__],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=120)

    def start(self, order: Order) -> int:
        """Start a server; its process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the nursery has ended"
        return int(answer)


def kill(pid: int) -> None:
    """Kill a server, as a power cut does. It is gone when this returns."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        assert has_ended(descriptor, timeout_seconds=120), f"process {pid} outlives SIGKILL"
    finally:
        os.close(descriptor)


def has_ended(descriptor: int, *, timeout_seconds: float = 0.0) -> bool:
    """Whether the process of a pidfd ends within that time."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(timeout=timeout_seconds))


def main() -> None:
    """Fork a server for every line of standard input; print its process id."""
    # Imported for the servers: this is what takes a second.
    from pinnace.api.values.durations import Duration
    from pinnace.kube.config import load_config
    from pinnace.runtime.errors import RuntimeFailure
    from pinnace.runtime.leader import LEASE_SECONDS
    from pinnace.server.app import run_server
    from pinnace.server.options import ServerOptions
    from pinnace.storage.s3.store import S3Store  # noqa: F401 - loaded late by those who need it

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # dead servers are not waited for
    for line in sys.stdin:
        order = Order(**json.loads(line))
        if pid := os.fork():
            print(pid, flush=True)
            continue
        _die_with_parent()
        _redirect(order.log)
        logging.basicConfig(level=logging.WARNING)
        options = ServerOptions(
            namespace=order.namespace,
            metrics_address="127.0.0.1:0",
            scratch=Path(order.scratch),
            log_level="error",
            leader_election=order.lease_seconds > 0,
            lease_duration=Duration.seconds(order.lease_seconds or LEASE_SECONDS),
            features=frozenset(order.features),
            disabled_controllers=frozenset(order.disabled),
            resume_restores=order.resume_restores,
        )
        try:
            asyncio.run(run_server(load_config(order.kubeconfig), options, user_agent="nursery"))
        except RuntimeFailure as failure:
            print(failure, flush=True)
            os._exit(1)
        os._exit(0)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _redirect(log: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)


if __name__ == "__main__":
    main()
