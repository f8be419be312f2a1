"""Lists the objects of a resource for a backup, and checks that the lists are complete. (ADR 028)

Something between this program and the API server may remove objects from a list, which then looks like any
other. But the API server also says how many objects a list had: `remainingItemCount` of a page
of one object, asked for at the resource version of the list, is exact. It is read at the same time.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from pinnace.archive.runlog import RunLog
from pinnace.backup.cluster import Lister
from pinnace.kube.errors import SUSPECTS, InvalidResponse, KubeError
from pinnace.kube.lists.pages import Page
from pinnace.kube.resources import APIResource

ATTEMPTS: Final = 3
"""How often an incomplete list is read before it is an error."""


class _Tally(msgspec.Struct):
    """The count of one list.

    Attributes:
        seen: the objects in its pages.
        version: of its first page.
        is_snapshot: whether all its pages are of that version.
        expected: the objects that the API server says it has at that version; None if it does not say.
        of_namespace: whether the list is of one namespace.
        is_repeated: whether the list was incomplete before.
    """

    seen: int = 0
    version: str = ""
    is_snapshot: bool = True
    expected: int | None = None
    of_namespace: bool = False
    is_repeated: bool = False

    def add(self, page: Page) -> None:
        self.seen += len(page.items)
        self.is_snapshot = self.is_snapshot and page.resource_version == self.version

    @property
    def is_incomplete(self) -> bool:
        return self.is_snapshot and self.expected is not None and self.seen < self.expected


class CompleteLists:
    """Lists of a cluster; those that lack objects are read again.

    Args:
        client: the cluster.
        log: of the backup.
    """

    def __init__(self, client: Lister, log: RunLog) -> None:
        self._client = client
        self._log = log
        self._empty: set[str] = set()

    async def pages(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> AsyncGenerator[Page, None]:
        """Yield all objects, page by page; after an incomplete list objects that were seen come again.

        A list with a label selector is not checked: the API server does not count the objects that match.

        Raises:
            KubeError: as of `Lister.list_pages`.
            InvalidResponse: the list lacked objects in every attempt.
        """
        for attempt in range(ATTEMPTS):
            tally = _Tally(of_namespace=bool(namespace), is_repeated=attempt > 0)
            reading = self._read(tally, resource, namespace, label_selector)
            async with aclosing(reading) as pages:
                async for page in pages:
                    yield page
            if tally.expected == 0 and tally.of_namespace:
                self._empty.add(resource.group_resource)
            if not tally.is_incomplete:
                return
            self._log.info(
                f"The list has {tally.seen} of {tally.expected} objects: reading it again",
                resource=resource.group_resource,
                namespace=namespace or "",
            )
        raise InvalidResponse(
            f"the list has only {tally.seen} of the {tally.expected} objects that the API server counts, "
            f"in each of {ATTEMPTS} attempts. {SUSPECTS}, or left out what this user may not see"
        )

    async def _read(
        self, tally: _Tally, resource: APIResource, namespace: str | None, label_selector: str
    ) -> AsyncGenerator[Page, None]:
        counting: asyncio.Task[int | None] | None = None
        pages = self._client.list_pages(resource, namespace, label_selector=label_selector)
        try:
            async with aclosing(pages):
                async for page in pages:
                    if page.restarted or not tally.version:
                        await _end(counting)
                        tally.seen, tally.version, tally.is_snapshot = 0, page.resource_version, True
                        if tally.version and not label_selector and self._counts(page, tally, resource):
                            counting = asyncio.create_task(self._count(resource, namespace, tally.version))
                    tally.add(page)
                    yield page
            tally.expected = await counting if counting is not None else None
        finally:
            await _end(counting)

    def _counts(self, page: Page, tally: _Tally, resource: APIResource) -> bool:
        """Whether a list that begins with this page is counted.

        Most lists of a backup of some namespaces are empty. An empty list is counted only until one empty
        list of its kind was found to be complete: a fault that hides a kind hides it in every namespace.
        """
        if page.items or page.continue_token or tally.is_repeated or not tally.of_namespace:
            return True
        return resource.group_resource not in self._empty

    async def _count(self, resource: APIResource, namespace: str | None, version: str) -> int | None:
        try:
            return await self._client.count(resource, namespace, resource_version=version)
        except KubeError as error:
            # Servers of other API groups need not keep old versions, and the API server forgets them in time.
            self._log.debug(
                "Cannot check whether the list is complete",
                resource=resource.group_resource,
                namespace=namespace or "",
                error=str(error),
            )
            return None


async def _end(task: asyncio.Task[int | None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
