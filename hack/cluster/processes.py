"""Child processes of the development cluster: started on a leash, watched while they start, stopped by id.

Each child leads a process group of its own, writes to a log file, and is killed by the kernel when this
process ends in any way (see leash.py). Nothing here knows what the programs are.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import SystemRandom

from hack.cluster.errors import ClusterError, ProgramUnavailable, StartFailed

LEASH = Path(__file__).with_name("leash.py")
POLL_SECONDS = 0.05
LOG_TAIL_LINES = 20

# Below the kernels' range for local ports of outgoing connections (32768 and up on Linux,
# 49152 and up elsewhere), so that a server can be restarted on its port in the middle of a test.
PORTS = range(20_000, 32_000)

# Environment of programs that connect only to this machine: they must not use its proxy.
DIRECT = {"NO_PROXY": "*", "no_proxy": "*"}

# Environment of servers in Go. They collect garbage a quarter as often as by default: a third less processor
# time until an API server is ready, for 100 MiB more memory. Near the limit, which hundreds of definitions
# reach, they collect more often again.
SERVER = {**DIRECT, "GOGC": "400", "GOMEMLIMIT": "3GiB"}

# The kernel's leash is tied to the *thread* that forked. A caller's thread may end long before its process
# (asyncio.to_thread), so all children are started from one thread that lives as long as the process.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


def free_port() -> int:
    """Return a loopback port that no process listens on at this moment."""
    candidates = SystemRandom().sample(PORTS, k=100)
    for port in candidates:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise StartFailed(f"none of {len(candidates)} loopback ports tried is free")


class ManagedProcess:
    """One running child.

    Args:
        name: what messages call it.
        argv: the program's absolute path and its arguments. No secrets: every user can read them.
        log: file that gets standard output and error, appended.
        env: variables added to this process's environment; secrets go here.
    """

    def __init__(
        self, name: str, argv: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self.argv = [str(part) for part in argv]
        log.parent.mkdir(parents=True, exist_ok=True)
        self._popen = _spawner.submit(self._spawn, {**os.environ, **(env or {})}).result()

    def _spawn(self, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        leashed = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *self.argv]
        with self.log.open("ab") as output:
            return subprocess.Popen(
                leashed,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while the process runs."""
        return self._popen.poll()

    def wait(self, timeout_seconds: float) -> int | None:
        """Wait for the end; return the exit code, or None when it still runs after the timeout."""
        try:
            return self._popen.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, *, grace_seconds: float = 5.0) -> None:
        """End the process and its group: SIGTERM, and SIGKILL after the grace period. Idempotent."""
        if self.returncode is None and grace_seconds > 0:
            self._signal(signal.SIGTERM)
            self.wait(grace_seconds)
        # Also after an orderly end: the group may hold children that the process left.
        self._signal(signal.SIGKILL)
        self._popen.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait_ready(self, ready: Callable[[], bool], *, timeout_seconds: float) -> None:
        """Poll until `ready()` is true.

        Raises:
            StartFailed: the process ended, or the deadline passed. The process is left as it is.
        """
        deadline = time.monotonic() + timeout_seconds
        while not ready():
            if self.returncode is not None:
                raise StartFailed(f"{self.name} ended with code {self.returncode}.\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise StartFailed(
                    f"{self.name} is not ready after {timeout_seconds:.0f} s.\n{self.log_tail()}"
                )
            time.sleep(POLL_SECONDS)

    def log_tail(self) -> str:
        """Return the log's name and its last lines."""
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join([f"The end of {self.log}:", *(f"    {line}" for line in lines)])


def run_command(argv: Sequence[str | Path], *, timeout_seconds: float) -> str:
    """Run a short command to its end and return its standard output.

    Raises:
        ClusterError: it failed or took too long; the text has the command and its standard error.
    """
    command = [str(part) for part in argv]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise ProgramUnavailable(f"`{command[0]}` is not in PATH") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"`{' '.join(command)}` did not end within {timeout_seconds:.0f} s") from error
    if done.returncode != 0:
        raise ClusterError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and its children in bytes; what cannot be known counts 0."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident_bytes(int(child)) for child in children)
