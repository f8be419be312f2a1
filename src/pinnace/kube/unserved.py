"""Resource names that a cluster does not serve, with suggestions for the intended name. Pure.

A filter that names a resource which is not served selects nothing. Without a message, a misspelt filter
makes an empty backup or restore that looks like a success.
"""

from collections.abc import Iterable

import msgspec

from pinnace.api.selection.names import EVERYTHING, IncludesExcludes, is_glob
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import UnknownResource


class UnservedName(msgspec.Struct, frozen=True):
    """A name in a filter that selects no resource of the cluster; `text` says why, with near matches."""

    name: str
    text: str

    @property
    def is_pattern(self) -> bool:
        """Whether it is a glob, which may rightly match nothing."""
        return is_glob(self.name)


def unserved_names(names: Iterable[str], discovery: Discovery) -> list[UnservedName]:
    """Return the names that select no resource which can be backed up, sorted, each once."""
    wanted = sorted({name for name in names if name not in ("", EVERYTHING)})
    return [found for name in wanted if (found := _unserved(name, discovery)) is not None]


def _unserved(name: str, discovery: Discovery) -> UnservedName | None:
    if is_glob(name):
        pattern = IncludesExcludes([name])
        if any(pattern.matches(resource.group_resource) for resource in discovery.resources):
            return None
        return UnservedName(name, f"the pattern {name!r} matches no resource that the cluster serves")
    try:
        discovery.resolve(name)
    except UnknownResource:
        return UnservedName(name, _reason(name, discovery))
    return None


def _reason(name: str, discovery: Discovery) -> str:
    plural = name.partition(".")[0].lower()
    is_served = any(plural == resource.name for resource in discovery.all_resources)
    if is_served and not any(plural == resource.name for resource in discovery.resources):
        return f"the resource {name!r} cannot be backed up: it cannot be listed, read, created and deleted"
    near = near_names(name, _names(discovery))
    text = f"the cluster serves no resource {name!r}{did_you_mean(near)}"
    if discovery.warnings:
        text += f" (not all groups could be discovered: {'; '.join(discovery.warnings)})"
    return text


def _names(discovery: Discovery) -> Iterable[str]:
    """Every name of every resource, the plain ones first."""
    names: dict[str, None] = {}
    for resource in discovery.resources:
        names.setdefault(resource.name)
    for resource in discovery.resources:
        names.setdefault(resource.singular_name or resource.kind.lower())
        names.setdefault(resource.group_resource)
        for short in resource.short_names:
            names.setdefault(short)
    return names
