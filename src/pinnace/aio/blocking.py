"""Waiting for work that must not be interrupted: blocking calls in threads, and clean-up after a failure."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking call in a worker thread.

    A thread cannot be interrupted. On cancellation this waits until the call has ended, so that no thread
    goes on using a file that its owner closes, and then re-raises.
    """
    return await _to_its_end(asyncio.create_task(asyncio.to_thread(function, *args, **kwargs)))


async def in_own_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As `in_thread`, in a thread of its own: for work of hours, which would keep short calls waiting."""
    executor = ThreadPoolExecutor(max_workers=1)
    call = partial(function, *args, **kwargs)
    try:
        return await _to_its_end(asyncio.get_running_loop().run_in_executor(executor, call))
    finally:
        executor.shutdown(wait=False)


async def finish(work: Coroutine[Any, Any, T], *, limit_seconds: float) -> T:
    """Run clean-up to its end even when the caller is cancelled meanwhile; then re-raise that cancellation.

    Raises:
        TimeoutError: the work took longer than `limit_seconds` and was cancelled.
    """

    async def limited() -> T:
        async with asyncio.timeout(limit_seconds):
            return await work

    return await _to_its_end(asyncio.create_task(limited()))


async def not_interrupted(work: Coroutine[Any, Any, T], *, grace_seconds: float) -> T:
    """Run `work`; on cancellation give it `grace_seconds` to end by itself, then cancel it, then re-raise.

    For a request that its server may carry out although the client hung up: when this returns or raises,
    the request has been answered, so that clean-up can follow and not be overtaken.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await settle({task}, grace_seconds=grace_seconds)
        raise
    return task.result()


async def settle(tasks: "set[asyncio.Task[T]]", *, grace_seconds: float) -> None:
    """Wait for tasks to end, cancel those that have not after `grace_seconds`; their outcomes are dropped."""

    async def wait() -> None:
        _, late = await asyncio.wait(tasks, timeout=grace_seconds)
        for task in late:
            task.cancel()
        await asyncio.wait(tasks)

    if tasks:
        await _to_its_end(asyncio.create_task(wait()))
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it


async def _to_its_end(task: asyncio.Future[T]) -> T:
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it: the caller gets the cancellation
        raise cancelled
    return task.result()
