"""Collects the inputs for the choice of API versions, and chooses. (docs/spec: RST 7)"""

from collections.abc import Collection

from pinnace.archive.reader import ArchiveIndex
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import CONFIGMAPS
from pinnace.notices.codes import Code
from pinnace.notices.notice import notice_of
from pinnace.restore.cluster import ClusterClient
from pinnace.restore.errors import SetupError
from pinnace.restore.selection.api_versions import (
    CONFIGMAP_KEY,
    CONFIGMAP_NAME,
    Versions,
    choose_directories,
    is_active,
    parse_user_priorities,
)

_FALLBACK_NAMESPACE = "velero"
"""The namespace that v1.6.3 always used, whatever the namespace of its server."""


async def chosen_directories(
    client: ClusterClient,
    discovery: Discovery,
    archive: ArchiveIndex,
    *,
    features: Collection[str],
    format_version: str,
    namespace: str,
) -> dict[str, str]:
    """The version directory to read for each kind; empty if the feature is off or the backup is too old.

    Args:
        namespace: the server's, which is checked first for the user's list.

    Raises:
        SetupError: the user's list exists but cannot be read.
    """
    if not is_active(features, format_version):
        return {}
    sources = {name: archive.version_dirs(name) for name in archive.resources}
    preferences = await _user_priorities(client, namespace)
    return choose_directories(sources, _targets(discovery), preferences)


def _targets(discovery: Discovery) -> dict[str, Versions]:
    return {
        group.name: Versions(group.preferred_version, discovery.group_versions(group.name))
        for group in discovery.groups
    }


async def _user_priorities(client: ClusterClient, namespace: str) -> dict[str, tuple[str, ...]]:
    for place in dict.fromkeys((namespace, _FALLBACK_NAMESPACE)):
        if not place:
            continue
        try:
            found = await client.get(CONFIGMAPS, CONFIGMAP_NAME, place)
        except NotFound:
            continue
        except KubeError as error:
            raise SetupError(
                notice_of(error, Code.CLUSTER_FAULT, f"choosing API version to restore: {error}")
            ) from error
        return parse_user_priorities((found.get("data") or {}).get(CONFIGMAP_KEY, ""))
    return {}
