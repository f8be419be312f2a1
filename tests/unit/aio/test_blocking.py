"""Work that must not be torn apart by cancellation."""

import asyncio
import threading

import pytest

from pinnace.aio.blocking import finish, in_thread
from pinnace.storage.errors import StorageError
from pinnace.storage.together import together
from tests.support.tasks import settled


async def test_a_cancelled_caller_waits_for_its_thread() -> None:
    started, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    ended = False

    def work() -> None:
        nonlocal ended
        loop.call_soon_threadsafe(started.set)
        assert go_on.wait(30)
        ended = True

    caller = asyncio.create_task(in_thread(work))
    await started.wait()
    caller.cancel()
    await settled()
    assert not caller.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended


async def test_an_exception_of_a_thread_comes_through() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await in_thread(int, "x")


async def test_clean_up_ends_before_the_cancellation_continues() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()
    ended = False

    async def work() -> None:
        nonlocal ended
        started.set()
        await go_on.wait()
        ended = True
        raise StorageError("nobody hears this")

    caller = asyncio.create_task(finish(work(), limit_seconds=30))
    await started.wait()
    caller.cancel()
    await settled()
    caller.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended


async def test_clean_up_has_a_limit() -> None:
    with pytest.raises(TimeoutError):
        await finish(asyncio.Event().wait(), limit_seconds=0.01)


async def test_clean_up_gives_its_result() -> None:
    async def work() -> int:
        return 7

    assert await finish(work(), limit_seconds=30) == 7


async def test_together_combines_what_failed_at_once() -> None:
    both = asyncio.Barrier(2)

    async def fail(text: str) -> None:
        await both.wait()
        raise StorageError(text)

    with pytest.raises(StorageError, match=r"^\[a, c\]$|^\[c, a\]$|^a$|^c$"):
        await together(fail("a"), fail("c"))


async def test_together_cancels_the_others() -> None:
    cancelled = asyncio.Event()
    waiting = asyncio.Event()

    async def wait() -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def fail() -> None:
        await waiting.wait()
        raise StorageError("a")

    with pytest.raises(StorageError, match=r"^a$"):
        await together(wait(), fail())
    assert cancelled.is_set()


async def test_together_lets_other_exceptions_through() -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    with pytest.raises(ExceptionGroup) as caught:
        await together(fail())
    assert caught.group_contains(ValueError)
