"""The lists that a backup of a whole cluster makes, and the continue token of a page. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

PAGE_ITEMS = 500
_REQUIRED_VERBS = frozenset({"list", "create", "get", "delete"})
# Built-in kinds have the list's metadata in front, custom resources have it at the end.
_HEAD = re.compile(rb'\{"kind":"[^"]*","apiVersion":"[^"]*","metadata":\{([^{}]*)\}')
_TAIL = re.compile(rb'"metadata":\{([^{}]*)\}\}\s*$')
_TAIL_BYTES = 4096
_CONTINUE = re.compile(rb'"continue":"([^"]*)"')


def list_paths(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """The collections to list.

    Args:
        documents: APIResourceList documents, one a group version, the preferred version of a group first;
            a resource that an earlier version of its group has is left out.
    """
    paths: dict[tuple[str, str], str] = {}
    for document in documents:
        group, _, version = document["groupVersion"].rpartition("/")
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        for resource in document["resources"]:
            served = set(resource.get("verbs", ()))
            if "/" not in resource["name"] and served >= _REQUIRED_VERBS:
                paths.setdefault((group, resource["name"]), f"{prefix}/{resource['name']}")
    # The same events are served by two groups.
    paths.pop(("events.k8s.io", "events"), None)
    return list(paths.values())


def continue_token(page: bytes) -> str:
    """The token for the next page, or an empty text at the end. Does not decode the page."""
    metadata = _HEAD.match(page) or _TAIL.search(page, max(0, len(page) - _TAIL_BYTES))
    token = _CONTINUE.search(metadata[1]) if metadata else None
    return token[1].decode() if token else ""
