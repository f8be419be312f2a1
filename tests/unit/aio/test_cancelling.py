"""A cancellation that became another error still ends its task, and nothing swallows one."""

import asyncio

import pytest

from pinnace.aio.cancelling import pass_cancellation
from pinnace.aio.racing import unless_stopped
from tests.support.tasks import settled


@pytest.mark.found("K-F4")
async def test_a_cancellation_that_became_another_error_is_raised_after_all() -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass_cancellation(ValueError("not in deque"))

    task = asyncio.create_task(work())
    await settled()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, ValueError)


async def test_a_deadline_that_has_passed_is_no_cancellation() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
    pass_cancellation()


@pytest.mark.found("K-F4")
async def test_work_that_was_cancelled_by_another_is_not_taken_for_a_stop() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await unless_stopped(asyncio.Event(), work())
