"""Chooses the API version of each kind to restore, if a backup holds several. (docs/spec: RST 7)

The choice depends on three inputs: the versions in the backup, those that the cluster serves, and those that
the user prefers. `versions` collects them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pinnace.archive.paths import PREFERRED_SUFFIX

FEATURE: Final = "EnableAPIGroupVersions"
FIRST_FORMAT_WITH_VERSIONS: Final = "1.1.0"
CONFIGMAP_NAME: Final = "enableapigroupversions"
CONFIGMAP_KEY: Final = "restoreResourcesVersionPriority"

_KUBE_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", re.ASCII)
_STABILITY = {None: 0, "beta": 1, "alpha": 2}


class Versions(msgspec.Struct, frozen=True):
    """The versions of one group: all of them, most important first, and the preferred one ("" if unknown)."""

    preferred: str
    all: tuple[str, ...]


def is_active(features: Iterable[str], format_version: str) -> bool:
    """Whether versions are chosen at all for a backup of this format."""
    return FEATURE in features and format_version >= FIRST_FORMAT_WITH_VERSIONS


def version_priority(version: str) -> tuple[int, int, int, int, str]:
    """Sort key of Kubernetes: GA before beta before alpha, higher numbers first, other names last."""
    match = _KUBE_VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    major, stability, minor = match.groups()
    return (0, _STABILITY[stability], -int(major), -int(minor or 0), "")


def in_order(versions: Iterable[str]) -> tuple[str, ...]:
    """Versions by their priority."""
    return tuple(sorted(set(versions), key=version_priority))


def group_of(group_resource: str) -> str:
    """The group of a directory name: everything after the first dot."""
    return group_resource.partition(".")[2]


def source_versions(version_directories: Sequence[str]) -> Versions:
    """The versions of one kind in a backup, from the names of its version directories."""
    preferred = ""
    versions = []
    for directory in version_directories:
        version = directory.removesuffix(PREFERRED_SUFFIX)
        if version != directory:
            preferred = version
        versions.append(version)
    return Versions(preferred, in_order(versions))


def parse_user_priorities(text: str) -> dict[str, tuple[str, ...]]:
    """The user's preferences, a line for each kind: `<resource>.<group>=<v1>,<v2>`; others are ignored."""
    preferences = {}
    for line in text.splitlines():
        parts = "".join(line.split()).split("=")
        if len(parts) == 2 and all(parts):
            preferences[parts[0]] = tuple(version for version in parts[1].split(",") if version)
    return preferences


def choose_version(source: Versions, target: Versions | None, wanted: Sequence[str] = ()) -> str:
    """The version to restore from, by the first rule that applies.

    Args:
        source: the versions in the backup.
        target: the versions of the group that the cluster serves, None if it has no such group.
        wanted: the user's versions, in order of preference.

    Returns:
        A version of the source; "" if it has none.
    """
    if target is None:
        return source.preferred
    for version in wanted:
        if version in target.all and version in source.all:
            return version
    if target.preferred in source.all:
        return target.preferred
    if source.preferred in target.all:
        return source.preferred
    for version in in_order(target.all):
        if version in source.all:
            return version
    return source.preferred


def choose_directories(
    sources: Mapping[str, Sequence[str]],
    targets: Mapping[str, Versions],
    preferences: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """The version directory to read for each kind that has any.

    Args:
        sources: version directories by group-resource.
        targets: served versions by group.
        preferences: the user's versions by group-resource.
    """
    chosen = {}
    for group_resource, directories in sources.items():
        source = source_versions(directories)
        version = choose_version(
            source, targets.get(group_of(group_resource)), preferences.get(group_resource, ())
        )
        if version:
            chosen[group_resource] = version + (PREFERRED_SUFFIX if version == source.preferred else "")
    return chosen
