"""Walking through a list page by page, with the next page under way while one is worked on."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from pinnace.kube.errors import Gone
from pinnace.kube.pages import Page, cut_continue_token, parse_page
from pinnace.kube.resources import APIResource

MAXIMUM_RESTARTS = 3
"""A list that grows stale this often is not read fast enough to ever end."""

FetchPage = Callable[[str], Awaitable[bytes]]
"""Gets the body of the page at a continue token ("" for the first)."""


@dataclass(frozen=True, slots=True)
class _Body:
    content: bytes
    restarted: bool


class PageReader:
    """Fetches the pages of one list in order.

    When the server has forgotten where we were (410), it may offer a token to go on with in a newer
    state; then nothing is seen twice, though the whole is no longer of one moment. Without an offer,
    or with `consistent`, the list begins anew.

    Args:
        fetch: gets one page.
        resource: what is listed, for items of lists that do not name their kind.
        consistent: never go on in a newer state.
    """

    def __init__(self, fetch: FetchPage, resource: APIResource, *, consistent: bool) -> None:
        self._fetch = fetch
        self._resource = resource
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
                yield parse_page(
                    body.content,
                    api_version=self._resource.api_version,
                    kind=self._resource.kind,
                    restarted=body.restarted,
                )
        finally:
            for task in ahead:
                task.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)

    async def _next(self) -> _Body | None:
        # Pages are a chain: each knows where the next begins. The lock serves its waiters in order.
        async with self._turn:
            if self._token is None:
                return None
            token, restarted = self._token, False
            while True:
                try:
                    content = await self._fetch(token)
                    break
                except Gone as error:
                    if not token or self._restarts >= MAXIMUM_RESTARTS:
                        raise
                    self._restarts += 1
                    offered = "" if self._consistent else _offered_token(error)
                    restarted = restarted or not offered
                    token = offered
            following = cut_continue_token(content)
            if following is None:
                following = parse_page(content).continue_token
            self._token = following or None
            return _Body(content, restarted)


def _offered_token(error: Gone) -> str:
    metadata = error.status.get("metadata")
    token = metadata.get("continue") if isinstance(metadata, dict) else None
    return token if isinstance(token, str) else ""
