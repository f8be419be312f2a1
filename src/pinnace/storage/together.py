"""Several requests to one store at once, and one error for those that failed."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pinnace.storage.errors import StorageError, combined

T = TypeVar("T")
U = TypeVar("U")


async def both(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Run two at once, the first in the caller's task. Its error comes before that of the second."""
    task = asyncio.ensure_future(second)
    try:
        return await first, await task
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # seen, as only one error is raised


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Run all at once; the first failure cancels the others, and is raised combined with what else failed.

    Raises:
        StorageError: one or several of the works failed with one.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for item in work:
                group.create_task(item)
    except BaseExceptionGroup as failures:
        storage, others = failures.split(StorageError)
        if others is not None or storage is None:
            raise
        errors = [error for error in storage.exceptions if isinstance(error, StorageError)]
        raise combined(errors) from failures
