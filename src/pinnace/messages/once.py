"""Tells sinks once, from a process that ends: a command without a server, or a test."""

import asyncio
from collections.abc import Sequence
from typing import Final

from pinnace.messages.errors import SinkError
from pinnace.messages.problem import Notification
from pinnace.messages.settings import SinkSettings
from pinnace.messages.sinks.interface import MessageSink
from pinnace.messages.sinks.opening import open_sink

ATTEMPT_SECONDS: Final = 10.0
_PAUSES_SECONDS: Final = (2.0, 5.0)
"""Before the second and the third try: a command that is done cannot try for an hour."""


async def tell_once(
    sinks: Sequence[SinkSettings], message: Notification, *, tries: int = 3
) -> dict[str, str]:
    """Send a message to all sinks, side by side.

    Returns:
        By the name of each sink why it did not take the message; empty if it did.
    """
    results = await asyncio.gather(*(_tell(open_sink(each.target), message, tries) for each in sinks))
    return {each.name: error for each, error in zip(sinks, results, strict=True)}


async def _tell(sink: MessageSink, message: Notification, tries: int) -> str:
    error = ""
    for pause in (*_PAUSES_SECONDS[: tries - 1], None):
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                await sink.send([message])
        except SinkError as refused:
            error = str(refused)
        except TimeoutError:
            error = f"no answer within {ATTEMPT_SECONDS:g} seconds"
        else:
            return ""
        if pause is not None:
            await asyncio.sleep(pause)
    return error
