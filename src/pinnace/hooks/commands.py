"""Runs the commands of hooks in pods, with a deadline and a limit for the output that is kept.

Every failure is one sentence of the report, as a failing hook must not end the backup or restore.
(docs/spec: API 15.2, 16.3)
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from pinnace.api.values.durations import Duration
from pinnace.kube.errors import ExecTimeout, KubeError
from pinnace.kube.transport.requests import Output

DEFAULT_TIMEOUT: Final = Duration.seconds(30)
"""The timeout of a hook that names none. (docs/spec: BKP 15, RST 1)"""
NO_COMMAND: Final = "command is required"
KEPT_BYTES: Final = 64 * 2**10
"""The limit for each of a command's two outputs: half from the beginning, half from the end."""


class Executor(Protocol):
    """Runs commands in containers. `pinnace.kube.client.KubeClient` is one."""

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str,
        stdout: Output,
        stderr: Output,
        timeout_seconds: float | None,
    ) -> int:
        """Run a command to its end, and return its exit code. Raises KubeError."""
        ...


class PodCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command and its container. A `timeout` of zero means 30 seconds, a negative one no limit."""

    namespace: str
    pod: str
    container: str
    command: Sequence[str]
    timeout: Duration

    @property
    def effective_timeout(self) -> Duration | None:
        """How long the command may take; None for no limit."""
        timeout = self.timeout or DEFAULT_TIMEOUT
        return timeout if timeout > Duration() else None


class CommandReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a command.

    Attributes:
        stdout, stderr: the outputs, with the middle left out if they are long.
        failure: why the command failed; "" if it did not.
    """

    stdout: str = ""
    stderr: str = ""
    failure: str = ""

    @property
    def outputs(self) -> dict[str, str]:
        """The outputs that are not empty, by name, as fields of a log line."""
        return {name: text for name, text in (("stdout", self.stdout), ("stderr", self.stderr)) if text}


class KeptOutput:
    """The beginning and the end of an output of any length."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._half = kept_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._cut_bytes = 0

    def write(self, data: bytes) -> None:
        """Add the next piece."""
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        surplus = len(self._tail) - self._half
        if surplus > 0:
            del self._tail[:surplus]
            self._cut_bytes += surplus

    def text(self) -> str:
        """The whole output, or its two ends with a note between them; invalid UTF-8 is replaced."""
        if not self._cut_bytes:
            return (self._head + self._tail).decode(errors="replace")
        head, tail = self._head.decode(errors="replace"), self._tail.decode(errors="replace")
        return f"{head}\n[... {self._cut_bytes} bytes left out ...]\n{tail}"


async def run_pod_command(executor: Executor, wanted: PodCommand) -> CommandReport:
    """Run a command and return a report; never raises, except for cancellation."""
    if not wanted.command:
        return CommandReport(failure=NO_COMMAND)
    stdout, stderr = KeptOutput(), KeptOutput()
    failure = await _run(executor, wanted, stdout, stderr)
    return CommandReport(stdout=stdout.text(), stderr=stderr.text(), failure=failure)


async def _run(executor: Executor, wanted: PodCommand, stdout: KeptOutput, stderr: KeptOutput) -> str:
    timeout = wanted.effective_timeout
    try:
        code = await executor.exec(
            wanted.namespace,
            wanted.pod,
            wanted.command,
            container=wanted.container,
            stdout=stdout.write,
            stderr=stderr.write,
            timeout_seconds=timeout.total_seconds() if timeout is not None else None,
        )
    except ExecTimeout:
        return f"timed out after {timeout}"
    except KubeError as error:
        return str(error)
    return f"command terminated with exit code {code}" if code else ""
