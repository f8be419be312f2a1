"""Reads a list page by page, and fetches the next page while one is processed."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Protocol

import msgspec

from pinnace.kube.errors import Gone, InvalidResponse
from pinnace.kube.lists.pages import Page, list_outline, parse_page
from pinnace.kube.resources import APIResource

MAXIMUM_RESTARTS = 3
"""A list that expires this often is not read fast enough to ever end in pages."""


class FetchPage(Protocol):
    """Fetches the body of the page at a continue token ("" for the first)."""

    async def __call__(self, token: str, *, thorough: bool, whole: bool) -> bytes:
        """Fetch it.

        Args:
            thorough: the body is checked completely by `parse_page`; otherwise only at its ends.
            whole: ask for all objects at once, whatever the limit of a page is.
        """
        ...


class _Body(msgspec.Struct, frozen=True):
    content: bytes
    token: str
    restarted: bool


class PageReader:
    """Fetches the pages of one list in order.

    When a continue token has expired (410), the server may offer a token to continue in a newer state; then
    no object comes twice, but the list is no longer a snapshot of one moment. Without an offer, or with
    `consistent`, the list restarts. One that goes on expiring is read without pages, as by client-go.

    A damaged page is fetched again, and so are all pages that were fetched after it.

    Args:
        fetch: fetches one page.
        resource: the listed resource.
        namespace: the listed namespace; "" for all.
        consistent: never continue in a newer state.
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
        self._is_whole = False
        self._turn = asyncio.Lock()

    async def pages(self, prefetch: int) -> AsyncGenerator[Page, None]:
        """Yield the pages; up to `prefetch` of them are fetched ahead of the current one."""
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
                    # Lets the request for the next page be sent before this one is decoded.
                    await asyncio.sleep(0)
                try:
                    page = self._parse(body)
                except InvalidResponse:
                    # The later pages were found through this one, so they cannot be trusted either.
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
        # Pages form a chain: each one names the start of the next. The lock is first come, first served.
        async with self._turn:
            if self._token is None:
                return None
            return await self._read(self._token, restarted=False)

    async def _read(self, token: str, restarted: bool, *, thorough: bool = False) -> _Body:
        """Return the page at a token, or at the token the server offers instead; remember the next token."""
        while True:
            try:
                content = await self._fetch(token, thorough=thorough, whole=self._is_whole)
                break
            except Gone as error:
                if not token:
                    raise
                if self._restarts >= MAXIMUM_RESTARTS:
                    self._is_whole = restarted = True
                    token = ""
                    continue
                self._restarts += 1
                offered = "" if self._consistent else _offered_token(error)
                restarted = restarted or not offered
                token = offered
        outline = list_outline(content)
        following = parse_page(content).continue_token if outline is None else outline.continue_token
        if following and following == token:
            if thorough:
                raise InvalidResponse("the page names itself as the next one")
            return await self._read(token, restarted, thorough=True)  # it may be another page's answer
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
