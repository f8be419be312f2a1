"""One run of a plugin's program: start, handshake, end. (docs/spec: PLG 3, 4, 10)"""

import asyncio
import contextlib
import os
import signal
import stat
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from google.protobuf.empty_pb2 import Empty

from pinnace.aio.blocking import finish
from pinnace.aio.lines import LineSplitter
from pinnace.plugins.errors import PluginCallError, PluginStartError
from pinnace.plugins.host.calls import Connection
from pinnace.plugins.host.handshake import Address, parse_handshake, plugin_environment, without_features
from pinnace.plugins.host.options import ProcessLimits
from pinnace.plugins.host.output import LINE_BYTES, PluginLog, drain, relay
from pinnace.plugins.host.parent_death import NOT_STARTED, ended_with_this_process
from pinnace.plugins.protocol.methods import SHUTDOWN, STREAM_STDIO

_RELEASE_SECONDS = 30.0
_UNKNOWN_FEATURES = "unknown flag: --features"


class _Protocol(SubprocessStreamProtocol):
    """Knows of the exit as it happens; `Process.wait` waits for pipes too, which a grandchild may hold."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=LINE_BYTES, loop=loop)
        self.exited = asyncio.Event()
        self.pid: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.SubprocessTransport)
        self.pid = transport.get_pid()

    def process_exited(self) -> None:
        self.exited.set()
        super().process_exited()
        if self.pid is not None:
            # Its children end with it: now, as later the id may be that of another process group.
            _kill_group(self.pid)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


class PluginProcess:
    """A running plugin. Make it with `start`, end it with `stop`, which never fails."""

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        protocol: _Protocol,
        log: PluginLog,
        limits: ProcessLimits,
    ) -> None:
        self._transport = transport
        self._process = Process(transport, protocol, asyncio.get_running_loop())
        self._exited = protocol.exited
        self._killed = False
        self._log = log
        self._limits = limits
        self._tasks: list[asyncio.Task[None]] = []
        self._address: Address | None = None
        self._connection: Connection | None = None

    @classmethod
    async def start(
        cls,
        program: Path,
        arguments: Sequence[str],
        log: PluginLog,
        *,
        environ: Mapping[str, str],
        limits: ProcessLimits,
    ) -> Self:
        """Start a program and connect to it, without `--features` if it does not know that flag.

        Raises:
            PluginStartError: it cannot be started or is no plugin; nothing is left of it.
        """
        try:
            return await cls._start(program, arguments, log, environ, limits)
        except PluginStartError as error:
            if _UNKNOWN_FEATURES not in str(error):
                raise
        return await cls._start(program, without_features(arguments), log, environ, limits)

    @classmethod
    async def _start(
        cls,
        program: Path,
        arguments: Sequence[str],
        log: PluginLog,
        environ: Mapping[str, str],
        limits: ProcessLimits,
    ) -> Self:
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: _Protocol(loop),
                *ended_with_this_process([program, *arguments]),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                env=plugin_environment(environ),
                start_new_session=True,  # a Ctrl-C is ours to handle, and the group ends with its leader
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PluginStartError(f"plugin {program} cannot be started: {reason}") from error
        started = cls(transport, protocol, log, limits)
        try:
            await started._connect()
        except PluginStartError as error:
            await started.stop()
            raise PluginStartError(f"plugin {program}{_what_happened(error, log.tail)}") from error
        except BaseException:  # cancellation too: a program must not stay behind; passed on
            await started.stop()
            raise
        return started

    async def _connect(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._own(relay(self._process.stderr, self._log))
        line = await self._first_line(self._process.stdout)
        self._address = parse_handshake(line)
        self._own(drain(self._process.stdout))
        self._connection = Connection(self._address.target)
        self._own(self._relay_stdio(self._connection))
        self._log.own("debug", "plugin started")

    async def _first_line(self, stdout: asyncio.StreamReader) -> str:
        reading = asyncio.create_task(stdout.readline())
        ending = asyncio.create_task(self._exited.wait())
        try:
            await asyncio.wait(
                (reading, ending), timeout=self._limits.start, return_when=asyncio.FIRST_COMPLETED
            )
            if not reading.done() and not ending.done():
                raise PluginStartError(
                    f"timeout while waiting for plugin to start: no line within {self._limits.start:g}s"
                )
            if not reading.done():
                # What it printed before its end may still be on the way.
                await asyncio.wait((reading,), timeout=self._limits.notice)
            line = reading.result() if reading.done() else b""
        except ValueError as error:
            raise PluginStartError(
                f"Unrecognized remote plugin message: the first line is longer than {LINE_BYTES} bytes"
            ) from error
        finally:
            for task in (reading, ending):
                task.cancel()
            await asyncio.wait((reading, ending))
        if not line.strip():
            raise PluginStartError(f"plugin exited before we could connect ({await self.how_it_ended()})")
        return line.decode(errors="replace")

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _relay_stdio(self, connection: Connection) -> None:
        """Take what newer Go plugins print after their start; others do not know the method. (PLG 5)"""
        lines = LineSplitter(LINE_BYTES, in_pieces=True)
        try:
            async for data in connection.download("", STREAM_STDIO, Empty(), None):
                for line in lines.feed(data.data):
                    self._log.pass_on(line)
        except PluginCallError:
            return

    @property
    def pid(self) -> int:
        """The process id, which is also that of its group."""
        return self._process.pid

    @property
    def connection(self) -> Connection:
        """The channel to it."""
        assert self._connection is not None
        return self._connection

    @property
    def has_exited(self) -> bool:
        """Whether the process has ended, asked of the kernel: the event loop may not know yet.

        One that was killed here counts as ended, even while the kernel still ends it.
        """
        if self._killed or self._exited.is_set():
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True  # it was already waited for; the loop will be notified

    @property
    def was_killed(self) -> bool:
        """Whether the host killed the process."""
        return self._killed

    async def how_it_ended(self, *, within_seconds: float | None = None) -> str:
        """How the process ended, for an error text; its end is awaited for so long, or for a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.notice if within_seconds is None else within_seconds):
                await self._exited.wait()
        code = self._process.returncode
        if code is None:
            return "it runs, but closed the connection"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """End the process and what it started, at once. Idempotent."""
        self._killed = True
        if not self._exited.is_set():
            _kill_group(self.pid)

    async def stop(self) -> None:
        """Ask the plugin to end, kill it if it does not, and release everything. Idempotent. (PLG 10)

        Cancelled, it kills at once and finishes.
        """
        try:
            await self._ask_to_end()
        finally:
            self.kill()
            try:
                await finish(self._release(), limit_seconds=_RELEASE_SECONDS)
            except TimeoutError:
                self._log.own("warning", f"plugin process {self.pid} was killed and does not end")

    async def _ask_to_end(self) -> None:
        if self._connection is None or self.has_exited:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.stop):
                # Compiled plugins hang up instead of answering: every outcome is as good.
                with contextlib.suppress(PluginCallError):
                    await self._connection.unary("", SHUTDOWN, Empty(), self._limits.stop)
                await self._exited.wait()
                return
        self._log.own("warning", "plugin failed to exit gracefully")

    async def _release(self) -> None:
        await self._exited.wait()
        if self._tasks:
            # The last lines may tell why.
            await asyncio.wait(self._tasks, timeout=self._limits.notice)
        for task in self._tasks:
            task.cancel()
        for failure in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(failure, Exception):
                self._log.own("warning", f"reading the plugin's output failed: {failure}")
        self._tasks.clear()
        if self._connection is not None:
            await self._connection.close()
        self._transport.close()
        if self._address is not None and self._address.socket is not None:
            _remove_socket(Path(self._address.socket))
        self._log.own("debug", f"plugin ended: {await self.how_it_ended()}")


def _what_happened(error: PluginStartError, said: str) -> str:
    if said.startswith(NOT_STARTED):
        return f" {said}"
    return f": {error}; it wrote:\n{said}" if said else f": {error}"


def _remove_socket(path: Path) -> None:
    """A killed plugin leaves its socket; nothing else is touched, whatever the handshake said."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
