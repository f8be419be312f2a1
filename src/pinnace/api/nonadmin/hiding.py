"""Keeps the names of other namespaces out of what a tenant can read. Pure. (docs/spec: NAC 17 A31, ADR 026)

The server sees the whole cluster, and texts of API servers, webhooks and storage may name anything in it. A
text that looks like the name of a namespace is hidden because of its position, never because a namespace of
that name exists: otherwise a tenant could find out which ones exist from what is hidden.
"""

import re
from collections.abc import Callable, Collection
from typing import Any, Final

from pinnace.notices.notice import OWN_PART

HIDDEN: Final = "[hidden]"

_NAME: Final = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_VERSION: Final = re.compile(r"v\d+(?:(?:alpha|beta)\d+)?")
_NO_NAMESPACES: Final = frozenset({"and", "application", "n", "read", "text"})
"""Words before a slash in prose and in media types."""

_PLACES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        # a Service's host: web.shop.svc, also as part of a URL
        rf"(?<![-\w])(?P<name>{_NAME})\.(?P<namespace>{_NAME})(?=\.(?:svc|pod)\b)",
        # a path of the API
        rf"(?<=namespaces/)(?P<namespace>{_NAME})(?![-\w])",
        # namespace "shop", namespace=shop, "namespace": "shop", namespaces: ["shop"]; quotes may be escaped
        rf"(?<![-\w])(?i:namespaces?)(?:\\*[\"'])?\s*(?:[=:]\s*\[?\s*(?:\\*[\"'])?|\\*[\"'])"
        rf"(?!namespaces?\b)(?P<namespace>{_NAME})(?![-\w])",
        # a user
        rf"(?<=serviceaccount:)(?P<namespace>{_NAME}):(?P<name>{_NAME}(?:\.{_NAME})*)",
        rf"(?<=serviceaccounts:)(?P<namespace>{_NAME})(?![-\w])",
        # shop/web, where it is no part of a path, a label or a version
        rf"(?<![-\w./:@%=])(?P<namespace>{_NAME})/(?P<name>{_NAME}(?:\.{_NAME})*)(?![-\w/])",
        rf"(?<=[\s,(\[]|[\"'=])(?P<namespace>{_NAME})/(?P<name>{_NAME}(?:\.{_NAME})*)(?=[\"'\s,;)\]\\]|$)",
    )
)


def hiding_for(tenant: str, server_namespace: str) -> Callable[[str], str]:
    """A function that hides all namespaces but these two, with the names of what lies in them."""
    own = frozenset({tenant, server_namespace})

    def hide(text: str) -> str:
        return hidden(text, own)

    return hide


def hidden(text: str, own: Collection[str]) -> str:
    """A text without the names of other namespaces."""

    def replace(match: re.Match[str]) -> str:
        namespace = match["namespace"]
        name = match.groupdict().get("name") or ""
        if namespace in own or (match[0] == f"{namespace}/{name}" and _is_no_object(namespace, name)):
            return match[0]
        start, end = match.span("namespace")
        if name:
            start, end = min(start, match.start("name")), max(end, match.end("name"))
        offset = match.start()
        return match[0][: start - offset] + HIDDEN + match[0][end - offset :]

    for place in _PLACES:
        text = place.sub(replace, text)
    return text


def _is_no_object(before: str, after: str) -> bool:
    """Whether the words around a slash are a fraction, an API version or prose, and not an object."""
    is_number = not any(character.isalpha() for character in before)
    return (
        is_number
        or before in _NO_NAMESPACES
        or (before, after) == ("included", "excluded")
        or _VERSION.fullmatch(after) is not None
    )


def hidden_in(value: Any, hide: Callable[[str], str]) -> Any:
    """A JSON value with `hide` applied to all its texts, including the names of members."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list):
        return [hidden_in(each, hide) for each in value]
    if isinstance(value, dict):
        return {name: hidden_in(each, hide) for name, each in value.items()}
    return value


def results_without(results: dict[str, Any], tenant: str, hide: Callable[[str], str]) -> dict[str, Any]:
    """The results of a restore, with messages of other namespaces filed under one name."""
    made: dict[str, Any] = {}
    for severity, parts in results.items():
        if severity == OWN_PART:
            made[severity] = {"notices": [_notice_without(each, tenant, hide) for each in parts["notices"]]}
            continue
        made[severity] = {name: hidden_in(part, hide) for name, part in parts.items() if name != "namespaces"}
        namespaces: dict[str, list[str]] = {}
        for namespace, messages in parts.get("namespaces", {}).items():
            namespaces.setdefault(namespace if namespace == tenant else HIDDEN, []).extend(
                hidden_in(messages, hide)
            )
        if namespaces:
            made[severity]["namespaces"] = namespaces
    return made


def _notice_without(notice: dict[str, Any], tenant: str, hide: Callable[[str], str]) -> dict[str, Any]:
    shown: dict[str, Any] = hidden_in(notice, hide)
    return {**shown, "namespace": HIDDEN} if notice.get("namespace", tenant) != tenant else shown
