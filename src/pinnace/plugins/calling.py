"""Calls of plugins' code: their deadlines, the checks of their answers, and their errors.

The host calls plugins of its own process by `GuardedCaller`; a plugin's program calls them by `contained`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeVar, TypeVarTuple

import msgspec

from pinnace.api.objects import JSONObject
from pinnace.plugins.errors import PluginCallError, PluginPanic, describe
from pinnace.plugins.logs import LogSink, plugin_lines_to
from pinnace.plugins.protocols import ResourceIdentifier

ResultT = TypeVar("ResultT")
Ts = TypeVarTuple("Ts")


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call may take, in seconds.

    Attributes:
        question: what should be answered at once: what a plugin wants, whether an object is there.
        work: an action on an item, a snapshot, a listing; longer than the ten minutes that plugins of CSI
            drivers wait for a snapshot.
        block: between two blocks of an object that is read or written.
    """

    question: float = 60.0
    work: float = 15 * 60.0
    block: float = 5 * 60.0


DEFAULT_DEADLINES: Final = Deadlines()

_END_SECONDS: Final = 5.0
"""How long cancelled code of a plugin may take to end before its caller goes on without it."""


async def contained(function: Callable[[*Ts], Awaitable[ResultT]], *args: *Ts) -> ResultT:
    """Call a plugin's code in a task of its own, so that it cannot end or cancel the caller's task.

    Raises:
        PluginPanic: it cancelled itself, or raised what is no Exception.
        Exception: what else it raised.
        asyncio.CancelledError: the caller was cancelled; the plugin's code was too.
    """
    caller = asyncio.current_task()
    assert caller is not None
    cancellations = caller.cancelling()
    call = asyncio.create_task(_outcome(function, args))
    try:
        await asyncio.wait((call,))
    finally:
        if not call.done():
            call.cancel()
            await asyncio.wait((call,), timeout=_END_SECONDS)
    if caller.cancelling() > cancellations:
        raise asyncio.CancelledError
    if call.cancelled():
        raise PluginPanic("it cancelled itself")
    outcome = call.result()
    if isinstance(outcome, _Raised):
        raise outcome.error
    return outcome


class _Raised(msgspec.Struct, frozen=True):
    error: Exception


async def _outcome(function: Callable[[*Ts], Awaitable[ResultT]], args: tuple[*Ts]) -> "ResultT | _Raised":
    """The answer or the error: a task that raises SystemExit or KeyboardInterrupt ends the event loop."""
    try:
        return await function(*args)
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - foreign code; the caller gets it
        return _Raised(error)
    except BaseException as error:  # noqa: BLE001 - as above
        return _Raised(_panic(error))


def _panic(error: BaseException) -> PluginPanic:
    """The error as one that fails a call only."""
    panic = PluginPanic(describe(error))
    panic.__cause__ = error
    return panic.with_traceback(error.__traceback__)


class MeteredBody:
    """The body of an object on its way into a plugin: every block moves a deadline.

    Attributes:
        error: the error that the body itself raised; it is not an error of the plugin.
    """

    def __init__(self, body: AsyncIterator[bytes], block_seconds: float) -> None:
        self.error: Exception | None = None
        self.deadline: asyncio.Timeout | None = None
        self._body = body
        self._block_seconds = block_seconds

    async def blocks(self) -> AsyncIterator[bytes]:
        """The blocks; once."""
        try:
            async for block in self._body:
                self.extend()
                yield block
        except Exception as error:
            self.error = error
            raise

    def extend(self) -> None:
        """Begin the deadline again."""
        if self.deadline is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time() + self._block_seconds)


class GuardedCaller:
    """Calls one plugin of this process; every failure is a PluginCallError with the plugin's name.

    Args:
        plugin: its name.
        sink: receives its log lines during calls.
    """

    def __init__(self, plugin: str, sink: LogSink, deadlines: Deadlines) -> None:
        self._plugin = plugin
        self._sink = sink
        self._deadlines = deadlines

    async def question(self, function: Callable[[*Ts], Awaitable[ResultT]], *args: *Ts) -> ResultT:
        """Call a function that should answer at once. Raises PluginCallError."""
        return await self._call(contained, (function, *args), asyncio.timeout(self._deadlines.question))

    async def work(self, function: Callable[[*Ts], Awaitable[ResultT]], *args: *Ts) -> ResultT:
        """Call a function that may take long. Raises PluginCallError."""
        return await self._call(contained, (function, *args), asyncio.timeout(self._deadlines.work))

    async def transfer(
        self, body: MeteredBody, function: Callable[[*Ts], Awaitable[ResultT]], *args: *Ts
    ) -> ResultT:
        """Call a function that reads a body, as long as it goes on reading. Raises PluginCallError."""
        body.deadline = asyncio.timeout(self._deadlines.block)
        return await self._call(contained, (function, *args), body.deadline)

    async def blocks(self, open_stream: Callable[[], AsyncIterator[bytes]]) -> AsyncGenerator[bytes, None]:
        """Iterate a stream of the plugin, with a deadline for each block. Raises PluginCallError.

        The stream is read in the caller's task: time-outs inside a generator belong to one task.
        """
        stream: AsyncIterator[bytes] | None = None

        async def following() -> bytes | None:
            nonlocal stream
            stream = stream or open_stream()
            return await anext(stream, None)

        try:
            while (block := await self._next(following)) is not None:
                yield self.checked(block, bytes, "a block of the object")
        finally:
            if isinstance(stream, AsyncGenerator):
                await self.question(stream.aclose)

    async def _next(self, following: Callable[[], Awaitable[bytes | None]]) -> bytes | None:
        return await self._call(following, (), asyncio.timeout(self._deadlines.block))

    async def _call(
        self, function: Callable[[*Ts], Awaitable[ResultT]], args: tuple[*Ts], deadline: asyncio.Timeout
    ) -> ResultT:
        task = asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()
        try:
            with plugin_lines_to(self._sink, self._plugin):
                async with deadline:
                    return await function(*args)
        except asyncio.CancelledError as error:
            if task.cancelling() > cancellations:
                raise
            # Raised by the plugin itself: passed on, it would silently end the calling task.
            raise PluginCallError(self._plugin, "it cancelled itself") from error
        except BaseException as error:
            # Foreign code: whatever it raises fails this call only.
            reason = "it did not answer in time" if deadline.expired() else describe(error)
            raise PluginCallError(self._plugin, reason) from error

    def checked(self, value: object, wanted: type[ResultT], what: str) -> ResultT:
        """The value, if it has the type that the protocol promises. Raises PluginCallError."""
        if not isinstance(value, wanted):
            kind = type(value).__name__
            raise PluginCallError(self._plugin, f"answered {what} as {kind}, not {wanted.__name__}")
        return value


def checked_item(plugin: str, item: object) -> JSONObject:
    """An item that an action returned: an object with a kind, also when it did not change. (PLG 7.3)

    Raises:
        PluginCallError: it is anything else.
    """
    if not isinstance(item, dict) or not item.get("kind") or not isinstance(item.get("kind"), str):
        raise PluginCallError(plugin, "returned an item that is no object with a kind")
    return item


def checked_identifiers(plugin: str, found: object) -> Sequence[ResourceIdentifier]:
    """The additional items that an action named. Raises PluginCallError."""
    if isinstance(found, list | tuple) and all(isinstance(one, ResourceIdentifier) for one in found):
        return found
    raise PluginCallError(plugin, "returned additional items that are no list of ResourceIdentifier")
