"""Parses discovery documents of an API server into groups, versions and resources. Pure.

They have two forms: the aggregated one (`APIGroupDiscoveryList`, Kubernetes 1.26 and later) holds
everything in two documents; the older one has a document for each version of each group.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from pinnace.kube.errors import InvalidResponse
from pinnace.kube.resources import APIResource

AGGREGATED_KIND = "APIGroupDiscoveryList"
_STATUS = "status"


class GroupVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a group. `failure` says why its resources are unknown, if they are.

    Attributes:
        with_status: the plurals of the resources with a status sub-resource.
    """

    version: str
    resources: tuple[APIResource, ...] = ()
    with_status: frozenset[str] = frozenset()
    failure: str = ""


class APIGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One group; `name` is "" for the core group, `versions` in the server's order."""

    name: str
    versions: tuple[GroupVersion, ...]
    preferred_version: str

    def by_preference(self) -> tuple[GroupVersion, ...]:
        """The preferred version, then the others in the server's order."""
        return tuple(sorted(self.versions, key=lambda one: one.version != self.preferred_version))


class _Metadata(msgspec.Struct):
    name: str | None = None


class _ResponseKind(msgspec.Struct):
    kind: str | None = None


class _Subresource(msgspec.Struct):
    subresource: str | None = None


class _AggregatedResource(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str | None = None
    singular_resource: str | None = None
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    subresources: list[_Subresource] | None = None


class _AggregatedVersion(msgspec.Struct):
    version: str
    resources: list[_AggregatedResource] | None = None
    freshness: str | None = None


class _AggregatedGroup(msgspec.Struct):
    metadata: _Metadata | None = None
    versions: list[_AggregatedVersion] | None = None


class _AggregatedList(msgspec.Struct):
    items: list[_AggregatedGroup] | None = None


class _Resource(msgspec.Struct, rename="camel"):
    name: str
    kind: str
    namespaced: bool = False
    singular_name: str | None = None
    verbs: list[str] | None = None
    short_names: list[str] | None = None


class _ResourceList(msgspec.Struct, rename="camel"):
    group_version: str
    resources: list[_Resource] | None = None


class _Version(msgspec.Struct):
    version: str


class _Group(msgspec.Struct, rename="camel"):
    name: str
    versions: list[_Version] | None = None
    preferred_version: _Version | None = None


class _GroupList(msgspec.Struct):
    groups: list[_Group] | None = None


class _CoreVersions(msgspec.Struct):
    versions: list[str] | None = None


class GroupOutline(msgspec.Struct, frozen=True, kw_only=True):
    """A group of the older form, whose resources have not been fetched yet."""

    name: str
    versions: tuple[str, ...]
    preferred_version: str


def is_aggregated(document: Mapping[str, Any]) -> bool:
    """Whether a document has the aggregated form."""
    return document.get("kind") == AGGREGATED_KIND


def parse_aggregated(document: Mapping[str, Any]) -> tuple[APIGroup, ...]:
    """The groups of an aggregated document. Versions come in order of preference.

    Raises:
        InvalidResponse: if it is none.
    """
    parsed = _convert(document, _AggregatedList)
    groups = []
    for group in parsed.items or ():
        name = (group.metadata.name if group.metadata else None) or ""
        versions = tuple(_aggregated_version(name, version) for version in group.versions or ())
        if versions:
            groups.append(APIGroup(name=name, versions=versions, preferred_version=versions[0].version))
    return tuple(groups)


def _aggregated_version(group: str, version: _AggregatedVersion) -> GroupVersion:
    if version.freshness == "Stale":
        # Any resources listed then are from before the group's server became unavailable.
        return GroupVersion(version=version.version, failure="its server did not answer the API server")
    resources = tuple(
        APIResource(
            group=group,
            version=version.version,
            name=resource.resource,
            kind=(resource.response_kind.kind if resource.response_kind else None) or "",
            namespaced=resource.scope == "Namespaced",
            verbs=frozenset(resource.verbs or ()),
            short_names=tuple(resource.short_names or ()),
            singular_name=resource.singular_resource or "",
        )
        for resource in version.resources or ()
        if "/" not in resource.resource
    )
    with_status = frozenset(
        resource.resource
        for resource in version.resources or ()
        if any(each.subresource == _STATUS for each in resource.subresources or ())
    )
    return GroupVersion(version=version.version, resources=resources, with_status=with_status)


def parse_resource_list(document: Mapping[str, Any]) -> tuple[str, GroupVersion]:
    """Group name and version of an `APIResourceList`, without sub-resources.

    Raises:
        InvalidResponse: if it is none.
    """
    parsed = _convert(document, _ResourceList)
    group, _, version = parsed.group_version.rpartition("/")
    resources = tuple(
        APIResource(
            group=group,
            version=version,
            name=resource.name,
            kind=resource.kind,
            namespaced=resource.namespaced,
            verbs=frozenset(resource.verbs or ()),
            short_names=tuple(resource.short_names or ()),
            singular_name=resource.singular_name or "",
        )
        for resource in parsed.resources or ()
        if "/" not in resource.name
    )
    with_status = frozenset(
        plural
        for plural, _, subresource in (resource.name.partition("/") for resource in parsed.resources or ())
        if subresource == _STATUS
    )
    return group, GroupVersion(version=version, resources=resources, with_status=with_status)


def parse_outlines(document: Mapping[str, Any]) -> tuple[GroupOutline, ...]:
    """The groups of an `APIVersions` (`/api`) or `APIGroupList` (`/apis`) document.

    Raises:
        InvalidResponse: if it is neither.
    """
    if document.get("kind") == "APIVersions":
        versions = tuple(_convert(document, _CoreVersions).versions or ())
        return (GroupOutline(name="", versions=versions, preferred_version=versions[0]),) if versions else ()
    outlines = []
    for group in _convert(document, _GroupList).groups or ():
        versions = tuple(version.version for version in group.versions or ())
        preferred = group.preferred_version.version if group.preferred_version else ""
        if versions:
            outlines.append(
                GroupOutline(name=group.name, versions=versions, preferred_version=preferred or versions[0])
            )
    return tuple(outlines)


def assemble(outline: GroupOutline, found: Mapping[str, GroupVersion]) -> APIGroup:
    """A group made of its outline and the versions that were found; the other versions have failed."""
    versions = tuple(
        found.get(version) or GroupVersion(version=version, failure="not found")
        for version in outline.versions
    )
    return APIGroup(name=outline.name, versions=versions, preferred_version=outline.preferred_version)


T = TypeVar("T")


def _convert(document: Mapping[str, Any], shape: type[T]) -> T:
    try:
        return msgspec.convert(document, shape)
    except msgspec.ValidationError as error:
        raise InvalidResponse(f"the server's discovery document is not valid: {error}") from error
