"""A fence that a test opens and closes."""

import asyncio

from pinnace.aio.fence import FenceClosed


class TestFence:
    """A Fence.

    Attributes:
        closed: why no write may begin; empty while it is open.
        proven: cleared, writes wait.
        closes_after: how many checks it survives; None for any number.
        dates: those that it heard.
    """

    __test__ = False

    def __init__(self, closed: str = "", *, closes_after: int | None = None) -> None:
        self.closed = closed
        self.proven = asyncio.Event()
        self.proven.set()
        self.closes_after = closes_after
        self.dates: list[str] = []

    async def passed(self) -> None:
        await self.proven.wait()
        self.check()

    def check(self) -> None:
        if self.closes_after is not None:
            self.closes_after -= 1
            if self.closes_after < 0:
                self.closed = "another leads"
        if self.closed:
            raise FenceClosed(self.closed)

    def heard(self, date: str) -> None:
        self.dates.append(date)
