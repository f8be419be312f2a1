"""Lists of objects: page by page, as a whole, or only counted."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from pinnace.api.objects import JSONObject
from pinnace.kube.answers import check_list
from pinnace.kube.lists.listing import PageReader
from pinnace.kube.lists.pages import Page, parse_page
from pinnace.kube.requesting import RequestClient
from pinnace.kube.resources import APIResource
from pinnace.kube.transport.requests import APIRequest, with_query
from pinnace.kube.transport.timeouts import LIST_TIMEOUT_SECONDS

PAGE_LIMIT = 500
"""The number of objects in a page, as kubectl and client-go request it."""


class ListClient(RequestClient):
    """The lists of an API server, each page checked to be of the resource that was asked for."""

    async def list_pages(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_LIMIT,
        prefetch: int = 3,
        consistent: bool = False,
    ) -> AsyncGenerator[Page, None]:
        """Yield all objects of a resource, page by page, in the server's order.

        Close the iterator (`contextlib.aclosing`) when leaving it early: the next page is in flight.

        Args:
            namespace: None or "" for all namespaces.
            limit: objects a page; 0 for all at once.
            prefetch: number of pages fetched ahead of the current one.
            consistent: see `PageReader`; the whole list is then a snapshot of one moment.

        Raises:
            Gone: the list expired, and without pages too.
            InvalidResponse: a page is truncated, no list, or another list, in every attempt.
        """
        path = resource.path(namespace)

        async def fetch(token: str, *, thorough: bool, whole: bool) -> bytes:
            params = {
                "limit": str(limit) if limit and not whole else "",
                "continue": token,
                "labelSelector": label_selector,
                "fieldSelector": field_selector,
            }
            request = APIRequest(
                method="GET",
                path=with_query(path, params),
                timeout_seconds=max(LIST_TIMEOUT_SECONDS, self._timeout_seconds),
                stall_seconds=self._timeout_seconds,
                comparable=False,
            )
            return await self._sender.fetch(request, checked if thorough else quick)

        def quick(body: bytes) -> bytes:
            return check_list(body, resource)

        def checked(body: bytes) -> bytes:
            parse_page(body, resource=resource, namespace=(namespace or "") if resource.namespaced else "")
            return body

        reader = PageReader(fetch, resource, namespace=namespace or "", consistent=consistent)
        async with aclosing(reader.pages(prefetch)) as pages:
            async for page in pages:
                yield page

    async def list_page(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        limit: int,
        token: str = "",
        label_selector: str = "",
        once: bool = False,
    ) -> Page:
        """Return one page of a list. A token of one version of a kind is valid in its other versions.

        Args:
            token: where the page begins; "" for the first one.
            once: send one request only, whatever passing failure it meets but 429.

        Raises:
            Gone: the token has expired.
            APIStatusError, ConnectionFailed: the failure of the last attempt.
        """
        params = {"limit": str(limit), "continue": token, "labelSelector": label_selector}
        return await self._page(resource, namespace, params, once=once)

    async def count(
        self, resource: APIResource, namespace: str | None = None, *, resource_version: str = ""
    ) -> int | None:
        """Return how many objects a list has at a resource version, or now; None if the server does not say.

        Raises:
            Gone: the server does not keep this version any more.
            APIStatusError, ConnectionFailed: the failure of the last attempt.
        """
        params = {
            "limit": "1",
            "resourceVersion": resource_version,
            "resourceVersionMatch": "Exact" if resource_version else "",
        }
        return (await self._page(resource, namespace, params)).total

    async def list_version(self, resource: APIResource, namespace: str | None = None) -> str:
        """Return the resourceVersion for a watch of every change after this call.

        Raises:
            APIStatusError, ConnectionFailed: the failure of the last attempt.
        """
        return (await self._page(resource, namespace, {"limit": "1"})).resource_version

    async def _page(
        self, resource: APIResource, namespace: str | None, params: dict[str, str], *, once: bool = False
    ) -> Page:
        request = APIRequest(
            method="GET",
            path=with_query(resource.path(namespace), params),
            timeout_seconds=self._timeout_seconds,
            comparable=False,
            once=once,
        )
        within = (namespace or "") if resource.namespaced else ""
        return await self._sender.fetch(request, partial(parse_page, resource=resource, namespace=within))

    async def list_all(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_LIMIT,
    ) -> list[JSONObject]:
        """Return all objects of a resource, decoded; for lists known to be short."""
        items, _ = await self.list_with_version(
            resource, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
        )
        return items

    async def list_with_version(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_LIMIT,
    ) -> tuple[list[JSONObject], str]:
        """Like `list_all`, with the resourceVersion for a watch of every later change."""
        items: list[JSONObject] = []
        version = ""
        pages = self.list_pages(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            consistent=True,
        )
        async with aclosing(pages) as opened:
            async for page in opened:
                if page.restarted:
                    items.clear()
                items.extend(item.view() for item in page.items)
                version = page.resource_version
        return items, version
