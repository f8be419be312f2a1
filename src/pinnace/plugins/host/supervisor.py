"""Keeps a plugin's process there to be called: starts it at the first call, and again after a crash.

One supervisor stands for one program in one operation. Calls that a crash interrupted are repeated one at a
time on the new process, so that only the call that crashes it again fails. (PLG 10; docs/adr/080)
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from pinnace.plugins.calling import MeteredBody
from pinnace.plugins.errors import PluginCallError, PluginCrashed, PluginError, PluginGone
from pinnace.plugins.host.calls import PluginTimeout
from pinnace.plugins.host.handshake import plugin_arguments
from pinnace.plugins.host.options import LaunchOptions
from pinnace.plugins.host.output import PluginLog
from pinnace.plugins.host.process import PluginProcess
from pinnace.plugins.host.turns import Turns
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.plugins.logs import LogSink
from pinnace.plugins.protocol.methods import SNAPSHOTTER_INIT, STORE_INIT, Method, RequestT, ResponseT
from pinnace.plugins.protocol.velero_pb2 import ObjectStoreInitRequest, VolumeSnapshotterInitRequest

ResultT = TypeVar("ResultT")

MAX_FAILURES: Final = 11
"""After so many failures in a row to start, a program is given up. (docs/spec: PLG 10)"""

MAX_SILENCES: Final = 3
"""After so many calls in a row without an answer in time, a program is given up."""

MAX_CRASHES: Final = 100
"""After so many crashes with no answer in between, a program is given up: each costs a start, about a second.

