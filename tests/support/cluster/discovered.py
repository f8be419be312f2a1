"""The discovery of a scripted API server."""

from collections.abc import Iterable, Mapping
from typing import Any

from pinnace.kube.discovery import Discovery
from pinnace.kube.groups import (
    APIGroup,
    GroupOutline,
    GroupVersion,
    assemble,
    is_aggregated,
    parse_aggregated,
    parse_outlines,
    parse_resource_list,
)
from pinnace.kube.requesting import ServerVersion

ALL = ("create", "delete", "get", "list", "patch", "update", "watch")


def resource(
    name: str,
    kind: str,
    *,
    verbs: Iterable[str] = ALL,
    short: Iterable[str] = (),
    namespaced: bool = True,
    singular: str | None = None,
) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "namespaced": namespaced,
        "verbs": list(verbs),
        "shortNames": list(short),
        "singularName": kind.lower() if singular is None else singular,
    }


def served(group_version: str, *resources: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": list(resources),
    }


def parse_documents(documents: Iterable[Mapping[str, Any]]) -> tuple[APIGroup, ...]:
    """The groups of documents of any form, in their order.

    `APIResourceList`s are merged by group. An `APIGroupList` or `APIVersions`, if there is one, says which
    versions a group has and which it prefers; a version that it names and that has no `APIResourceList`
    has failed. Without one, the versions are those of the lists, the first preferred.

    Raises:
        InvalidResponse: if one is no discovery document.
    """
    groups: list[APIGroup] = []
    outlines: dict[str, GroupOutline] = {}
    listed: dict[str, dict[str, GroupVersion]] = {}
    for document in documents:
        if is_aggregated(document):
            groups.extend(parse_aggregated(document))
        elif document.get("kind") in ("APIVersions", "APIGroupList"):
            outlines.update({outline.name: outline for outline in parse_outlines(document)})
        else:
            name, version = parse_resource_list(document)
            listed.setdefault(name, {})[version.version] = version
    for name, versions in listed.items():
        seen = tuple(versions)
        outlines.setdefault(name, GroupOutline(name=name, versions=seen, preferred_version=seen[0]))
    missing = {outline.name: listed.get(outline.name, {}) for outline in outlines.values()}
    groups.extend(assemble(outline, missing[outline.name]) for outline in outlines.values())
    return tuple(groups)


def documented_discovery(
    documents: Iterable[Mapping[str, Any]],
    *,
    server_version: ServerVersion | None = None,
    all_versions: bool = False,
) -> Discovery:
    """The discovery of a server with these documents."""
    return Discovery(parse_documents(documents), server_version=server_version, all_versions=all_versions)
