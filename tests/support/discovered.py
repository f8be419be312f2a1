"""What a scripted API server serves."""

from collections.abc import Iterable, Mapping
from typing import Any

from pinnace.kube.client import ServerVersion
from pinnace.kube.discovery import Discovery
from pinnace.kube.groups import parse_documents

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


def documented_discovery(
    documents: Iterable[Mapping[str, Any]],
    *,
    server_version: ServerVersion | None = None,
    all_versions: bool = False,
) -> Discovery:
    """What a server with these discovery documents serves."""
    return Discovery(parse_documents(documents), server_version=server_version, all_versions=all_versions)
