"""Several requests to one store at once, and one error for those that failed."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from pinnace.storage.errors import StorageError, combined


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
