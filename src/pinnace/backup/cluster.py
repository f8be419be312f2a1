"""The methods of a cluster's client that the engine needs."""

from collections.abc import AsyncGenerator
from typing import Protocol

from pinnace.kube.lists.pages import Page
from pinnace.kube.reading import ObjectReader
from pinnace.kube.resources import APIResource


class Lister(Protocol):
    """Lists and counts the objects of a kind. All failures are KubeErrors."""

    def list_pages(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> AsyncGenerator[Page, None]:
        """All items of a resource, in one namespace or (None) in all, page by page.

        Close it when leaving it early: the next page is in flight.
        """
        ...

    async def count(
        self, resource: APIResource, namespace: str | None = None, *, resource_version: str = ""
    ) -> int | None:
        """How many objects a list of this version, or of now, has; None if the server does not say."""
        ...


class ClusterReader(Lister, ObjectReader, Protocol):
    """A client that lists, counts and gets. All failures are KubeErrors."""

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
        """One page. A token of one version of a kind is valid in its other versions."""
        ...
