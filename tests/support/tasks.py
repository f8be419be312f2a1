"""Letting asyncio tasks go on, and finding those that a test left behind."""

import asyncio

# Turns of the loop given to tasks that are just about to end: a closed connection's last callback, a task
# that was cancelled and that no other task awaits. Anything longer is a leak.
GRACE_TURNS = 10


MOST_TURNS = 100_000
"""A task that takes more turns than these without waiting never waits."""


_settling: set[asyncio.Task[object] | None] = set()


async def settled() -> None:
    """Return when every other task waits: for the test, for time, a thread, or another process.

    Raises:
        AssertionError: a task goes on for ever.
    """
    ready, own = asyncio.get_running_loop()._ready, asyncio.current_task()  # type: ignore[attr-defined]
    _settling.add(own)
    try:
        for _ in range(MOST_TURNS):
            await asyncio.sleep(0)
            if len(ready) < len(_settling):  # others that call this are always ready
                return
    finally:
        _settling.discard(own)
    raise AssertionError(f"a task has not waited for anything in {MOST_TURNS} turns of the loop")


async def leftover_tasks() -> list[asyncio.Task[object]]:
    """Return the tasks of the running loop that still run, other than the caller's."""
    own = asyncio.current_task()
    for _ in range(GRACE_TURNS):
        await asyncio.sleep(0)
    return [task for task in asyncio.all_tasks() if task is not own]


async def cancel(tasks: list[asyncio.Task[object]]) -> None:
    """End leftover tasks, so that one test's leak is not reported for the next."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
