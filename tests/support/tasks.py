"""Finding asyncio tasks that a test left behind."""

import asyncio

# Turns of the loop given to tasks that are just about to end: a closed connection's last callback, a task
# that was cancelled and that no other task awaits. Anything longer is a leak.
GRACE_TURNS = 10


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