It is that many as a program may crash on each object of a kind, and do well with the next kind.
"""


class Supervisor:
    """The process of one program, started at the first call. `close` ends it.

    Args:
        program: its executable.
        sink: returns the current sink for its lines.
    """

    def __init__(self, program: Path, options: LaunchOptions, sink: Callable[[], LogSink]) -> None:
        self.program = program
        self.deadlines = options.deadlines
        self._options = options
        self._log = PluginLog(program, sink)
        self._process: PluginProcess | None = None
        self._lock = asyncio.Lock()
        self._configs: dict[PluginId, Mapping[str, str]] = {}
        self._called: set[PluginId] = set()
        self._turns = Turns()
        self._failures = 0
        self._silences = 0
        self._crashes = 0
        self._crashed: PluginProcess | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The id of the current process."""
        return None if self._process is None else self._process.pid

    async def question(
        self, plugin: PluginId, method: Method[RequestT, ResponseT], request: RequestT
    ) -> ResponseT:
        """Call a method that should answer at once. Raises PluginError."""
        return await self._call(plugin, method, request, self.deadlines.question)

    async def work(
        self,
        plugin: PluginId,
        method: Method[RequestT, ResponseT],
        request: RequestT,
        *,
        leaves_behind: str = "",
    ) -> ResponseT:
        """Call a method that may take long. Raises PluginError.

        Args:
            leaves_behind: what the call makes at a provider, and may have made already when it is repeated.
        """
        return await self._call(plugin, method, request, self.deadlines.work, leaves_behind)

    async def init(self, plugin: PluginId, config: Mapping[str, str]) -> None:
        """Configure a plugin, now and after every restart; the last configuration counts. (PLG-028)"""

        async def send(process: PluginProcess) -> None:
            await self._send_init(process, plugin, config)

        await self._answered(plugin, send, self.deadlines.question)
        self._configs[plugin] = dict(config)

    async def upload(
        self,
        plugin: PluginId,
        method: Method[RequestT, ResponseT],
        batches: AsyncIterator[Sequence[RequestT]],
        body: MeteredBody,
    ) -> ResponseT:
        """Call with batches of messages made from `body`. Raises PluginError, and what the body raises."""
        seconds = self.deadlines.block
        async with self._watched(plugin) as process:
            body.deadline = asyncio.timeout(seconds)
            try:
                async with body.deadline:
                    return await process.connection.upload(plugin.name, method, batches)
            except TimeoutError as error:
                if not body.deadline.expired():
                    raise
                raise PluginTimeout(plugin.name, method.name, seconds) from error

    async def download(
        self, plugin: PluginId, method: Method[RequestT, ResponseT], request: RequestT
    ) -> AsyncGenerator[ResponseT, None]:
        """Call a method that answers with a stream. Raises PluginError."""
        has_begun = is_repeated = False
        while True:
            try:
                async with self._watched(plugin) as process:
                    stream = process.connection.download(plugin.name, method, request, self.deadlines.block)
                    async with aclosing(stream):
                        async for response in stream:
                            has_begun = True
                            yield response
                return
            except PluginCrashed:
                if has_begun or is_repeated:
                    raise
                is_repeated = True

    async def close(self) -> None:
        """End the process; nothing can be called any more. Idempotent."""
        async with self._lock:
            self._closed = True
            process, self._process = self._process, None
            if process is not None:
                await process.stop()

    async def _call(
        self,
        plugin: PluginId,
        method: Method[RequestT, ResponseT],
        request: RequestT,
        deadline_seconds: float,
        leaves_behind: str = "",
    ) -> ResponseT:
        async def ask(process: PluginProcess) -> ResponseT:
            return await process.connection.unary(plugin.name, method, request, deadline_seconds)

        return await self._answered(plugin, ask, deadline_seconds, leaves_behind)

    async def _answered(
        self,
        plugin: PluginId,
        call: Callable[[PluginProcess], Awaitable[ResultT]],
        deadline_seconds: float,
        leaves_behind: str = "",
    ) -> ResultT:
        """The answer to a call, which is repeated once, alone, if the process ends meanwhile."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            if self._turns.are_free and self._is_up and plugin in self._called:
                # A shorter way, with the same effect, for the thousands of calls after the first.
                assert self._process is not None
                with self._turns.running():
                    return await self._judged_call(plugin, self._process, call)
            async with self._turns.together(), self._watched(plugin) as process:
                return await call(process)
        except PluginCrashed as error:
            if error.was_killed and loop.time() - began > deadline_seconds / 2:
                raise  # it may well be one that hangs, as the call that the process was killed for
            level, made = ("warning", f"; there may be {leaves_behind}") if leaves_behind else ("info", "")
            self._log.own(level, f"{error}; the call is repeated alone, on a new process{made}")
        try:
            async with self._turns.alone(), self._watched(plugin) as process:
                return await call(process)
        except PluginCrashed as error:
            raise PluginGone(
                plugin.name, f"{error.reason}, for the second time, while it did nothing else"
            ) from error

    async def _judged_call(
        self, plugin: PluginId, process: PluginProcess, call: Callable[[PluginProcess], Awaitable[ResultT]]
    ) -> ResultT:
        try:
            answer = await call(process)
        except PluginCallError as error:
            await self._judge(plugin, process, error)
            raise
        self._silences = self._crashes = 0
        return answer

    @asynccontextmanager
    async def _watched(self, plugin: PluginId) -> AsyncIterator[PluginProcess]:
        """Give a process to call, and judge it by the end of the call.

        The first call for each plugin of a process is made alone: compiled plugins make their instances
        without locking. (docs/spec: PLG 6.3)
        """
        if not (self._is_up and plugin in self._called):
            async with self._lock:
                process = await self._ready(plugin)
                if plugin not in self._called:
                    async with self._judged(plugin, process):
                        yield process
                    self._called.add(plugin)
                    return
        assert self._process is not None
        async with self._judged(plugin, self._process):
            yield self._process

    @asynccontextmanager
    async def _judged(self, plugin: PluginId, process: PluginProcess) -> AsyncIterator[None]:
        try:
            yield
        except PluginCallError as error:
            await self._judge(plugin, process, error)
            raise
        self._silences = self._crashes = 0

    async def _judge(self, plugin: PluginId, process: PluginProcess, error: PluginCallError) -> None:
        """Kill a process that did not answer in time.

        Raises:
            PluginCrashed: the process ended during the call.
            PluginGone: the process runs and cannot be reached.
        """
        if isinstance(error, PluginTimeout):
            # It hangs, or holds what other calls wait for: the next call starts another one. Calls that were
            # in flight at the same time do not count again.
            if not process.has_exited:
                self._silences += 1
                process.kill()
            return
        if isinstance(error, PluginGone):
            how = await process.how_it_ended(within_seconds=self._options.limits.stop)
            reason = f"{error.reason} ({self.program}: {how})"
            if not process.has_exited:
                raise PluginGone(plugin.name, reason) from error
            if not process.was_killed and process is not self._crashed:  # once for all calls in flight
                self._crashed = process
                self._crashes += 1
            raise PluginCrashed(plugin.name, reason, was_killed=process.was_killed) from error
        self._silences = self._crashes = 0
        if (origin := error.origin) is not None:
            where = f"{origin.file}:{origin.line} {origin.function}"
            self._log.own("debug", f"{error}; raised at {where}")

    @property
    def _is_up(self) -> bool:
        return self._process is not None and not self._process.has_exited

    async def _ready(self, plugin: PluginId) -> PluginProcess:
        """A process that runs and is configured. Raises PluginGone."""
        if self._closed:
            raise PluginGone(
                plugin.name, f"{self.program} was stopped: the operation that it was started for has ended"
            )
        if self._process is not None and self._is_up:
            return self._process
        if self._failures >= MAX_FAILURES:
            raise PluginGone(
                plugin.name,
                "unable to restart plugin process: exceeded maximum number of reset failures"
                f" ({self.program})",
            )
        if self._silences >= MAX_SILENCES:
            raise PluginGone(
                plugin.name, f"{self.program} is given up: {MAX_SILENCES} calls in a row were not answered"
            )
        if self._crashes >= MAX_CRASHES:
            raise PluginGone(
                plugin.name,
                f"{self.program} is given up: it crashed {MAX_CRASHES} times without an answer in between",
            )
        await self._discard()
        try:
            self._process = await self._launch()
        except PluginError as error:
            self._failures += 1
            raise PluginGone(plugin.name, str(error)) from error
        self._failures = 0
        return self._process

    async def _discard(self) -> None:
        ended, self._process = self._process, None
        if ended is not None:
            self._log.own("warning", f"plugin process ended: {await ended.how_it_ended()}; starting it again")
            await ended.stop()

    async def _launch(self) -> PluginProcess:
        options = self._options
        process = await PluginProcess.start(
            self.program,
            plugin_arguments(log_level=options.log_level, features=options.features),
            self._log,
            environ=options.environ,
            limits=options.limits,
        )
        try:
            for plugin, config in self._configs.items():
                await self._send_init(process, plugin, config)
        except BaseException:  # cancellation too: a program must not stay behind; passed on
            await process.stop()
            raise
        self._called = set(self._configs)
        return process

    async def _send_init(self, process: PluginProcess, plugin: PluginId, config: Mapping[str, str]) -> None:
        seconds, name = self.deadlines.question, plugin.name
        if plugin.kind is PluginKind.OBJECT_STORE:
            store = ObjectStoreInitRequest(plugin=name, config=config)
            await process.connection.unary(name, STORE_INIT, store, seconds)
        else:
            snapshotter = VolumeSnapshotterInitRequest(plugin=name, config=config)
            await process.connection.unary(name, SNAPSHOTTER_INIT, snapshotter, seconds)
