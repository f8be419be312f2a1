"""The `pinnace` command as a child process, with checks that hold for every output.

A command that runs to its end is a fork of a process that has the program loaded (tests/support/runs); one
that is interrupted, limited or on a terminal is a process of its own.
"""

import asyncio
import os
import pty
import re
import signal
import sys
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.runs.forked_commands import can_fork, run_forked

PROGRAM = Path(sys.executable).with_name("pinnace")
SECONDS = 180.0
"""How long a command may take. On an idle machine none needs two seconds; a busy one can be much slower."""


_NAMES_PLACE = re.compile(r"(\w+ing\b.* cluster http\S+ \(context \S+\)|Deleting from .*)\.$")
_PROGRESS = re.compile(r"[\w ]+: [\d,]+( of (at least |about )?[\d,]+)? items?\b.*, \d+:\d\d\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of standard output."""
        return self.out.splitlines()

    @property
    def told(self) -> str:
        """Standard error without the line that names the cluster or location, and those of slow progress."""
        return "".join(
            line
            for line in self.err.splitlines(True)
            if not _NAMES_PLACE.match(line) and not _PROGRESS.match(line)
        )


class Running:
    """A command under way."""

    def __init__(self, process: asyncio.subprocess.Process, owner: "Pinnace") -> None:
        self.process = process
        self._owner = owner

    def interrupt(self, signum: int = signal.SIGINT) -> None:
        """Send it a signal, as Ctrl-C does."""
        self.process.send_signal(signum)

    @property
    def arguments(self) -> str:
        """The argument lists of the command and its children, which every user of the machine can read."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if folder.name == str(self.process.pid) or parent == str(self.process.pid):
                    found.append((folder / "cmdline").read_bytes().decode())
            except OSError:
                continue  # it has ended since
        return "\n".join(found)

    async def finish(self) -> Outcome:
        """Wait for its end."""
        try:
            async with asyncio.timeout(SECONDS):
                out, err = await self.process.communicate()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
            raise AssertionError("the command did not end in time") from None
        assert self.process.returncode is not None
        return self._owner.check(
            Outcome(
                code=self.process.returncode,
                out=(out or b"").decode(errors="surrogateescape"),
                err=(err or b"").decode(errors="surrogateescape"),
            )
        )


class Pinnace:
    """Runs the command with an environment of its own.

    Args:
        folder: an empty folder: its working directory, home and temporary files.
        kubeconfig: the cluster.
        location: given by `--location`; None leaves it out.
        secrets: texts that no output may contain.
        environ: more variables.
    """

    def __init__(
        self,
        folder: Path,
        *,
        kubeconfig: Path,
        location: str | None,
        secrets: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.location = location
        self.secrets = secrets
        self.spool = folder / "tmp"
        for name in ("home", "tmp"):
            (folder / name).mkdir(exist_ok=True)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "TMPDIR": str(self.spool),
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "PAGER": "cat",  # nobody is there to quit it
            "AWS_EC2_METADATA_DISABLED": "true",
            **(environ or {}),
        }

    async def __call__(self, *arguments: str, stdin: str = "") -> Outcome:
        """Run a command to its end."""
        if not can_fork(self.environ):
            running = await self.start(*arguments, stdin=bool(stdin))
            if stdin:
                assert running.process.stdin is not None
                running.process.stdin.write(stdin.encode())
            return await running.finish()
        program, *words = self._command(arguments)
        try:
            ended = await run_forked(
                Path(program),
                words,
                folder=self.folder,
                environ=self.environ,
                stdin=stdin.encode(),
                limit_seconds=SECONDS,
            )
        except TimeoutError:
            raise AssertionError("the command did not end in time") from None
        out, err = (each.decode(errors="surrogateescape") for each in (ended.out, ended.err))
        return self.check(Outcome(code=ended.code, out=out, err=err))

    async def start(self, *arguments: str, stdin: bool = False) -> Running:
        """Start a command whose output is read by pipes."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command(arguments),
            cwd=self.folder,
            env=self.environ,
            stdin=pipe if stdin else asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
        )
        return Running(process, self)

    async def limited(self, limit: str, *arguments: str) -> Outcome:
        """Run a command under a flag of `prlimit`, such as `--nofile=20`; its output is not checked."""
        process = await asyncio.create_subprocess_exec(
            "prlimit",
            limit,
            *self._command(arguments),
            cwd=self.folder,
            env=self.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate()
        assert process.returncode is not None
        return Outcome(code=process.returncode, out=out.decode(), err=err.decode())

    async def on_terminal(self, *arguments: str, columns: int = 80) -> Outcome:
        """Run a command whose standard output and standard error are one terminal: all is in `out`."""
        controller, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (24, columns))
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command(arguments),
                cwd=self.folder,
                env={**self.environ, "TERM": "xterm"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=terminal,
                stderr=terminal,
            )
            os.close(terminal)
            reading = asyncio.to_thread(_read_terminal, controller)
            out, outcome = await asyncio.gather(reading, Running(process, self).finish())
        finally:
            os.close(controller)
        return self.check(Outcome(code=outcome.code, out=out, err=outcome.err))

    async def piped_into(self, consumer: str, *arguments: str) -> tuple[Outcome, str]:
        """Run a command whose output goes into a shell command; also returns what that one printed."""
        read_end, write_end = os.pipe()
        reader = await asyncio.create_subprocess_exec(
            "sh", "-c", consumer, stdin=read_end, stdout=asyncio.subprocess.PIPE
        )
        os.close(read_end)
        process = await asyncio.create_subprocess_exec(
            *self._command(arguments),
            cwd=self.folder,
            env=self.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=write_end,
            stderr=asyncio.subprocess.PIPE,
        )
        os.close(write_end)
        outcome = await Running(process, self).finish()
        shown, _ = await reader.communicate()
        return outcome, shown.decode()

    def check(self, outcome: Outcome) -> Outcome:
        """What every command keeps to: no traceback, no secret, no temporary file left."""
        for text in (outcome.out, outcome.err):
            assert "Traceback" not in text, text
            assert "Exception ignored" not in text, text
            assert "Unclosed" not in text, text
            for secret in self.secrets:
                assert secret not in text
        left = list(self.spool.iterdir())
        assert left == [], f"temporary files are left: {left}"
        return outcome

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        location = [] if self.location is None else ["--location", self.location]
        return [str(PROGRAM), "--kubeconfig", str(self.kubeconfig), *location, *arguments]


def _read_terminal(controller: int) -> str:
    """Everything that is written to a terminal until its last writer has gone."""
    parts = []
    while True:
        try:
            data = os.read(controller, 65536)
        except OSError:  # Linux says EIO when no process has the terminal open any more
            break
        if not data:
            break
        parts.append(data)
    return b"".join(parts).decode()
