"""Builds and parses the paths of items in a backup tarball. Pure. (docs/spec: BKP 14, RST 6)

metadata/version
resources/<group-resource>/<version directory>/namespaces/<namespace>/<name>.json
resources/<group-resource>/<version directory>/cluster/<name>.json
resources/<group-resource>/namespaces/<namespace>/<name>.json      the same without version: the
resources/<group-resource>/cluster/<name>.json                     "legacy" copy, preferred version only
"""

from functools import lru_cache
from typing import NamedTuple

from pinnace.archive.errors import ArchiveError

FORMAT_VERSION = "1.1.0"
"""Version of the tarball layout: minor changes stay readable by older servers. (docs/spec: BKP 14)"""

VERSION_FILE = "metadata/version"
RESOURCES_DIRECTORY = "resources"
CLUSTER_DIRECTORY = "cluster"
NAMESPACES_DIRECTORY = "namespaces"
ITEM_SUFFIX = ".json"
PREFERRED_SUFFIX = "-preferredversion"

_NO_NAMES = frozenset(("", ".", ".."))


def version_dir(version: str, preferred: bool) -> str:
    """Directory of an API version: `v1-preferredversion` for the preferred one, else `v2beta1`."""
    return version + PREFERRED_SUFFIX if preferred else version


def item_path(group_resource: str, version_directory: str | None, namespace: str, name: str) -> str:
    """Path of one item in the tarball.

    Args:
        group_resource: `pods`, `deployments.apps`.
        version_directory: what `version_dir` gave, or None for the copy without version.
        namespace: empty for cluster-scoped items, Namespaces themselves included.
        name: used verbatim; RBAC names keep their colon.

    Raises:
        ArchiveError: a part is empty or would leave its directory. The API server never gives such a
            name, but an action may have renamed the item.
    """
    return item_head(group_resource, version_directory) + item_scope(namespace) + item_file(name)


def item_head(group_resource: str, version_directory: str | None) -> str:
    """The part of an item's path that all items of a resource share, with its last slash."""
    _check_part(group_resource)
    if version_directory:
        return f"{RESOURCES_DIRECTORY}/{group_resource}/{version_directory}/"
    return f"{RESOURCES_DIRECTORY}/{group_resource}/"


def item_scope(namespace: str) -> str:
    """The middle part, which all items of a namespace share, with its last slash."""
    if not namespace:
        return f"{CLUSTER_DIRECTORY}/"
    _check_part(namespace)
    return f"{NAMESPACES_DIRECTORY}/{namespace}/"


def item_file(name: str) -> str:
    """The last part. Raises ArchiveError as `item_path`."""
    _check_part(name)
    return name + ITEM_SUFFIX


def _check_part(part: str) -> None:
    if "/" in part or part in _NO_NAMES or "\0" in part:
        raise ArchiveError(f"{part!r} cannot be the name of a file in the backup")


class ItemLocation(NamedTuple):
    """The parts of an item's path in the tarball."""

    group_resource: str
    version_directory: str
    """Empty for the copy without version."""
    namespace: str
    """Empty for cluster-scoped items."""
    name: str


def parse_item_path(path: str) -> ItemLocation | None:
    """The item at a clean, relative path, or None for anything that is not an item."""
    directory, _, file = path.rpartition("/")
    name = file.removesuffix(ITEM_SUFFIX)
    shared = _parse_directory(directory) if name and name != file else None
    return ItemLocation(*shared, name) if shared is not None else None


@lru_cache(maxsize=256)
def _parse_directory(directory: str) -> tuple[str, str, str] | None:
    """The fields that the items of a directory share; hundreds of neighbours have the same."""
    parts = directory.split("/")
    if parts[0] != RESOURCES_DIRECTORY:
        return None
    version = ""
    if len(parts) > 2 and parts[2] not in (CLUSTER_DIRECTORY, NAMESPACES_DIRECTORY):
        version = parts.pop(2)
    if len(parts) == 3 and parts[2] == CLUSTER_DIRECTORY:
        return parts[1], version, ""
    if len(parts) == 4 and parts[2] == NAMESPACES_DIRECTORY:
        return parts[1], version, parts[3]
    return None
