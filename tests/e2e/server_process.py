"""`pinnace server` as a child process, with its log in a file."""

import asyncio
import contextlib
import os
import re
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiohttp

from hack.cluster.processes import LEASH
from tests.support.waiting import eventually

PROGRAM = Path(sys.executable).with_name("pinnace")
END_SECONDS = 120.0

WITH_GRACE = """
import sys
from pinnace.cli.main import main
from pinnace.runtime.manager import Manager
Manager.__init__.__kwdefaults__["grace_period_seconds"] = float(sys.argv.pop(1))
main()
"""
"""The program, with another grace period: no user needs a flag for it."""

_VALUE = r'(?:"(?:[^"\\]|\\.)*"|[-\w./@^+]*)'
TEXT_LINE = re.compile(
    rf'time="\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ" level=\w+ msg={_VALUE}(?: [\w.-]+={_VALUE})*'
)
"""A line of the log in text format. (docs/spec: SRV 9)"""


class ServerProcess:
    """One server. It dies with the test process, however that ends.

    Args:
        folder: of home, scratch and log; shared by servers that shall find each other's leftovers.
        kubeconfig: the cluster, perhaps through a proxy.
        arguments: of the command, after `server`.
        environ: more variables.
        grace_seconds: how long a stop waits for work in flight; None for what users get.
        role: the command; a server, or a node agent.
    """

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        grace_seconds: float | None = None,
        role: Sequence[str] = ("server",),
    ) -> None:
        self.scratch = folder / "scratch"
        self.log_file = folder / f"server-{secrets.token_hex(4)}.log"
        self._kubeconfig = kubeconfig
        self._arguments = arguments
        self._role = role
        self._program = [str(PROGRAM)]
        if grace_seconds is not None:
            self._program = [sys.executable, "-c", WITH_GRACE, str(grace_seconds)]
        for name in ("home", "scratch"):
            (folder / name).mkdir(exist_ok=True)
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "TZ": "UTC",
            "VELERO_SCRATCH_DIR": str(self.scratch),
            "AWS_EC2_METADATA_DISABLED": "true",
            **(environ or {}),
        }
        self._process: asyncio.subprocess.Process | None = None
        self.errors = ""

    async def start(self) -> None:
        """Start it and return at once."""
        leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid())]
        options = ["--kubeconfig", str(self._kubeconfig), "--metrics-address", "127.0.0.1:0"]
        if self._role[0] == "server":
            options += ["--profiler-address", ""]  # the default is one port for all servers of the machine
        with self.log_file.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *leash,
                *self._program,
                *self._role,
                *options,
                *self._arguments,
                env=self._environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.PIPE,
            )

    async def ready(self, detail: str = "Running") -> None:
        """Wait until its readiness probe says so."""

        async def check() -> bool:
            assert self._process is not None
            assert self._process.returncode is None, f"it has ended: {self.log}"
            return self.url is not None and await self.page("readyz") == (200, f"{detail}\n")

        await eventually(check)

    async def page(self, name: str) -> tuple[int, str]:
        """Status and text of one of its pages; status 0 when it does not listen."""
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self.url}/{name}") as response:
                return response.status, await response.text()
        except aiohttp.ClientError:
            return 0, ""

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def url(self) -> str | None:
        """Where its pages are, once it has said so."""
        found = re.search(r"^.*Serving metrics and probes.*$", self.log, re.MULTILINE)
        address = re.search(r"127\.0\.0\.1:\d+", found[0]) if found else None
        return f"http://{address[0]}" if address else None

    async def said(self, text: str) -> None:
        """Wait for a text in its log."""

        async def check() -> bool:
            return text in self.log

        await eventually(check)

    @property
    def children(self) -> list[int]:
        """The processes that it has started itself and that run."""
        assert self._process is not None
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended since
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                if parent == str(self._process.pid) and state != "Z":
                    found.append(int(folder.name))
        return found

    def send(self, signum: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(signum)

    async def end(self) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        assert self._process is not None
        try:
            async with asyncio.timeout(END_SECONDS):
                _, errors = await self._process.communicate()
        except TimeoutError:
            await self.kill()
            raise AssertionError(f"the server did not end in time: {self.log}") from None
        self.errors = (errors or b"").decode()
        assert "Traceback" not in self.errors + self.log
        assert self._process.returncode is not None
        return self._process.returncode

    async def stop(self) -> int:
        """End it in order."""
        self.send(signal.SIGTERM)
        return await self.end()

    async def kill(self) -> None:
        """End it as a power cut does."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()
