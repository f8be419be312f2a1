"""Hides the values of Secrets. Pure."""

from typing import Any, Final

from msgspec.structs import replace

from pinnace.api.objects import JSONObject
from pinnace.browse.comparing import Change

HIDDEN: Final = "<hidden>"
HIDDEN_CHANGED: Final = "<hidden, changed>"
_FIELDS: Final = ("data", "stringData")
COPIES: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "banzaicloud.com/last-applied",
        "kapp.k14s.io/original",
        "objectset.rio.cattle.io/applied",
    }
)
"""kubectl and other tools keep the whole object in these annotations, values of Secrets included."""


def is_secret(obj: JSONObject, resource: str) -> bool:
    """Whether the values of an object are hidden unless a user asks for them.

    Args:
        resource: the resource in its path (`plural.group`), as an object may not say what it is.
    """
    return str(obj.get("kind")).lower() == "secret" or resource.partition(".")[0] == "secrets"


def masked(obj: JSONObject, resource: str) -> JSONObject:
    """A Secret with its values hidden; any other object as it is."""
    if not is_secret(obj, resource):
        return obj
    hidden = dict(obj)
    for field in _FIELDS:
        if field in hidden:
            hidden[field] = _hide(hidden[field], HIDDEN)
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and isinstance(annotations := metadata.get("annotations"), dict):
        shown = {key: HIDDEN if key in COPIES else value for key, value in annotations.items()}
        hidden["metadata"] = {**metadata, "annotations": shown}
    return hidden


def masked_pair(old: JSONObject, new: JSONObject, resource: str) -> tuple[JSONObject, JSONObject]:
    """Two versions of a Secret with their values hidden; values that differ are marked as changed."""
    first, second = masked(old, resource), masked(new, resource)
    for field in _FIELDS:
        before, after, shown = old.get(field), new.get(field), second.get(field)
        if isinstance(before, dict) and isinstance(after, dict) and isinstance(shown, dict):
            second[field] = {
                key: HIDDEN if before.get(key) == after[key] or key not in before else HIDDEN_CHANGED
                for key in shown
            }
    return first, second


def masked_change(change: Change) -> Change:
    """A changed field of a Secret with its values hidden."""
    is_value = change.path.split(".")[0].split("[")[0] in _FIELDS
    if not is_value and not any(copy in change.path for copy in COPIES):
        return _without_copies(change)
    shown = HIDDEN if change.is_added else HIDDEN_CHANGED
    return replace(
        change,
        old=None if change.is_added else _hide(change.old, HIDDEN),
        new=None if change.is_removed else _hide(change.new, shown),
    )


def _without_copies(change: Change) -> Change:
    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: HIDDEN if key in COPIES else shown(part) for key, part in value.items()}
        return value

    return replace(change, old=shown(change.old), new=shown(change.new))


def _hide(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        return dict.fromkeys(value, text)
    return None if value is None else text
