"""Containers that run no command, but answer as a test scripts it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from pinnace.kube.transport.requests import Output


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What one command does: print a text, wait for `until` if given, end or fail."""

    code: int = 0
    stdout: Sequence[bytes] = ()
    stderr: Sequence[bytes] = ()
    error: Exception | None = None
    until: asyncio.Event | None = None


@dataclass
class FakeContainers:
    """An executor that records what is run, as `namespace/pod/container: words`, and the words one by one.

    Behaviours are by the first word of the command; others just succeed.
    """

    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)
    timeouts: list[float | None] = field(default_factory=list)
    running: int = 0
    most_at_once: int = 0

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
        self.ran.append(f"{namespace}/{pod}/{container}: {' '.join(command)}")
        self.commands.append(list(command))
        self.timeouts.append(timeout_seconds)
        behaviour = self.behaviours.get(command[0], Behaviour())
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            for data in behaviour.stdout:
                stdout(data)
            for data in behaviour.stderr:
                stderr(data)
            await asyncio.sleep(0)
            if behaviour.until is not None:
                await behaviour.until.wait()
        finally:
            self.running -= 1
        if behaviour.error is not None:
            raise behaviour.error
        return behaviour.code
