"""Lists resources in order while the next few lists are already under way.

Most lists of a cluster are short: what takes time is the round trip, so the first pages of the following
lists are asked for ahead. Only first pages, so that memory is bound by the number of lists ahead, whatever
the size of the resources. (docs/spec: BKP 5.3; one list after the other is allowed, but slow)
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, cast

from pinnace.backup.cluster import ClusterReader
from pinnace.kube.pages import Page
from pinnace.kube.resources import APIResource

LISTS_AHEAD = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCall:
    """One LIST: a resource in one namespace, or ("") in all, or of the cluster."""

    resource: APIResource
    namespace: str


class Listing:
    """One list under way; a failure comes out of `next_page`."""

    def __init__(self, client: ClusterReader, call: ListCall, label_selector: str) -> None:
        self.call = call
        pages = client.list_pages(call.resource, call.namespace or None, label_selector=label_selector)
        self._pages = cast(AsyncGenerator[Page, None], pages)
        self._first = asyncio.create_task(self._fetch(), name=f"list {call.resource.group_resource}")
        self._first_is_taken = False

    async def next_page(self) -> Page | None:
        """The pages in order, the first of them perhaps here already; None at the end.

        Raises:
            KubeError: the list, or its rest, could not be had.
        """
        if not self._first_is_taken:
            self._first_is_taken = True
            return await self._first
        return await self._fetch()

    @property
    def known_items(self) -> int:
        """How many items the list has, as far as its first page tells."""
        if not self._first.done() or self._first.cancelled() or self._first.exception() is not None:
            return 0
        page = self._first.result()
        return len(page.items) + (page.remaining or 0) if page is not None else 0

    async def close(self) -> None:
        """Stop what is under way."""
        self._first.cancel()
        await asyncio.gather(self._first, return_exceptions=True)
        await self._pages.aclose()

    async def _fetch(self) -> Page | None:
        return await anext(self._pages, None)


class ListsAhead:
    """Hands out one listing after the other; a few that follow are begun meanwhile.

    An async context manager: leaving it stops all that are under way.
    """

    def __init__(
        self,
        client: ClusterReader,
        calls: Iterable[ListCall],
        *,
        label_selector: str = "",
        ahead: int = LISTS_AHEAD,
    ) -> None:
        self._client = client
        self._calls = iter(calls)
        self._label_selector = label_selector
        self._ahead = ahead
        self._begun: deque[Listing] = deque()
        self._current: Listing | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        listings = [*self._begun, *([self._current] if self._current else [])]
        self._begun.clear()
        self._current = None
        await asyncio.gather(*(listing.close() for listing in listings))

    async def next(self) -> Listing | None:
        """The next listing in the order of the calls; the one before is closed."""
        if self._current is not None:
            await self._current.close()
        while len(self._begun) <= self._ahead:
            call = next(self._calls, None)
            if call is None:
                break
            self._begun.append(Listing(self._client, call, self._label_selector))
        self._current = self._begun.popleft() if self._begun else None
        return self._current

    @property
    def known_items(self) -> int:
        """Items of the lists ahead, as far as known: for the estimate of the total."""
        return sum(listing.known_items for listing in self._begun)
