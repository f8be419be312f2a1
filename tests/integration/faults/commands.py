"""The real command line as a child process."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.runs.forked_commands import run_forked

PROGRAM = Path(sys.executable).with_name("pinnace")
COMMAND_SECONDS = 180.0
"""A command of these tests that runs longer hangs, even on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended: `code` is negative for a signal."""

    code: int
    out: str
    err: str


@dataclass(slots=True, kw_only=True)
class Command:
    """A running command. Its temporary files are in `temporary`."""

    process: asyncio.subprocess.Process
    temporary: Path

    def send(self, signum: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(signum)

    async def ended(self) -> Ended:
        """Wait for its end; no command may end with a traceback."""
        async with asyncio.timeout(COMMAND_SECONDS):
            out, err = await self.process.communicate()
        assert self.process.returncode is not None
        ended = Ended(code=self.process.returncode, out=out.decode(), err=err.decode())
        assert "Traceback" not in ended.err, ended.err
        return ended


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """Starts commands.

    Attributes:
        directory: an existing directory for home and temporary files.
        credentials: an AWS credentials file.
        wrapper: a command in front, which gets the real one as its arguments.
    """

    directory: Path
    kubeconfig: Path
    credentials: Path | None = None
    wrapper: Sequence[str] = ()

    @asynccontextmanager
    async def started(self, *arguments: str) -> AsyncIterator[Command]:
        """Run `pinnace <arguments>`; it is killed if it outlives the block."""
        temporary = self.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            *self.wrapper,
            sys.executable,
            "-m",
            "pinnace.cli.main",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment(temporary),
        )
        try:
            yield Command(process=process, temporary=temporary)
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def run(self, *arguments: str) -> Ended:
        """Run a command to its end: a fork, unless it has a wrapper. (docs/adr/133)"""
        if self.wrapper:
            async with self.started(*arguments) as command:
                return await command.ended()
        temporary = self.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        forked = await run_forked(
            PROGRAM,
            arguments,
            folder=Path.cwd(),
            environ=self.environment(temporary),
            stdin=b"",
            limit_seconds=COMMAND_SECONDS,
        )
        ended = Ended(code=forked.code, out=forked.out.decode(), err=forked.err.decode())
        assert "Traceback" not in ended.err, ended.err
        return ended

    def environment(self, temporary: Path) -> dict[str, str]:
        """The environment of a command, with nothing of the developer's own."""
        found = {
            "HOME": str(self.directory),
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": os.environ["PATH"],
            "TMPDIR": str(temporary),
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        if self.credentials is not None:
            found["AWS_SHARED_CREDENTIALS_FILE"] = str(self.credentials)
        return found
