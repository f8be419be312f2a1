"""Asking an API server for its discovery documents: two requests if it can, one a version if not."""

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
    """All groups, core first. Versions that cannot be discovered carry the reason.

    Raises:
        KubeError: if the server cannot be asked at all, or the core group is not to be had: without
            it, everything that stands on discovery would go wrong in silence.
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
        # The server behind this group fails or hangs; ours is well.
        return GroupVersion(version=version, failure=_one_line(error))


async def _all(calls: Iterable[Coroutine[Any, Any, T]]) -> tuple[T, ...]:
    """The results of all calls, made at once; the first failure ends the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return tuple(task.result() for task in tasks)


def _root_of(path: str) -> Callable[[bytes], dict[str, Any]]:
    """Reads `/api` or `/apis`: one of the two forms, for an empty one would mean that nothing is served."""
    outline = "APIVersions" if path == "/api" else "APIGroupList"

    def read(body: bytes) -> dict[str, Any]:
        document = read_document(body)
        content = "items" if is_aggregated(document) else "versions" if path == "/api" else "groups"
        if document.get("kind") not in (AGGREGATED_KIND, outline) or content not in document:
            raise InvalidResponse("it is no discovery document")
        # What is wrong with it shall be found while it can be asked for again.
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
