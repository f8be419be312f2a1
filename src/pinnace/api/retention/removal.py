"""Why a backup is removed: what the request for its deletion and the signed note of its removal say. Pure."""

from enum import StrEnum

from pinnace.api import labels
from pinnace.api.objects import JSONObject, text


class RemovalReason(StrEnum):
    """Why a backup is removed; the value is that of the annotation and of the note."""

    EXPIRY = "expiry"
    """Its time to live has ended."""
    RULE = "rule"
    """No rule of retention keeps it."""
    REQUEST = "request"
    """Somebody asked for it."""


def removal_reason(request: JSONObject) -> RemovalReason:
    """Why a DeleteBackupRequest was made; those of Velero and of people say nothing, and are requests."""
    said = text(request, "metadata", "annotations", labels.REMOVAL_REASON)
    return RemovalReason(said) if said in [*RemovalReason] else RemovalReason.REQUEST
