"""Whether the running task was cancelled, for code that handles errors of any kind.

A cancellation that was turned into another error on its way must still end the task: it comes only once, so a
worker that goes on would wait for ever for something that has ended.
"""

import asyncio


def is_cancelled() -> bool:
    """Whether the running task was cancelled, whatever became of the CancelledError."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def pass_cancellation(error: BaseException | None = None) -> None:
    """Raise CancelledError if the running task was cancelled.

    Args:
        error: what came out in place of the cancellation; it becomes the cause.
    """
    if is_cancelled():
        raise asyncio.CancelledError from error
