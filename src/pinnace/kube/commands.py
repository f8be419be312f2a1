"""Commands in pods as hooks run them: with a deadline, and what they say kept within bounds.

Whatever goes wrong is one sentence of the report, for a hook's failure is never the end of a run.
(docs/spec: API 15.2, 16.3)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pinnace.api.values.durations import Duration
from pinnace.kube.errors import CommandTimeout, KubeError
from pinnace.kube.transport.requests import Output

DEFAULT_TIMEOUT: Final = Duration.seconds(30)
"""Of a hook that names none. (docs/spec: BKP 15, RST 1)"""
NO_COMMAND: Final = "command is required"
KEPT_BYTES: Final = 64 * 2**10
"""Of each of a command's two outputs: half of it from the beginning, half from the end."""


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
        """Run a command to its end; its exit code. Raises KubeError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCommand:
    """A command, and where it runs. `timeout` is 30 seconds if zero; negative, there is none."""

    namespace: str
    pod: str
    container: str
    command: Sequence[str]
    timeout: Duration

    @property
    def effective_timeout(self) -> Duration | None:
        """How long it may take; None for no limit."""
        timeout = self.timeout or DEFAULT_TIMEOUT
        return timeout if timeout > Duration() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReport:
    """How it went.

    Attributes:
        stdout, stderr: what it said, cut in the middle if that was much.
        failure: why it failed; "" if it did not.
    """

    stdout: str = ""
    stderr: str = ""
    failure: str = ""

    @property
    def outputs(self) -> dict[str, str]:
        """The outputs that are not empty, by name; what a log line is to hold."""
        return {name: text for name, text in (("stdout", self.stdout), ("stderr", self.stderr)) if text}


class KeptOutput:
    """The beginning and the end of an output of any length."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._half = kept_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._cut_bytes = 0

    def write(self, data: bytes) -> None:
        """Take the next piece."""
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        surplus = len(self._tail) - self._half
        if surplus > 0:
            del self._tail[:surplus]
            self._cut_bytes += surplus

    def text(self) -> str:
        """All of it, or its two ends with a note between them; bytes that are no UTF-8 are replaced."""
        if not self._cut_bytes:
            return (self._head + self._tail).decode(errors="replace")
        head, tail = self._head.decode(errors="replace"), self._tail.decode(errors="replace")
        return f"{head}\n[... {self._cut_bytes} bytes left out ...]\n{tail}"


async def run_pod_command(executor: Executor, wanted: PodCommand) -> CommandReport:
    """Run a command and report; raises nothing but cancellation."""
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
    except CommandTimeout:
        return f"timed out after {timeout}"
    except KubeError as error:
        return str(error)
    return f"command terminated with exit code {code}" if code else ""
