"""Reads objects whose conversion webhook does not answer, in their stored versions.

The API server stores each object in one version and converts it to the one that is asked for. If the server
of a conversion webhook is gone, a page can be listed only in the stored version of all of its objects.
Objects may be left from the time when another version was stored. (docs/spec: BKP 5.3)
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Final

from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.backup.cluster import ClusterReader
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import ConnectionFailed, KubeError, ServerFault, TooManyRequests
from pinnace.kube.lists.pages import Page
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, KUBERNETES_GROUPS, APIResource

LARGEST_PAGE: Final = 500
CANNOT_ANSWER: Final = (ServerFault, TooManyRequests)
"""The errors of a list whose webhook is away: 500, or 429 while the watch cache cannot be filled for it."""


def may_be_custom(group_resource: str) -> bool:
    """Whether a kind may have a definition: only in groups with a dot, and never in Kubernetes' own.

    This saves requests, and a user who may not read definitions an error for each built-in resource.
    """
    group = group_resource.partition(".")[2]
    return "." in group and group not in KUBERNETES_GROUPS


async def versions_by_storage(
    client: ClusterReader, discovery: Discovery, resource: APIResource, error: KubeError
) -> list[APIResource]:
    """The kind in all served versions: first the one that new objects are stored in, `resource` last.

    Empty if the kind has no conversion webhook, or no other version.

    Args:
        error: of the list in the version of `resource`.
    """
    name = resource.group_resource
    others = [
        other
        for version in discovery.group_versions(resource.group)
        if version != resource.version and (other := discovery.served(name, version)) is not None
    ]
    if not isinstance(error, CANNOT_ANSWER) or not others or not may_be_custom(name):
        return []
    try:
        definition = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except KubeError:
        return []
    if text(mapping(definition, "spec", "conversion"), "strategy") != "Webhook":
        return []
    stored = {text(each, "name") for each in objects(definition, "spec", "versions") if each.get("storage")}
    return [*sorted(others, key=lambda other: other.version not in stored), resource]


async def get_in_any_version(
    client: ClusterReader, discovery: Discovery, resource: APIResource, name: str, namespace: str | None
) -> JSONObject:
    """Get an object; where its conversion webhook does not answer, in its stored version.

    Raises:
        KubeError: the object can be read in no version. The error is that of the version of `resource`.
    """
    try:
        return await client.get(resource, name, namespace)
    except KubeError as error:
        for version in (await versions_by_storage(client, discovery, resource, error))[:-1]:
            with suppress(*CANNOT_ANSWER, ConnectionFailed):
                return await client.get(version, name, namespace)
        raise


class MixedLists:
    """Lists of one kind; each page is in a version that can be read.

    A page that no version has is read again with one object, and the pages after it grow again.

    Args:
        versions: of the kind, the first to try first.

    Attributes:
        used: the versions of the pages that came.
    """

    def __init__(self, client: ClusterReader, versions: Sequence[APIResource]) -> None:
        self._client = client
        self._versions = list(versions)
        self.used: list[str] = []

    async def list_pages(
        self, _resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> AsyncGenerator[Page, None]:
        """Yield all pages of a list. Raises KubeError: an object can be read in no version."""
        token, limit = "", LARGEST_PAGE
        while True:
            page = await self._page(namespace, token, limit, label_selector)
            if page is None:
                limit = 1
                continue
            yield page
            token = page.continue_token
            if not token:
                return
            limit = min(2 * limit, LARGEST_PAGE)

    async def count(
        self, _resource: APIResource, namespace: str | None = None, *, resource_version: str = ""
    ) -> int | None:
        """Count the objects of a list whose first page has just been read."""
        return await self._client.count(self._versions[0], namespace, resource_version=resource_version)

    async def _page(self, namespace: str | None, token: str, limit: int, label_selector: str) -> Page | None:
        """A page in the version of the last one, or the first other one that has it; None if it is too large.

        One object is worth several attempts. With a larger page each would cost seconds.
        """
        tries = [(version, True) for version in self._versions]
        if limit == 1:
            tries += [(version, False) for version in self._versions]
        failure: KubeError | None = None
        for version, once in tries:
            try:
                page = await self._client.list_page(
                    version, namespace, limit=limit, token=token, label_selector=label_selector, once=once
                )
            except (*CANNOT_ANSWER, ConnectionFailed) as error:
                failure = error
                continue
            self._versions.remove(version)
            self._versions.insert(0, version)
            if version.version not in self.used:
                self.used.append(version.version)
            return page
        if failure is not None and limit == 1:
            raise failure
        return None
