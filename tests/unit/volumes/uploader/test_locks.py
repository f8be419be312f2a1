"""Shared and exclusive locks, granted in the order of the requests, also after cancelled ones."""

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from pinnace.volumes.uploader.locks import RepositoryLocks
from tests.support.tasks import settled


def having(*holders: "Holder") -> list[bool]:
    return [holder.has for holder in holders]


class Holder:
    """A task that takes a lock and keeps it until it is told to let go."""

    def __init__(self, holding: AbstractAsyncContextManager[None]) -> None:
        self.has = False
        self._let_go = asyncio.Event()
        self.task = asyncio.create_task(self._hold(holding))

    async def _hold(self, holding: AbstractAsyncContextManager[None]) -> None:
        async with holding:
            self.has = True
            await self._let_go.wait()
        self.has = False

    async def end(self) -> None:
        self._let_go.set()
        await self.task
        await settled()


async def test_a_lock_is_shared_by_many_or_exclusive() -> None:
    locks = RepositoryLocks()
    first, second = Holder(locks.shared("r")), Holder(locks.shared("r"))
    await settled()
    assert having(first, second) == [True, True]

    alone = Holder(locks.exclusive("r"))
    await first.end()
    assert having(alone) == [False]
    await second.end()
    assert having(alone) == [True]

    another = Holder(locks.exclusive("r"))
    await settled()
    assert having(another) == [False]
    await alone.end()
    assert having(another) == [True]
    await another.end()


@pytest.mark.spec("PVL-057")
async def test_a_prune_waits_for_a_backup_and_is_not_overtaken_by_the_next() -> None:
    locks = RepositoryLocks()
    backup = Holder(locks.shared("r"))
    await settled()
    prune = Holder(locks.exclusive("r"))
    await settled()
    late = Holder(locks.shared("r"))
    await settled()
    assert having(backup, prune, late) == [True, False, False]

    await backup.end()
    assert having(prune, late) == [True, False]
    await prune.end()
    assert having(late) == [True]
    await late.end()


async def test_repositories_do_not_wait_for_each_other() -> None:
    locks = RepositoryLocks()
    first, second = Holder(locks.exclusive("a")), Holder(locks.exclusive("b"))
    await settled()
    assert having(first, second) == [True, True]
    await first.end()
    await second.end()


async def test_requests_behind_a_cancelled_one_are_granted() -> None:
    locks = RepositoryLocks()
    sharing = Holder(locks.shared("r"))
    await settled()
    prune = Holder(locks.exclusive("r"))
    await settled()
    late = Holder(locks.shared("r"))
    await settled()

    prune.task.cancel()
    await settled()

    assert having(late) == [True]
    for holder in (sharing, late):
        await holder.end()


async def test_a_request_that_is_cancelled_when_it_is_granted_releases_the_lock() -> None:
    locks = RepositoryLocks()
    first = Holder(locks.exclusive("r"))
    await settled()
    second, third = Holder(locks.exclusive("r")), Holder(locks.exclusive("r"))
    await settled()

    first._let_go.set()
    await asyncio.sleep(0)  # first has released: it is second's turn, which has not run yet
    second.task.cancel()
    await settled()

    assert having(second, third) == [False, True]
    await third.end()


async def test_free_locks_are_forgotten() -> None:
    locks = RepositoryLocks()
    for number in range(5):
        async with locks.exclusive(f"r{number}"), locks.shared("other"):
            pass

    assert locks._locks == {}


@pytest.mark.found("K-F4")
@pytest.mark.parametrize("exclusive", [False, True])
async def test_a_request_cancelled_in_the_turn_of_a_release_is_cancelled(exclusive: bool) -> None:
    locks = RepositoryLocks()
    first = Holder(locks.exclusive("r"))
    await settled()
    second = Holder(locks.exclusive("r") if exclusive else locks.shared("r"))
    await settled()

    first._let_go.set()
    second.task.cancel()
    await asyncio.wait([first.task, second.task])

    assert second.task.cancelled()
    assert locks._locks == {}


@pytest.mark.found("K-F4")
async def test_a_share_is_had_at_once_while_a_granted_one_has_not_run_yet() -> None:
    locks = RepositoryLocks()
    first = Holder(locks.exclusive("r"))
    await settled()
    second = Holder(locks.shared("r"))
    await settled()

    first._let_go.set()
    await asyncio.sleep(0)  # it is second's turn, which has not run yet
    third = Holder(locks.shared("r"))
    await settled()

    assert having(second, third) == [True, True]
    await second.end()
    await third.end()
