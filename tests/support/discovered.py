"""What a scripted API server serves."""

from collections.abc import Iterable
from typing import Any

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
