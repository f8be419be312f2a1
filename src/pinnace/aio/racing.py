"""Running work that is cancelled when a stop event is set first."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of the work; None if it was cancelled because `stop` was set first.

    The work has ended when this returns, also when this itself is cancelled.
    """
    working = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, stopped):
            task.cancel()
        await asyncio.wait((working, stopped))
    return None if working.cancelled() and stop.is_set() else working.result()
