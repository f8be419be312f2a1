"""Fetches an API server's discovery documents: in two requests, or one for each version on old servers."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pinnace.kube.answers import read_document
from pinnace.kube.errors import APIStatusError, DeadlineExceeded, InvalidResponse, KubeError, Unauthorized
from pinnace.kube.groups import (
    AGGREGATED_KIND,
    APIGroup,
    GroupOutline,
    GroupVersion,
    assemble,
    is_aggregated,
    parse_aggregated,
    parse_outlines,
    parse_resource_list,
)

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient

T = TypeVar("T")

ACCEPT = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json"
)


async def fetch_groups(client: "KubeClient") -> tuple[APIGroup, ...]:
    """Return all groups, core first. Versions that cannot be discovered carry the reason.

    Raises:
        KubeError: the server does not answer, or the core group cannot be discovered: without it, a
            backup would silently be incomplete.
    """
    core, named = await _all((_fetch_root(client, "/api"), _fetch_root(client, "/apis")))
    groups = core + named
    if not any(group.name == "" for group in groups):
        raise InvalidResponse(f"{client.server} serves no core group (/api)")
    for group in groups:
        for version in group.versions:
            if group.name == "" and version.failure:
                raise InvalidResponse(f"discovery of {version.version} failed: {version.failure}")
    return groups


async def _fetch_root(client: "KubeClient", path: str) -> tuple[APIGroup, ...]:
    document = await client.read(path, _root_of(path), accept=ACCEPT)
    if is_aggregated(document):
        return parse_aggregated(document)
    outlines = parse_outlines(document)
    return await _all(_fetch_group(client, outline) for outline in outlines)


async def _fetch_group(client: "KubeClient", outline: GroupOutline) -> APIGroup:
    versions = await _all(_fetch_version(client, outline.name, version) for version in outline.versions)
    return assemble(outline, {version.version: version for version in versions})


async def _fetch_version(client: "KubeClient", group: str, version: str) -> GroupVersion:
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        return await client.read(path, partial(_resources_of, group, version))
    except Unauthorized:
        raise
    except (APIStatusError, DeadlineExceeded, InvalidResponse) as error:
        # The server behind this group fails or hangs; the API server itself works.
        return GroupVersion(version=version, failure=_one_line(error))


async def _all(calls: Iterable[Coroutine[Any, Any, T]]) -> tuple[T, ...]:
    """Run all calls at once and return their results; the first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return tuple(task.result() for task in tasks)


def _root_of(path: str) -> Callable[[bytes], dict[str, Any]]:
    """Return a reader of `/api` or `/apis` that refuses other documents: they would mean no resources."""
    outline = "APIVersions" if path == "/api" else "APIGroupList"

    def read(body: bytes) -> dict[str, Any]:
        document = read_document(body)
        content = "items" if is_aggregated(document) else "versions" if path == "/api" else "groups"
        if document.get("kind") not in (AGGREGATED_KIND, outline) or content not in document:
            raise InvalidResponse("it is no discovery document")
        # Checked here, while the request can still be repeated.
        parse_aggregated(document) if is_aggregated(document) else parse_outlines(document)
        return document

    return read


def _resources_of(group: str, version: str, body: bytes) -> GroupVersion:
    document = read_document(body)
    if document.get("kind") != "APIResourceList" or "resources" not in document:
        raise InvalidResponse("it is no list of resources")
    named, found = parse_resource_list(document)
    if (named, found.version) != (group, version):
        raise InvalidResponse(f"it is about {named}/{found.version}, not {group}/{version}")
    return found


def _one_line(error: KubeError) -> str:
    return " ".join(str(error).split())
