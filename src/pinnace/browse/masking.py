"""Hides the values of Secrets. Pure."""

from typing import Any, Final

from msgspec.structs import replace

from pinnace.api.objects import JSONObject
from pinnace.browse.comparing import Change

HIDDEN: Final = "<hidden>"
HIDDEN_CHANGED: Final = "<hidden, changed>"
_FIELDS: Final = ("data", "stringData")
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps the whole object, values of Secrets included."""


def is_secret(obj: JSONObject) -> bool:
    """Whether the values of an object are hidden unless a user asks for them."""
    return str(obj.get("kind")).lower() == "secret"


def masked(obj: JSONObject) -> JSONObject:
    """A Secret with its values hidden; any other object as it is."""
    if not is_secret(obj):
        return obj
    hidden = dict(obj)
    for field in _FIELDS:
        if field in hidden:
            hidden[field] = _hide(hidden[field], HIDDEN)
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and isinstance(annotations := metadata.get("annotations"), dict):
        shown = {key: HIDDEN if key == LAST_APPLIED else value for key, value in annotations.items()}
        hidden["metadata"] = {**metadata, "annotations": shown}
    return hidden


def masked_pair(old: JSONObject, new: JSONObject) -> tuple[JSONObject, JSONObject]:
    """Two versions of a Secret with their values hidden; values that differ are marked as changed."""
    first, second = masked(old), masked(new)
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
    if change.path.split(".")[0].split("[")[0] not in _FIELDS and LAST_APPLIED not in change.path:
        return _without_last_applied(change)
    shown = HIDDEN if change.is_added else HIDDEN_CHANGED
    return replace(
        change,
        old=None if change.is_added else _hide(change.old, HIDDEN),
        new=None if change.is_removed else _hide(change.new, shown),
    )


def _without_last_applied(change: Change) -> Change:
    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: HIDDEN if key == LAST_APPLIED else shown(part) for key, part in value.items()}
        return value

    return replace(change, old=shown(change.old), new=shown(change.new))


def _hide(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        return dict.fromkeys(value, text)
    return None if value is None else text
