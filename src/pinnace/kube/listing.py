"""Walking through a list page by page, with the next page under way while one is worked on."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from pinnace.kube.errors import Gone, InvalidResponse
from pinnace.kube.pages import Page, list_outline, parse_page
from pinnace.kube.resources import APIResource

MAXIMUM_RESTARTS = 3
"""A list that grows stale this often is not read fast enough to ever end."""


class FetchPage(Protocol):
    """Gets the body of the page at a continue token ("" for the first)."""

    async def __call__(self, token: str, *, thorough: bool) -> bytes:
        """With `thorough`, the body is one that `parse_page` takes; else it only looks like one."""
        ...


@dataclass(frozen=True, slots=True)
class _Body:
    content: bytes
    token: str
    restarted: bool


class PageReader:
    """Fetches the pages of one list in order.

    When the server has forgotten where we were (410), it may offer a token to go on with in a newer
    state; then nothing is seen twice, though the whole is no longer of one moment. Without an offer,
    or with `consistent`, the list begins anew.

    A page that turns out to be damaged is fetched again, and all that was fetched behind it.

    Args:
        fetch: gets one page.
        resource: what is listed.
        namespace: where; "" for all namespaces.
        consistent: never go on in a newer state.
    """

    def __init__(
        self, fetch: FetchPage, resource: APIResource, *, namespace: str = "", consistent: bool
    ) -> None:
        self._fetch = fetch
        self._resource = resource
        self._namespace = namespace if resource.namespaced else ""
        self._consistent = consistent
        self._token: str | None = ""
        self._restarts = 0
        self._turn = asyncio.Lock()

    async def pages(self, prefetch: int) -> AsyncGenerator[Page, None]:
        """The pages; up to `prefetch` of them are fetched ahead of the one handed out."""
        ahead: deque[asyncio.Task[_Body | None]] = deque()
        try:
            while True:
                if not ahead:
                    if self._token is None:
                        return
                    ahead.append(asyncio.create_task(self._next()))
                body = await ahead[0]
                ahead.popleft()
                if body is None:
                    return
                while len(ahead) < prefetch and self._token is not None:
                    ahead.append(asyncio.create_task(self._next()))
                if ahead:
                    # Lets the request for the next page go out before this one is decoded.
                    await asyncio.sleep(0)
                try:
                    page = self._parse(body)
                except InvalidResponse:
                    # What follows was found by it, and cannot be believed either.
                    await _drop(ahead)
                    body = await self._read(body.token, body.restarted, thorough=True)
                    page = self._parse(body)
                yield page
        finally:
            await _drop(ahead)

    def _parse(self, body: _Body) -> Page:
        return parse_page(
            body.content, resource=self._resource, namespace=self._namespace, restarted=body.restarted
        )

    async def _next(self) -> _Body | None:
        # Pages are a chain: each knows where the next begins. The lock serves its waiters in order.
        async with self._turn:
            if self._token is None:
                return None
            return await self._read(self._token, restarted=False)

    async def _read(self, token: str, restarted: bool, *, thorough: bool = False) -> _Body:
        """The page at a token, or where the server says to go on; keeps where the next begins."""
        while True:
            try:
                content = await self._fetch(token, thorough=thorough)
                break
            except Gone as error:
                if not token or self._restarts >= MAXIMUM_RESTARTS:
                    raise
                self._restarts += 1
                offered = "" if self._consistent else _offered_token(error)
                restarted = restarted or not offered
                token = offered
        outline = list_outline(content)
        following = parse_page(content).continue_token if outline is None else outline.continue_token
        self._token = following or None
        return _Body(content, token, restarted)


async def _drop(ahead: deque[asyncio.Task[_Body | None]]) -> None:
    for task in ahead:
        task.cancel()
    await asyncio.gather(*ahead, return_exceptions=True)
    ahead.clear()


def _offered_token(error: Gone) -> str:
    metadata = error.status.get("metadata")
    token = metadata.get("continue") if isinstance(metadata, dict) else None
    return token if isinstance(token, str) else ""
