"""A stream of messages to a plugin, fed by gRPC's own threads.

Where a plugin answers before everything was sent, the asynchronous client of gRPC loses the answer: the write
under way fails, and its failure takes the place of the status. The synchronous client keeps it, and is faster
with streams besides. (docs/spec: PLG 7.1)
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, Generic

import grpc

from pinnace.plugins.protocol.methods import Method, RequestT, ResponseT

_AHEAD: Final = 2
"""Batches that wait to be sent; a batch is made of one block of the body."""


async def upload(
    channel: grpc.Channel, method: Method[RequestT, ResponseT], batches: AsyncIterator[Sequence[RequestT]]
) -> ResponseT:
    """Send batches of messages and return the one answer. The caller bounds the time.

    When `batches` raises, or the caller is cancelled, so is the call: the plugin sees no proper end.

    Raises:
        grpc.RpcError: the plugin's answer, also one that came early.
    """
    loop = asyncio.get_running_loop()
    answered = asyncio.Event()
    feed = _Feed(loop, batches)
    call: Any = channel.stream_unary(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    ).future(feed.messages())
    call.add_done_callback(lambda _: _in_loop(loop, answered.set))
    feeding = asyncio.create_task(feed.run())
    answering = asyncio.create_task(answered.wait())
    try:
        await asyncio.wait((feeding, answering), return_when=asyncio.FIRST_COMPLETED)
        if not answered.is_set():
            feeding.result()  # a broken body ends the call below
            await answering
    finally:
        call.cancel()  # without effect on one that has its answer
        feed.end()
        for task in (feeding, answering):
            task.cancel()
        await asyncio.wait((feeding, answering))
    response: ResponseT = call.result()
    return response


class _Feed(Generic[RequestT]):
    """From the event loop to the thread that iterates messages for gRPC."""

    def __init__(self, loop: asyncio.AbstractEventLoop, batches: AsyncIterator[Sequence[RequestT]]) -> None:
        self._loop = loop
        self._batches = batches
        self._queue: SimpleQueue[Sequence[RequestT] | None] = SimpleQueue()
        self._slots = asyncio.Semaphore(_AHEAD)

    async def run(self) -> None:
        """Hand on every batch, not faster than they are sent. In the loop."""
        async for batch in self._batches:
            await self._slots.acquire()
            self._queue.put(batch)
        self.end()

    def end(self) -> None:
        """Mark the end of the stream. Idempotent."""
        self._queue.put(None)

    def messages(self) -> Iterator[RequestT]:
        """The messages that gRPC iterates, in its thread."""
        while (batch := self._queue.get()) is not None:
            yield from batch
            _in_loop(self._loop, self._slots.release)


def _in_loop(loop: asyncio.AbstractEventLoop, function: Any) -> None:
    with suppress(RuntimeError):  # the loop is closed: no task waits any more
        loop.call_soon_threadsafe(function)
