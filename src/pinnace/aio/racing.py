"""Work that is given up when something else comes first."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of the work; None if it was cancelled because `stop` came first.

    Either way the work has ended then. Cancelled, this cancels the work and waits for its end too.
    """
    working = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, stopped):
            task.cancel()
        await asyncio.wait((working, stopped))
    return None if working.cancelled() else working.result()
